"""Lab 05.1: drafts from the text of the request itself."""

from itertools import product
from random import Random

from labkit import cases, check, concept, far, processor_seconds, scaled, walk


BASES = (
    10,
    31,
    32,
    33,
    37,
    53,
    101,
    127,
    128,
    131,
    256,
    257,
    263,
    512,
    911,
    997,
    1000,
    1009,
    1024,
    4096,
    10_007,
    32_000,
)
BASES += (32_768, 50_257, 65_521, 65_536, 65_537, 65_599, 100_000, 100_003, 100_256, 128_256, 131_071, 131_072, 151_643)
BASES += (151_936, 152_064, 199_999, 200_003, 262_144, 500_000, 524_287, 524_288, 999_983, 10**6, 1_000_003)

MODULI = (2**20, 1_000_003, 2**24, 2**24 - 3, 2**26, 2**28, 2**29 - 3, 998_244_353, 10**9 + 7, 2**31 - 1, 2**31, 2**32)


def make(lab, text, name="a"):
    """A request; text is a list of ints, or a string in which each letter is a token."""
    tokens = [ord(letter) for letter in text] if isinstance(text, str) else text
    return lab.Request(name, tokens, lab.SamplingParams(max_tokens=64))


def picture(*requests):
    """The texts."""
    lines = []
    for request in requests:
        tokens = request.all_token_ids
        shown = "".join(map(chr, tokens)) if 97 <= min(tokens) <= max(tokens) < 123 else " ".join(map(str, tokens))
        lines.append(f"text of {request.request_id}  {shown if len(shown) < 60 else shown[:57] + '...'}")
    return "\n".join(lines)


def drafts_of(lab, proposer, request, num_tokens=4):
    """As a string of letters, or as a list."""
    found = list(proposer.propose(request, num_tokens))
    letters = all(isinstance(token_id, int) and 97 <= token_id < 123 for token_id in found)
    return "".join(map(chr, found)) if letters else found


@concept("What followed the last tokens when they stood there before is the guess.", invariant="I1", illustrates=True)
@cases(
    two=("hereisacatandhere", "isac"),
    of_the_middle=("xyabcdefab", "cdef"),
    nothing_repeats=("abcdefgh", ""),
    one_token=("a", ""),
)
def test_what_followed(lab, case):
    text, expected = case
    request = make(lab, text)
    see = check(picture, request)
    got = drafts_of(lab, lab.NgramProposer(2, 3), request)
    see("drafts, at most 4, with min_n 2 and max_n 3", got, equals=expected)


@concept("The longest match that is allowed counts; what is shorter than min_n or longer than max_n does not.",
         invariant="I1")  # fmt: skip
@cases(
    three_before_two=(2, 3, "bcxabcyabc", "yabc"),
    three_before_one=(1, 3, "cxbabcyabc", "yabc"),
    one_is_too_short=(2, 3, "cxyzabc", ""),
    one_is_allowed=(1, 1, "cxyzabc", "xyza"),
    of_five=(2, 5, "bcdexabcdeyabcde", "yabc"),
    min_is_max=(3, 3, "bcxabcyabc", "yabc"),
    of_1000=(1000, 1000, [*range(700, 1200), 5, *range(200, 1200), 6, 7, 8, 9, *range(200, 1200)], [6, 7, 8, 9]),
    of_150=(2, 150, "yz" + "a" * 148 + "bx" + "za" + "a" * 148 + "b" + "cdef" + "za" + "a" * 148 + "b", "cdef"),
)
def test_the_longest_match(lab, case):
    min_n, max_n, text, expected = case
    request = make(lab, text)
    see = check(picture, request)
    got = drafts_of(lab, lab.NgramProposer(min_n, max_n), request)
    see(f"drafts, at most 4, with min_n {min_n} and max_n {max_n}", got, equals=expected)


@concept("Of several places the first one counts.", invariant="I2")
@cases(
    two=("abxabyab", "xaby"),
    three=("zabxxxabyyyabzzzab", "xxxa"),
    close=("aabaacaa", "baac"),
    not_where_more_is_equal=("bcxabcyabc", "xabc"),
)
def test_the_first_place(lab, case):
    text, expected = case
    request = make(lab, text)
    see = check(picture, request)
    got = drafts_of(lab, lab.NgramProposer(2, 2), request)
    see("drafts, at most 4, with min_n 2 and max_n 2", got, equals=expected)


