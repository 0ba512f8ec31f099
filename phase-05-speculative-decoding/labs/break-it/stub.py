"""Lab 05.6: Break it: tests for speculation (75 minutes). You write the tests.

What must hold is in contract.md. Each test is a function test_...(lab); lab has the engine's names. It is run on
correct engines, where it must be green, and on buggy ones, where at least one of your tests must be red. The first test
is an example, and yours to change.
"""

from random import Random

from labkit import check, todo


def make(lab, *, blocks=64, block_size=4, budget=64, k=4, **options):
    """An engine's scheduler with so many usable blocks."""
    manager = lab.KVCacheManager(blocks + 1, block_size)
    return lab.SpeculativeScheduler(
        manager, max_num_seqs=8, max_num_batched_tokens=budget, num_speculative_tokens=k, **options
    )


def make_request(lab, name, length, max_tokens=12, **options):
    """A prompt of so many tokens that no request of another name has."""
    prompt = [1000 * ord(name[0]) + position for position in range(length)]
    return lab.Request(name, prompt, lab.SamplingParams(max_tokens=max_tokens, **options))


def alone(lab, request, num_tokens):
    """The first num_tokens tokens that the model says to the request when nothing else happens."""
    tokens = list(request.prompt_token_ids)
    for _ in range(num_tokens):
        tokens.append(lab.next_token(request.request_id, tokens))
    return tokens[len(request.prompt_token_ids) :]


class Scripted:
    """A proposer that knows the truth of each request, and makes drafts of what comes next by `tell`."""

    def __init__(self, tell=list):
        self.truth, self.tell = {}, tell

    def propose(self, request, num_tokens):
        done = len(request.output_token_ids)
        return self.tell(self.truth[request.request_id][done : done + num_tokens])

    def forget(self, request):
        pass


def test_right_drafts(lab):
    """All drafts are right: the output is the truth, and eight tokens take three steps, as 1, 2 (one draft) and 5."""
    scheduler = make(lab)
    model, scheduler.proposer = lab.SpeculatingModel(scheduler), Scripted()
    request = make_request(lab, "a", 5, max_tokens=8)
    truth = scheduler.proposer.truth["a"] = alone(lab, request, 16)
    scheduler.add_request(request)
    see = check(lab.draw.scheduler, scheduler)
    for _ in range(3):
        output = scheduler.schedule()
        sampled = model.execute(output)
        scheduler.update_from_output(output, sampled)
    see("the output of a", request.output_token_ids, equals=truth[:8])


def test_what_you_break_first(lab):
    """Yours: rename it, and write more of them."""
    todo("05.6")
