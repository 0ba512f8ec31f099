"""Lab 05.1: drafts from the text of the request itself."""

from labkit import cases, check, concept, processor_seconds, scaled, walk


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
@cases(none=(0, ""), one=(1, "c"), three=(3, "cda"), just_all=(4, "cdab"), too_many=(9, "cdab"))
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
    proposer.forget(request)
    parts = (request.all_token_ids, request.prompt_token_ids, request.output_token_ids)
    see("text, prompt and output", [len(part) for part in parts], equals=[5, 5, 0])


@concept("A text of twice the length costs about twice as much, whatever stands in it.", invariant="I6")
@cases(equal=lambda i: 7, pairs=lambda i: i % 2, all_different=lambda i: i, nearly_equal=lambda i: 7 + i // 1000)
def test_a_long_text(lab, case):
    def seconds(length):
        request = make(lab, [case(i) for i in range(length)])
        return min(processor_seconds(lambda: lab.NgramProposer(2, 4).propose(request, 4)) for _ in range(3))

    short, long = scaled(300), scaled(2400, 1200)
    see = check()
    fast = seconds(long) < 2 * (long / short) * seconds(short) + 0.005
    what = f"processor time of a text of {long} tokens, beside one of {short}"
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
