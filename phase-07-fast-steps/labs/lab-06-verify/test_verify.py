"""Lab 07.6: what stays of a request's own guesses."""

from random import Random

from labkit import cases, check, concept, far, walk


def make(lab, *decoded, window=4, max_tokens=99, stop=()):
    request = lab.VerifiedRequest([7, 8], window, max_tokens, stop)
    for token_id in decoded:
        request.decoded(token_id)
    return request


def draw(request):
    output = request.token_ids[2:]
    kept, rest = output[: request.num_verified], output[request.num_verified :]
    return f"window {request.window}, prompt {request.token_ids[:2]}, verified {kept}, unverified {rest}"


@concept("A window is verified when it is full: one row is the last token before it.", invariant="I1")
@cases(nothing=(4, (), False), two_of_4=(4, (1, 2), False), three_of_4=(4, (1, 2, 3), True), one_of_2=(2, (1,), True),
       one_of_3=(3, (1,), False), two_of_3=(3, (1, 2), True))  # fmt: skip
def test_a_full_window(lab, case):
    window, decoded, expected = case
    request = make(lab, *decoded, window=window)
    check(draw, request)("must_verify()", request.must_verify(), equals=expected)


@concept("A token that would end the request is verified first.", invariant="I1")
@cases(stop=((50,), 99, True), no_stop=((51,), 99, False), last=((1, 2), 2, True), last_but_one=((1,), 2, False),
       zero=((0,), 99, True), last_of_seven=((1,) * 7, 7, True), one_before=((1,) * 6, 7, False))  # fmt: skip
def test_a_guessed_end(lab, case):
    decoded, max_tokens, expected = case
    request = make(lab, *decoded, window=9, max_tokens=max_tokens, stop=(0, 50))
    see = check(draw, request)
    see("must_verify()", request.must_verify(), equals=expected)
    see("is_finished, before it is verified", request.is_finished, equals=False)


@concept("A verification has one shape, however few tokens it verifies.", invariant="I2")
@cases(full=((1, 2, 3), [8, 1, 2, 3]), two=((1, 2), [8, 1, 2, 0]), one=((1,), [8, 1, 0, 0]))
def test_rows(lab, case):
    decoded, expected = case
    request = make(lab, *decoded)
    check(draw, request)("rows()", request.rows(), equals=expected)


@concept("The second window begins with the last verified token.", invariant="I2", illustrates=True)
def test_rows_of_the_second_window(lab):
    request = make(lab, 1, 2, 3)
    see = check(draw, request)
    request.verified([1, 5, 6, 6])
    request.decoded(9)
    see("rows()", request.rows(), equals=[5, 9, 0, 0])


@concept("A token stays while all before it are what the verification gave.", invariant="I3")
@cases(
    all_right=((1, 2, 3), [1, 2, 3, 4], [1, 2, 3, 4]),
    last_wrong=((1, 2, 3), [1, 2, 9, 4], [1, 2, 9]),
    second_wrong=((1, 2, 3), [1, 9, 3, 4], [1, 9]),
    first_wrong=((1, 2, 3), [9, 2, 3, 4], [9]),
    right_again=((1, 1, 1), [1, 2, 1, 1], [1, 2]),
    of_its_own_row=((1, 2, 3), [8, 1, 2, 3], [8]),
    all_alike=((0, 0), [0, 0, 0, 0], [0, 0, 0]),
    few=((1,), [1, 2, 3, 4], [1, 2]),
    none=((), [5, 6, 7, 8], [5]),
    large=((10**6, 10**7, 10**8), [10**6, 10**7, 10**8, 10**9], [10**6, 10**7, 10**8, 10**9]),
)
def test_what_stays(lab, case):
    decoded, given, expected = case
    request = make(lab, *decoded)
    see = check(draw, request)
    given = [int(str(token_id)) for token_id in given]  # equal ids are not one object
    see(f"verified({given})", request.verified(given), equals=expected)
    see("token_ids", list(request.token_ids), equals=[7, 8, *expected])
    see("num_verified", request.num_verified, equals=len(expected))
    see("must_verify()", request.must_verify(), equals=False)


