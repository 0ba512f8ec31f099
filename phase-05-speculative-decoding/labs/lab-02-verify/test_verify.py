"""Lab 05.2: what a request gets from a step that has drafts."""

from labkit import cases, check, concept, far, walk


def step_of(lab, *chunks):
    """A step of chunks (name, tokens, how many of them are known): the rows from the last known one on are sampled."""
    return lab.StepInput.of(
        lab.Chunk(
            name, tuple(tokens), 20, samples=tuple(lab.Sample(name, row) for row in range(known - 1, len(tokens)))
        )
        for name, tokens, known in chunks
    )


def sampled_of(lab, entries):
    """Tokens by number, and texts for errors."""
    return [entry if isinstance(entry, str) else lab.SampledToken(entry, None) for entry in entries]


def picture(step, entries):
    """Each sample: whose it is, what its row computes, and what the model says there."""
    rows = zip(step.sample_req_ids, step.sample_rows, entries)
    return "\n".join(
        f"row {row}  {name}  computes {step.token_ids[row]:3}  sampled {entry}" for name, row, entry in rows
    )


def outcome(lab, step, entries):
    """Token ids by request, and errors."""
    output = lab.accept(step, sampled_of(lab, entries))
    return {name: [token.token_id for token in tokens] for name, tokens in output.tokens.items()}, dict(output.errors)


@concept("A request gets its right drafts, and the token that the model says behind them.", invariant="I1",
         illustrates=True)  # fmt: skip
@cases(
    no_drafts=([7], [8], [8]),
    none_right=([7, 8, 9], [5, 9, 4], [5]),
    one_right=([7, 8, 9], [8, 5, 4], [8, 5]),
    all_right=([7, 8, 9], [8, 9, 4], [8, 9, 4]),
    four_of_four=([1, 2, 3, 4, 5], [2, 3, 4, 5, 6], [2, 3, 4, 5, 6]),
    equal_tokens=([3, 3, 3], [3, 3, 3], [3, 3, 3]),
    what_the_row_itself_says=([7, 8, 9], [1, 8, 9], [1]),
)
def test_right_drafts(lab, case):
    computed, entries, expected = case
    step = step_of(lab, ("a", computed, 1))
    see = check(picture, step, entries)
    see(f"tokens of a, drafts {computed[1:]}", outcome(lab, step, entries)[0], equals={"a": expected})


@concept(
    "A row behind a wrong draft speaks about another text: it never counts, though it may fit again.", invariant="I2"
)
@cases(
    fits_the_newest=([7, 8, 5, 9], [5, 3, 9, 2], [5]),
    fits_again=([7, 8, 9, 4, 6], [8, 5, 4, 6, 2], [8, 5]),
    first_is_padding=([7, -1, -1], [8, 8, 8], [8]),
)
def test_behind_a_wrong_draft(lab, case):
    computed, entries, expected = case
    step = step_of(lab, ("a", computed, 1))
    see = check(picture, step, entries)
    see(f"tokens of a, drafts {computed[1:]}", outcome(lab, step, entries)[0], equals={"a": expected})


@concept("Each request is verified for itself, wherever its rows lie.", invariant="I3")
@cases(
    wrong_then_right=([("a", [7, 8], 1), ("b", [3, 4], 1)], [5, 1, 4, 6], {"a": [5], "b": [4, 6]}),
    right_then_wrong=([("a", [7, 8], 1), ("b", [3, 4], 1)], [8, 1, 5, 6], {"a": [8, 1], "b": [5]}),
    a_prompt_between=([("a", [7, 8], 1), ("p", [1, 2, 3], 4), ("b", [3, 4], 1)], [5, 1, 4, 6], {"a": [5], "b": [4, 6]}),
    a_prompt_ends=([("p", [1, 2, 3], 3), ("a", [7, 8, 9], 1)], [9, 8, 9, 4], {"p": [9], "a": [8, 9, 4]}),
    known_before_the_drafts=([("a", [1, 2, 7, 8, 9], 3)], [8, 9, 4], {"a": [8, 9, 4]}),
    an_empty_id=([("", [7, 8, 9], 1), ("a", [3], 1)], [8, 5, 4, 6], {"": [8, 5], "a": [6]}),
    ids_that_are_alike=(
        [("a", [7, 8], 1), ("A", [3, 4], 1), (" a", [5, 6], 1), ("a ", [1, 2], 1)],
        [5, 1, 4, 6, 6, 9, 8, 3],
        {"a": [5], "A": [4, 6], " a": [6, 9], "a ": [8]},
    ),
    an_error_of_another=([("a", [7, 8], 1), ("b", [3, 4], 1)], ["", 1, 4, 6], {"b": [4, 6]}),
    ids_that_are_numbers=([("0", [7, 8], 1), ("00", [3, 4], 1)], [5, 1, 4, 6], {"0": [5], "00": [4, 6]}),
)
def test_each_request_for_itself(lab, case):
    chunks, entries, expected = case
    step = step_of(lab, *chunks)
    see = check(picture, step, entries)
    see("tokens of each request", outcome(lab, step, entries)[0], equals=expected)