@concept("The end of the text is where you stand, not a place to look at; a place may overlap with it.", invariant="I3")
@cases(
    a_shorter_one_then=(2, 3, "bcxdabc", "x"),
    the_shortest_then=(1, 3, "cxyzabc", "x"),
    longer_than_the_text=(1, 9, "aba", "b"),
    far_longer_than_the_text=(1, 5_000, "cxyzabc", "x"),
    only_the_end=(3, 3, "abcde", ""),
    all_of_the_text=(2, 2, "ab", ""),
    equal=(2, 2, "aaaa", "a"),
    equal_and_long=(5, 5, "aaaaaa", "a"),
    overlap=(4, 4, "ababab", "a"),
)
def test_the_end_is_no_place(lab, case):
    min_n, max_n, text, expected = case
    request = make(lab, text)
    see = check(picture, request)
    got = drafts_of(lab, lab.NgramProposer(min_n, max_n), request, 1)
    see(f"drafts, at most 1, with min_n {min_n} and max_n {max_n}", got, equals=expected)


@concept("There are as many drafts as were asked for, or as many as the text still has.", invariant="I4")
@cases(
    none=(0, ""), one=(1, "c"), three=(3, "cda"), just_all=(4, "cdab"), too_many=(9, "cdab"),
    far_too_many=(10**6, "cdab"),
)  # fmt: skip
def test_how_many(lab, case):
    num_tokens, expected = case
    request = make(lab, "abcdab")
    see = check(picture, request)
    got = drafts_of(lab, lab.NgramProposer(2, 2), request, num_tokens)
    see(f"propose(request, {num_tokens})", got, equals=expected)


@concept("The text is all that is known at the call: the prompt, and the output, which grows.", invariant="I5")
def test_the_output_counts(lab):
    request, proposer = make(lab, "abc"), lab.NgramProposer(2, 2)
    see = check(picture, request)
    for letters, expected in (("", ""), ("ab", "ca"), ("", "ca"), ("d", ""), ("xcd", ""), ("d", ""), ("xc", "dd")):
        for letter in letters:
            request.append_output_token(ord(letter))
        got = drafts_of(lab, proposer, request, 2)
        see(f"drafts after {letters or 'no token'!r} was appended", got, equals=expected)


@concept("Between two calls a text may grow by any number of tokens.", invariant="I5")
def test_a_text_that_has_grown_much(lab):
    request, proposer, more = make(lab, "ab"), lab.NgramProposer(2, 2), far(5_000)
    see = check(lambda: f"text ab, and then {more:,} different tokens and ab")
    see("drafts of ab", drafts_of(lab, proposer, request), equals="")
    for token_id in (*range(1_000, 1_000 + more), 97, 98):
        request.append_output_token(token_id)
    see("drafts, at most 2", [*proposer.propose(request, 2)], equals=[1_000, 1_001])


@concept("What was kept of a request is gone when it has ended, and other requests are not looked at.", invariant="I5")
def test_each_request_for_itself(lab):
    proposer = lab.NgramProposer(2, 2)
    a, b = make(lab, "abcab"), make(lab, "xabyab", "b")
    again, nothing = make(lab, "qabrsab"), make(lab, "zzyab", "c")
    see = check(picture, a, b, nothing, again)
    proposer.forget(nothing)
    for request, expected in ((a, "ca"), (b, "ya"), (a, "ca"), (nothing, "")):
        see(f"drafts of {request.request_id}", drafts_of(lab, proposer, request, 2), equals=expected)
    proposer.forget(a)
    see("drafts of b when a has ended", drafts_of(lab, proposer, b, 2), equals="ya")
    see("drafts of another request, whose id is a, too", drafts_of(lab, proposer, again, 2), equals="rs")


@concept("Tokens are compared as whole numbers: equal digits or equal bytes are not enough.", invariant="I1")
@cases(
    digits=([1, 23, 9, 12, 3], []),
    shifted_bytes=([0, 256, 7, 0, 1, 9, 8, 0, 1], [9, 8]),
    low_bytes=([5, 6, 7, 5 + 256, 6], []),
    zero_within_others=([7, 0, 2**16, 0, 0, 5, 6, 0, 0], [5, 6]),
    zeros=([0, 0, 4, 0, 0], [4, 0]),
    largest=([2**20 - 1, 0, 4, 2**20 - 1, 0], [4, 2**20 - 1]),
    surrogates=([0xD800, 0xDFFF, 4, 0xD800, 0xDFFF], [4, 0xD800]),
    equal_low_bits=([token for bit in range(8, 20) for token in (5 + 2**bit, 6)] + [5, 6], []),
    the_other_way_round=([6, 5, 9, 5, 6], []),
    equal_sums=([token for i in range(5) for token in (i, 11 - i, 20 + i)] + [5, 6], []),
    equal_differences=([1, 2, 30, 3, 4, 31, 6, 7, 32, 5, 6], []),
    sums_by_weight=([token for base in BASES for token in (6, 3 + base)] + [7, 3], []),
    sums_by_weight_backwards=([token for base in BASES for token in (3 + base, 6)] + [3, 7], []),
)
def test_whole_tokens(lab, case):
    text, expected = case
    request = make(lab, text)
    see = check(picture, request)
    see("drafts, at most 2, with n = 2", list(lab.NgramProposer(2, 2).propose(request, 2)), equals=expected)