@concept("A prompt ends no request, whatever it ends with.", invariant="I4", illustrates=True)
def test_a_stop_token_in_the_prompt(lab):
    request = make(lab, stop=(8,))
    see = check(draw, request)
    see("is_finished, of a prompt that ends with a stop token", request.is_finished, equals=False)
    request.decoded(1)
    see("must_verify()", request.must_verify(), equals=False)
    request.decoded(8)
    see("must_verify(), of a stop token", request.must_verify(), equals=True)
    see("verified([1, 8, 2, 3])", request.verified([1, 8, 2, 3]), equals=[1, 8])
    see("is_finished", request.is_finished, equals=True)


@concept("Behind a token that ends the request there is none.", invariant="I4")
@cases(
    stop=((1, 50, 3), 99, [1, 50, 3, 4], [1, 50], True),
    length=((1, 2, 3), 3, [1, 2, 3, 4], [1, 2, 3], True),
    stop_at_last=((1, 2, 3), 99, [1, 2, 3, 50], [1, 2, 3, 50], True),
    the_stop_was_a_guess=((1, 50), 99, [1, 2, 3, 0], [1, 2], False),
    a_stop_that_was_no_guess=((1, 2, 3), 99, [50, 2, 3, 4], [50], True),
    the_last_was_a_guess=((1, 2), 2, [3, 4, 0, 0], [3], False),
)
def test_the_end(lab, case):
    decoded, max_tokens, given, expected, ends = case
    request = make(lab, *decoded, max_tokens=max_tokens, stop={50})
    see = check(draw, request)
    see(f"verified({given})", request.verified(given), equals=expected)
    see("is_finished", request.is_finished, equals=ends)
    see("token_ids", list(request.token_ids), equals=[7, 8, *expected])


@concept(
    "What comes of it is what verified steps alone would say, however wrong the guesses are.",
    invariant="I3",
    illustrates=True,
)
@cases(never=0.0, seldom=0.05, often=0.5, always=1.0)
def test_the_same_tokens(lab, case):
    """A model whose next token is a sum of all tokens before it; the share of wrong guesses is given."""
    rng, window, max_tokens = Random(1), 5, far(60, 200)

    def model(tokens):
        return 1 + sum(place * token for place, token in enumerate(tokens, start=1)) % 97

    wanted = [7, 8]
    while len(wanted) < 2 + max_tokens:
        wanted.append(model(wanted))
    request, shown = make(lab, window=window, max_tokens=max_tokens), []
    see = check(lambda: f"window {window}, {case:.0%} of the guesses are wrong")
    for _ in range(6 * max_tokens):
        if request.is_finished:
            break
        if request.must_verify():
            rows, first = request.rows(), 2 + request.num_verified
            texts = [[*request.token_ids[:first], *rows[1 : place + 1]] for place in range(window)]
            shown += request.verified([model(text) for text in texts])
        else:
            guess = model(list(request.token_ids))
            request.decoded(guess if rng.random() >= case else guess + 1)
    see("is_finished", request.is_finished, equals=True)
    see("the tokens that were returned", shown, equals=wanted[2:])
    see("token_ids", list(request.token_ids), equals=wanted)


def plan(rng):
    calls = [("request", rng.randint(2, 5), rng.randint(1, 9))]
    return calls + [("step", rng.randint(1, 3), [rng.randint(1, 3) for _ in range(5)]) for _ in range(20)]


def play(lab, calls):
    request = None
    for name, first, second in calls:
        if name == "request":
            request = make(lab, window=first, max_tokens=second, stop=(3,))
        elif request.is_finished:
            return
        elif request.must_verify():
            before, rows = draw(request), request.rows()
            yield "I2", "rows()", rows, before
            yield "I3", "verified()", request.verified(second[: len(rows)]), before
        else:
            request.decoded(first)
        found = list(request.token_ids), request.num_verified, request.is_finished, request.must_verify()
        yield "I5", "token_ids, num_verified, is_finished and must_verify()", found, draw(request)


@concept("Whatever is guessed and given: the state of the reference.", invariant="I5", illustrates=True, searches=True)
def test_any_steps(lab):
    walk(lab, plan, play)
