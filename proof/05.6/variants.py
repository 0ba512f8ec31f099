# === blocks_of_three
"""Other sizes, other drafts and other texts; laws are asserted, and nothing is drawn."""

EDITS = [
    (
        "def make(lab, *, blocks=64, block_size=4, budget=64, k=4",
        "def make(lab, *, blocks=90, block_size=3, budget=50, k=4",
    ),
    ("if random.random() < 0.6 else 7", "if random.random() < 0.5 else 49_999"),
    ("run.found(request, (request.num_tokens - 1) // 4 * 4)", "run.found(request, (request.num_tokens - 1) // 3 * 3)"),
    ("for block_size in (1, 2, 3, 4):", "for block_size in (2, 3, 5):"),
    ("((9, 2), (6, 3), (20, 1))", "((10, 2), (7, 3), (18, 1))"),
    ("[6, 1, 2, 7, 8, 8, 1]", "[6, 5, 1, 2, 9, 8, 1]"),
    ("turn(scheduler, 20), [7])", "turn(scheduler, 20), [9])"),
]


# === one_random_engine
"""Random crowds on random engines, of which every law is asked at once, and a few texts by hand."""

from random import Random


class Guesser:
    def __init__(self, random, truth):
        self.random, self.truth = random, truth

    def propose(self, request, num_tokens):
        done = len(request.output_token_ids)
        coming = self.truth[request.request_id][done : done + num_tokens]
        kind = self.random.randrange(3)
        if kind == 0:
            return coming
        if kind == 1:
            return [3, *coming][:num_tokens]
        cut = self.random.randint(0, num_tokens)
        return [*coming[:cut], 3, *coming[cut + 1 :]][:num_tokens]

    def forget(self, request):
        pass


def truth_of(lab, name, prompt):
    tokens = list(prompt)
    while len(tokens) < len(prompt) + 24:
        tokens.append(lab.next_token(name, tokens))
    return tokens[len(prompt) :]


def life(lab, seed):
    random = Random(seed)
    size, method = random.choice((1, 2, 3, 4)), random.choice(("ngram", "draft_model"))
    kv = lab.KVCacheManager(18 // size + 1, size)
    scheduler = lab.SpeculativeScheduler(
        kv,
        max_num_seqs=4,
        max_num_batched_tokens=random.choice((8, 12, 40)),
        num_speculative_tokens=4,
        speculative=method,
    )
    truth, ends, requests = {}, {}, []
    model, scheduler.proposer = lab.SpeculatingModel(scheduler), Guesser(random, truth)
    for number in range(120):
        if number < 9 and number % 3 == 0:
            name = f"r{number}"
            prompt = [100 * number + i for i in range(random.randint(2, 5))]
            truth[name] = truth_of(lab, name, prompt)
            stop, most = random.choice((3, 5, 50)), random.choice((4, 7, 12))
            stops = () if stop > 20 else (truth[name][stop],)
            request = lab.Request(name, prompt, lab.SamplingParams(max_tokens=most, stop_token_ids=stops))
            ends[name] = truth[name][: min(stop + 1, most)]
            requests.append(request)
            scheduler.add_request(request)
        if not scheduler.has_unfinished_requests():
            continue
        output = scheduler.schedule()
        assert output.scheduled_requests, "nothing is computed"
        assert set(output.drafts) <= {each.request_id for each in output.scheduled_requests}
        sampled = model.execute(output)
        for name, drafts in output.drafts.items():
            (request,) = (each for each in output.scheduled_requests if each.request_id == name)
            done = len(request.output_token_ids)
            right = [a == b for a, b in zip([*drafts, None], truth[name][done:])].index(False)
            assert len(sampled[name]) == right + 1
        if random.random() < 0.1:
            scheduler.abort_request(random.choice(requests).request_id)
        length = {each: len(each.output_token_ids) for each in requests if each.is_finished}
        scheduler.update_from_output(output, sampled)
        assert all(len(each.output_token_ids) == length[each] for each in length)
        for each in output.scheduled_requests:
            if each.finish_reason != "abort" and not each.num_computed_tokens < each.num_tokens - 1:
                other = lab.Request("other", [*each.all_token_ids, 1], lab.SamplingParams(max_tokens=1))
                known = (each.num_tokens - 1) // size * size
                assert kv.get_computed_blocks(other)[1] == known or each.request_id in output.preempted_req_ids
    assert not scheduler.has_unfinished_requests()
    for request in requests:
        got = request.output_token_ids
        expected = ends[request.request_id]
        assert got == (expected[: len(got)] if request.finish_reason == "abort" else expected)


def test_lives(lab):
    for seed in range(80):
        life(lab, seed)


def test_more_lives(lab):
    for seed in range(80, 160):
        life(lab, seed)


def by_hand(lab, *texts):
    """For each text and expected drafts: the request a has the text, its last tokens from the model.

    A draft of 72 behind 70 71 is right before the given tokens come: from then on all drafts are allowed.
    """
    scheduler = lab.SpeculativeScheduler(lab.KVCacheManager(64, 4), max_num_seqs=4, max_num_batched_tokens=64)
    for text, given, expected in texts:
        options = lab.SamplingParams(max_tokens=len(given) + 3)
        scheduler.add_request(lab.Request("a", [70, 71, 72, 73, *text, 70], options))
        for tokens in ([71], [72, given[0]], *([token] for token in given[1:])):
            output = scheduler.schedule()
            scheduler.update_from_output(output, {"a": tokens})
        output = scheduler.schedule()
        assert list(output.drafts.get("a", ())) == expected
        scheduler.update_from_output(output, {"a": [99]})


def test_texts(lab):
    by_hand(lab, ([1, 2, 3, 4, 5, 6], [1, 2], [3, 4, 5, 6]), ([6, 1, 2, 7, 8, 8], [1, 2], [7, 8, 8, 70]))
    by_hand(lab, ([], [4, 4, 4], [4]))
    by_hand(lab, ([1, 2, 3, 5], [1, 8, 9, 6, 7, 8, 9], [6, 7, 8, 9]))


def test_a_long_request(lab):
    scheduler = lab.SpeculativeScheduler(lab.KVCacheManager(900, 4), max_num_seqs=1, max_num_batched_tokens=64)
    scheduler.proposer = Guesser(Random(0), {"a": []})
    scheduler.proposer.propose = lambda request, num_tokens: [5] * num_tokens
    scheduler.add_request(lab.Request("a", [1], lab.SamplingParams(max_tokens=3000)))
    counts = []
    for step in range(600):
        output = scheduler.schedule()
        drafts = list(output.drafts.get("a", ()))
        counts.append(len(drafts))
        scheduler.update_from_output(output, {"a": [*drafts, 6] if step >= 450 else [6]})
    assert all(1 <= sum(counts[start : start + 100]) <= 2 for start in (210, 340))
    assert counts[560:] == [4] * 40