@concept("An id is told from another one by all of its characters.", invariant="I3")
def test_long_ids(lab):
    length = far(200)
    ids = ["x" * length + last for last in "12"]
    step = step_of(lab, *((name, [7, 8], 1) for name in ids))
    see = check(lambda: f"two requests of one draft each, which is right; their ids have {length} times x, then 1 or 2")
    got = outcome(lab, step, [8, 4, 8, 5])[0]
    see("tokens of the request whose id ends with 1", got.get(ids[0]), equals=[8, 4])
    see("tokens of the request whose id ends with 2", got.get(ids[1]), equals=[8, 5])


@concept("A request may sample from the rows of another one, and rows of two requests may alternate.", invariant="I3",
         illustrates=True)  # fmt: skip
def test_rows_that_alternate(lab):
    order = [lab.Sample(name, row) for row in (0, 1, 2) for name in ("a", "b")]
    step = lab.StepInput.of([lab.Chunk("a", (7, 8, 9), 20, samples=tuple(order))])
    entries = [8, 8, 5, 9, 3, 4]
    see = check(picture, step, entries)
    got = outcome(lab, step, entries)[0]
    see("tokens of a, and of b, which samples from the same rows", got, equals={"a": [8, 5], "b": [8, 9, 4]})


@concept("Where no token can be sampled the request ends; what it got before stays, and only then the error waits.",
         invariant="I4")  # fmt: skip
@cases(
    at_once=([7], ["no"], {}, {"a": "no"}),
    without_a_word=([7], [""], {}, {"a": ""}),
    at_once_with_drafts=([7, 8, 9], ["no", 9, 4], {}, {"a": "no"}),
    twice=([7, 8], ["first", "second"], {}, {"a": "first"}),
    behind_a_right_draft=([7, 8, 9], [8, "no", 4], {"a": [8]}, {}),
    behind_a_right_draft_then_fits=([7, 8, 8], [8, "no", 4], {"a": [8]}, {}),
    behind_a_wrong_draft=([7, 8, 9], [5, "no", "no"], {"a": [5]}, {}),
)
def test_errors(lab, case):
    computed, entries, tokens, errors = case
    step = step_of(lab, ("a", computed, 1))
    see = check(picture, step, entries)
    got = outcome(lab, step, entries)
    see(f"tokens, drafts of a {computed[1:]}", got[0], equals=tokens)
    see("errors", got[1], equals=errors)


@concept("Token 0 is a token like any other.", invariant="I1")
@cases(
    right=([0, 0, 5], [0, 5, 1], [0, 5, 1]),
    wrong=([7, 8, 9], [0, 9, 4], [0]),
    a_wrong_draft=([7, 0, 9], [5, 9, 4], [5]),
    far_numbers=([7, 151_936, 9], [151_936, 9, 4], [151_936, 9, 4]),
    equal_low_bits=([7, 8, 9], [8 + 2**16, 9, 4], [8 + 2**16]),
    beyond_32_bits=([7, 8, 9], [8 + 2**32, 9, 4], [8 + 2**32]),
)
def test_token_0(lab, case):
    computed, entries, expected = case
    step = step_of(lab, ("a", computed, 1))
    see = check(picture, step, entries)
    see(f"tokens of a, drafts {computed[1:]}", outcome(lab, step, entries)[0], equals={"a": expected})