@concept("A look changes nothing, and the drafts belong to the caller.", invariant="I5", illustrates=True)
def test_nothing_changes(lab):
    request, proposer = make(lab, "abcab"), lab.NgramProposer(2, 3)
    see = check(picture, request)
    drafts = proposer.propose(request, 4)
    if isinstance(drafts, list):
        drafts.append(0)
    see("drafts of the same text, after the caller changed the first ones", drafts_of(lab, proposer, request), "cab")
    first = proposer.propose(request, 4)
    other = make(lab, "xyzxy", "b")
    see("drafts of another text", drafts_of(lab, proposer, other), equals="zxy")
    see("the drafts before these, looked at afterwards", [*map(chr, first)], equals=["c", "a", "b"])
    for num_tokens, text in ((0, "abcab"), (4, "abcd"), (0, "abcab"), (4, "abcd")):
        nothing = lab.NgramProposer(2, 3).propose(make(lab, text, "c"), num_tokens)
        see(f"drafts of {text}, at most {num_tokens}", [*nothing], equals=[])
        if isinstance(nothing, list):
            nothing.append(0)
    proposer.forget(request)
    parts = (request.all_token_ids, request.prompt_token_ids, request.output_token_ids)
    see("text, prompt and output", [len(part) for part in parts], equals=[5, 5, 0])


@concept("A match is where all tokens are equal: that two n-grams have one hash is not enough.", invariant="I1",
         illustrates=True)  # fmt: skip
def test_equal_hashes(lab):
    """Of 100,000 pairs some have the same hash in Python, if it is taken modulo 2**32, or a prime below."""
    rng, found = Random(2), []
    pairs = [(rng.randrange(2**20), rng.randrange(2**20)) for _ in range(100_000)]
    hashes = [*map(hash, pairs)]
    for modulus in MODULI:
        places, num_found = {}, 0
        for number, pair in zip(hashes, pairs):
            other = places.setdefault(number % modulus, pair)
            if other != pair:
                found.append((*other, *pair))
                num_found += 1
                if num_found == 8:
                    break
    see = check(lambda: "two pairs of tokens with the same hash")
    for first, second, *last in found:
        request = make(lab, [first, second, 7, *last])
        drafts = list(lab.NgramProposer(2, 2).propose(request, 4))
        see(f"drafts of {request.all_token_ids}, with n = 2", drafts, equals=[])


@concept("A match is where all tokens are equal: an equal sum, each token times a number, is none.", invariant="I1",
         illustrates=True)  # fmt: skip