@concept("Any number of drafts and of requests is verified in the same way.", invariant="I1", illustrates=True)
@cases(one_long_run=(1, 1000), many_requests=(300, 3))
def test_sizes(lab, case):
    """The drafts of request i are right up to the i-th one, or all of them where it has fewer."""
    num_requests, num_drafts = case
    truth = [300 + place for place in range(num_drafts + 1)]
    wrong = {i: i % (num_drafts + 1) or num_drafts for i in range(num_requests)}
    chunks = [(str(i), [7, *truth[: wrong[i]], *[5] * (num_drafts - wrong[i])], 1) for i in range(num_requests)]
    see = check(lambda: f"{num_requests} requests, {num_drafts} drafts each")
    entries = [int(str(token)) for _ in range(num_requests) for token in truth]  # equal, and other objects
    got = outcome(lab, step_of(lab, *chunks), entries)[0]
    see("requests that get tokens", len(got), equals=num_requests)
    for i in range(num_requests):
        if got[str(i)] != truth[: wrong[i] + 1]:
            see(f"number of tokens of request {i}", len(got[str(i)]), equals=wrong[i] + 1)
            see(f"tokens of request {i}", got[str(i)], equals=truth[: wrong[i] + 1])


@concept("The tokens are those that were sampled, with their log-probabilities; step and samples stay.", invariant="I5")
def test_as_they_were_sampled(lab):
    step = step_of(lab, ("a", [7, 8, 9], 1))
    sampled = [lab.SampledToken(token, {token: token / 10}) for token in (8, 9, 4)]
    given, before = list(sampled), repr(step)
    see = check(picture, step, [8, 9, 4])
    output = lab.accept(step, sampled)
    see(
        "logprobs of the tokens of a",
        [token.logprobs for token in output.tokens["a"]],
        equals=[{8: 0.8}, {9: 0.9}, {4: 0.4}],
    )
    see(
        "whether they are SampledToken",
        [type(token) is lab.SampledToken for token in output.tokens["a"]],
        equals=[True] * 3,
    )
    see("how many were given", len(sampled), equals=3)
    see("those that were given", [token.token_id for token in sampled], equals=[token.token_id for token in given])
    see("the step", repr(step), equals=before)
    again = lab.accept(step, sampled).tokens
    see("tokens of a, if the same step is verified again", [token.token_id for token in again["a"]], equals=[8, 9, 4])
    failed = lab.accept(step_of(lab, ("a", [7], 1), ("b", [7], 1)), sampled_of(lab, [5, "no"]))
    tokens = [token.token_id for token in output.tokens["a"]]
    see("tokens of a in the first output, looked at after the next steps", tokens, equals=[8, 9, 4])
    see("errors in the first output", dict(output.errors), equals={})
    see("errors of the last step", dict(failed.errors), equals={"b": "no"})
    see("an empty step", outcome(lab, lab.StepInput(), []), equals=({}, {}))
    see("errors of the step before, looked at after it", dict(failed.errors), equals={"b": "no"})


def plan(rng):
    """Steps of some requests, whose drafts are right more often than not."""
    calls = [("steps",)]
    for _ in range(rng.randint(1, 4)):
        chunks, entries = [], []
        for name in rng.sample("abc", rng.randint(1, 3)):
            answers = [rng.randint(0, 2) for _ in range(rng.randint(1, 5))]
            drafts = [token if rng.random() < 0.7 else rng.randint(-1, 2) for token in answers[:-1]]
            known = rng.randint(1, 3)
            chunks.append((name, [5] * known + drafts, known))
            entries += [token if rng.random() < 0.95 else rng.choice(("no", "")) for token in answers]
        calls.append(("accept", chunks, entries))
    return calls


def play(lab, calls):
    for name, *arguments in calls:
        if name == "accept":
            chunks, entries = arguments
            step = step_of(lab, *chunks)
            yield "I1", "tokens by request, and errors", outcome(lab, step, entries), picture(step, entries)


@concept("Whatever is drafted and sampled, a request gets the unbroken run of right drafts and one token more.",
         invariant="I1", illustrates=True, searches=True)  # fmt: skip
def test_any_steps(lab):
    walk(lab, plan, play)