def test_equal_rolling_hashes(lab):
    """Two pairs with equal first * base + second, or first + second * base, modulo a usual prime or a power of 2."""
    found = set()
    for modulus, base in product(MODULI, (*BASES, 2**20, 2**20 + 7)):
        for step in range(1, 2**13):
            rest = step * base % modulus
            rest -= modulus * (rest > modulus // 2)
            if abs(rest) < 2**20:
                first, second = (step, max(-rest, 0)), (0, max(-rest, 0) + rest)
                found |= {(*first, *second), (*first[::-1], *second[::-1])}
                break
    see = check(lambda: "two pairs of tokens with the same hash")
    for first, second, *last in sorted(found):
        request = make(lab, [first, second, 2**20 - 1, *last])
        drafts = list(lab.NgramProposer(2, 2).propose(request, 4))
        see(f"drafts of {request.all_token_ids}, with n = 2", drafts, equals=[])


@concept("Tokens that are all different have no match, however many there are.", invariant="I1", illustrates=True)
def test_no_match_by_chance(lab):
    numbers = Random(5).sample(range(2**20), 3000)
    request, proposer = make(lab, numbers[:2700]), lab.NgramProposer(1, 4)
    see = check(lambda: "up to 3,000 tokens drawn below 2**20, no two of them equal")
    for number in numbers[2700 : 2700 + scaled(300)]:
        request.append_output_token(number)
        drafts = list(proposer.propose(request, 4))
        if drafts:
            see(f"drafts at {len(request.all_token_ids)} tokens, with min_n 1 and max_n 4", drafts, equals=[])
    see("drafts, with min_n 1 and max_n 4", list(proposer.propose(request, 4)), equals=[])


@concept("A match may lie anywhere in a text, however far from its end, and the drafts go on to the end.",
         invariant="I1", illustrates=True)  # fmt: skip
@cases(at_the_beginning=0, in_the_middle=0.5, near_the_end=0.99)
def test_far_away(lab, case):
    length, match = far(140_000, 900_000), [1_000_001, 1_000_002]
    text, place = [*range(100, 100 + length)], int(case * length)
    text[place : place + 2] = match
    request = make(lab, [*text, *(token + len(text) - length for token in match)])  # equal, and other objects
    see = check(lambda: f"{length:,} tokens, {match} at place {place:,}, then {match} again")
    drafts = [*lab.NgramProposer(2, 2).propose(request, 2 * length)]
    rest = request.all_token_ids[place + 2 :]
    see(f"number of drafts, at most {2 * length:,}, with n = 2", len(drafts), equals=len(rest))
    see("drafts", drafts, equals=rest)


@concept("A text of twice the length costs about twice as much, whatever stands in it.", invariant="I6")
@cases(
    equal=lambda i, n: 7,
    pairs=lambda i, n: i % 2,
    all_different=lambda i, n: i,
    nearly_equal=lambda i, n: 7 + i // 1000,
    equal_but_the_last=lambda i, n: 7 + (i == n - 1),
    equal_but_the_last_three=lambda i, n: 7 + (i >= n - 3),
    equal_but_the_middle=lambda i, n: 7 + (i == n // 2),
    periods=lambda i, n: i % 50,
    halves=lambda i, n: i % (n // 2 + 1),
    almost_matches=lambda i, n: 7 if i % 4 else 8 + i * (i < n - 4),
)
def test_a_long_text(lab, case):
    def seconds(length):
        request = make(lab, [case(i, length) for i in range(length)])
        return processor_seconds(lambda: lab.NgramProposer(2, 4).propose(request, 4))

    short, long = scaled(2400), scaled(19200, 9600)
    see = check()
    fast = any(seconds(long) < 2 * (long / short) * seconds(short) + 0.005 for _ in range(3))
    what = f"processor time of a text of {long} tokens, beside one of {short}"
    see.true(what, fast, "more", f"at most {2 * long // short} times as much")


@concept("A text that has grown costs no more than a text of its length.", invariant="I6", illustrates=True)
@cases(equal=lambda i: 7, all_different=lambda i: i, periods=lambda i: i % 50)
def test_a_text_that_grows(lab, case):
    def seconds(length):
        request, proposer = make(lab, [case(i) for i in range(length)]), lab.NgramProposer(2, 4)

        def calls():
            for i in range(length, length + 5):
                request.append_output_token(case(i))
                proposer.propose(request, 4)

        return processor_seconds(calls)

    short, long = scaled(1200), scaled(9600, 4800)
    see = check()
    fast = any(seconds(long) < 2 * (long / short) * seconds(short) + 0.005 for _ in range(3))
    what = f"processor time of five calls at {long} tokens, beside five at {short}"
    see.true(what, fast, "more", f"at most {2 * long // short} times as much")


def plan(rng):
    """Texts of few different tokens, which grow, end and come again."""
    calls = [("proposer", rng.randint(1, 3), rng.randint(3, 5))]
    vocab = rng.choice(([97, 98], [97, 98, 99], [1, 256, 257], [0, 1, 2**16]))
    for _ in range(rng.randint(3, 24)):
        name, new = rng.choice("aab"), [rng.choice(vocab) for _ in range(rng.choice((0, 1, 1, 2, 5)))]
        calls.append(rng.choice([("propose", name, new, rng.randint(0, 5))] * 7 + [("forget", name)]))
    return calls


def play(lab, calls):
    requests, proposer = {}, None
    for name, *arguments in calls:
        if name == "proposer":
            proposer = lab.NgramProposer(*arguments)
        elif name == "forget":
            if request := requests.pop(arguments[0], None):
                proposer.forget(request)
        else:
            request_id, new, num_tokens = arguments
            if request_id not in requests:
                requests[request_id] = make(lab, [97, *new], request_id)
            else:
                for token_id in new:
                    requests[request_id].append_output_token(token_id)
            request = requests[request_id]
            got = list(proposer.propose(request, num_tokens))
            yield "I1", f"drafts of {request_id}", got, picture(request)


@concept("Any text, however it came about, has the drafts that a search from the front finds.", invariant="I1",
         illustrates=True, searches=True)  # fmt: skip
def test_any_texts(lab):
    walk(lab, plan, play)
