"""Lab 04.1: which tokens may come next, from an automaton over bytes."""

from labkit import cases, check, concept, far, scaled, walk

END = "<end>"  # in these tests: its bytes count for nothing


class Automaton:
    """A state for each row, which says where characters lead. It counts what it is asked."""

    start = 0

    def __init__(self, rows, accepting):
        self.rows = [{byte: to for chars, to in row.items() for byte in chars.encode("latin-1")} for row in rows]
        self.accepting = accepting
        self.num_asked = self.num_asked_for_ends = 0

    def next_state(self, state, byte):
        self.num_asked += 1
        return self.rows[state].get(byte)

    def is_accepting(self, state):
        self.num_asked_for_ends += 1
        return state in self.accepting


class Chain:
    """From each state the digit 1 leads to the next one, and every second one is accepting. It counts what it is asked.

    States are step apart, from start on, and each is an int of its own, as a state that was computed is.
    """

    def __init__(self, length, start=0, step=1):
        self.length, self.start, self.step = length, start, step
        self.num_asked = self.num_asked_for_ends = 0

    def state(self, number):
        return int(str(self.start + self.step * number))

    def next_state(self, state, byte):
        self.num_asked += 1
        number = (state - self.start) // self.step
        return self.state(number + 1) if byte == ord("1") and number + 1 < self.length else None

    def is_accepting(self, state):
        self.num_asked_for_ends += 1
        return (state - self.start) // self.step % 2 == 1


DIGITS = "0123456789"
NUMBER = ([{DIGITS: 1}, {DIGITS: 1}], {1})  # 0 nothing yet, 1 behind a digit
LIST = ([{"[": 1}, {DIGITS: 2, "]": 3}, {DIGITS: 2, ",": 4, "]": 3}, {}, {DIGITS: 2}], {3})  # [], [7], [7,10]
YES_NO = ([{'"': 1}, {"y": 2, "n": 4}, {"e": 3}, {"s": 5}, {"o": 5}, {'"': 6}, {}], {6})  # "yes" and "no", quoted
ACCENT = ([{"\xc3": 1, "e": 2}, {"\xa9": 2}, {}], {2})  # e, or é, which has two bytes
EDGES = ([{"\0": 1, "\xff": 0}, {"\xff": 0}], {0})  # the smallest and the largest byte, and back to state 0
FIGURE = ['"', "y", "n", "es", "yes", 'no"', "o", '"y', "KV"]


def trie_of(lab, tokens, kind=list):
    """Tokens are texts of one byte a character. kind: of the collection of those that end a text."""
    ends = kind(token_id for token_id, text in enumerate(tokens) if text == END)
    return lab.TokenTrie([text.encode("latin-1") for text in tokens], ends)


def allowed(words, num_tokens):
    """The tokens whose bit is set."""
    return [token_id for token_id in range(num_tokens) if words[token_id // 32] >> token_id % 32 & 1]


def picture(rows, accepting, tokens, state):
    """The state, and where it leads; the vocabulary."""
    ways = ", ".join(f"{chars!r} to {to}" for chars, to in rows[state].items()) or "nothing leads on"
    end = "; a text may end here" if state in accepting else ""
    lines, more = tokens[:16], len(tokens) - 16
    vocabulary = "  ".join(f"{i} {text!r}" for i, text in enumerate(lines)) + (f"  and {more} more" if more > 0 else "")
    return f"state {state}: {ways}{end}\ntokens   {vocabulary}"


def expect(lab, automaton, tokens, state, texts):
    """texts: of the tokens that are allowed in a state."""
    see = check(picture, *automaton, tokens, state)
    words = trie_of(lab, tokens).mask(Automaton(*automaton), state)
    see_tokens(see, f"in state {state}", tokens, allowed(words, len(tokens)), texts)


def see_tokens(see, where, tokens, token_ids, texts):
    """The tokens whose bits are set have these texts. A failure names those that lack, and those that are too many."""
    rest, left = list(texts), []
    for token_id in token_ids:
        if tokens[token_id] in rest:
            rest.remove(tokens[token_id])
        else:
            left.append(tokens[token_id])
    see(f"tokens that are not allowed {where}, and are in the mask", left, equals=[])
    see(f"tokens that are allowed {where}, and are not in the mask", rest, equals=[])


@concept("A token is allowed if its bytes lead on, one after the other, each from the state behind the one before.",
         invariant="I1")  # fmt: skip
@cases(
    one_state=(NUMBER, ["1", "a", "23", "4b", "b4"], 0, ["1", "23"]),
    around=(NUMBER, ["7", "12345678901234567890", "1234567890x"], 1, ["7", "12345678901234567890"]),
    several_states=(LIST, ["[", "[1", "[1,", "[1,2]", "[,", "[]", "[]]", "1"], 0, ["[", "[1", "[1,", "[1,2]", "[]"]),
    in_the_middle=(LIST, ["[", "[1", ",", ",2", ",2,", ",,", "]", "],", "0]"], 2, [",", ",2", ",2,", "]", "0]"]),
    behind_the_last_byte=(LIST, ["[", "1", ",", "]"], 3, []),
    the_figure=(YES_NO, FIGURE, 0, ['"', '"y']),
    of_the_figure=(YES_NO, FIGURE, 1, ["y", "n", "yes", 'no"']),
    half_a_character=(ACCENT, ["e", "\xc3", "\xc3\xa9", "\xa9", "\xc3e"], 0, ["e", "\xc3", "\xc3\xa9"]),
    the_other_half=(ACCENT, ["e", "\xc3", "\xc3\xa9", "\xa9"], 1, ["\xa9"]),
    bytes_0_and_255=(EDGES, ["\0", "\xff", "\0\xff", "\0\0", "\xff\0", "\x01"], 0, ["\0", "\xff", "\0\xff", "\xff\0"]),
    back_to_state_0=(EDGES, ["\xff", "\0\xff", "\xff\xff", "\0"], 1, ["\xff", "\xff\xff"]),
    long_tokens=(NUMBER, ["1" * 300, "1" * 299 + "x", "1" * 256, "x" * 300], 0, ["1" * 300, "1" * 256]),
)  # fmt: skip
def test_which_tokens_lead_on(lab, case):
    automaton, tokens, state, texts = case
    expect(lab, automaton, tokens, state, texts)


@concept("A token that others begin with is a token, too.", invariant="I2", illustrates=True)
@cases(
    short_and_long=(NUMBER, ["123", "1", "12"], 0, ["123", "1", "12"]),
    of_the_figure=(YES_NO, ["y", "yes", 'yes"', "ye"], 1, ["y", "yes", 'yes"', "ye"]),
)
def test_a_token_within_another(lab, case):
    automaton, tokens, state, texts = case
    expect(lab, automaton, tokens, state, texts)


@concept("Tokens with the same bytes are allowed together.", invariant="I2")
@cases(
    two=(NUMBER, ["1", "x", "1"], 0, ["1", "1"]),
    three_long=(LIST, ["[1", "[1", "[", "[1"], 0, ["[1", "[1", "[", "[1"]),
)
def test_equal_bytes(lab, case):
    automaton, tokens, state, texts = case
    expect(lab, automaton, tokens, state, texts)


@concept("A token without bytes writes nothing, so it may never come.", invariant="I2")
@cases(
    at_the_beginning=(NUMBER, ["", "1", ""], 0, ["1"]),
    where_a_text_may_end=(NUMBER, ["", "1", ""], 1, ["1"]),
    where_nothing_leads_on=(LIST, ["", "1", ""], 3, []),
)
def test_no_bytes(lab, case):
    automaton, tokens, state, texts = case
    expect(lab, automaton, tokens, state, texts)


@concept("The end is allowed where a right text may end, and nowhere else.", invariant="I3")
@cases(
    too_early=(NUMBER, ["1", END], 0, ["1"]),
    may_end=(NUMBER, ["1", END], 1, ["1", END]),
    must_end=(LIST, ["[", "1", END, "]"], 3, [END]),
    two_ends=(NUMBER, [END, "1", END], 1, [END, "1", END]),
    forty_ends=(NUMBER, [END] * 40 + ["1"], 1, [END] * 40 + ["1"]),
    its_bytes_do_not_count=(([{"<": 1}, {"e": 1, "n": 1, "d": 1, ">": 1}], {1}), [END, "<", "<end"], 0, ["<", "<end"]),
)
def test_the_end(lab, case):
    automaton, tokens, state, texts = case
    expect(lab, automaton, tokens, state, texts)


@concept("A mask has one bit a token, in words of 32 bits with a sign, the first token in the lowest bit.",
         invariant="I4")  # fmt: skip
@cases(
    one_token=(1, [0], [1]),
    five=(5, [0, 1, 4], [0b10011]),
    thirty_two=(32, [5, 31], [32 - 2**31]),
    all_of_a_word=(32, list(range(32)), [-1]),
    thirty_three=(33, [32], [0, 1]),
    seventy=(70, [0, 31, 33, 64, 69], [1 - 2**31, 2, 33]),
    none=(40, [], [0, 0]),
    no_token=(0, [], []),
)
def test_words(lab, case):
    num_tokens, token_ids, words = case
    tokens = [f"{'' if token_id in token_ids else 'x'}{token_id}" for token_id in range(num_tokens)]
    see = check(picture, *NUMBER, tokens, 0)
    got = list(trie_of(lab, tokens).mask(Automaton(*NUMBER), 0))
    see(f"words, of which tokens {token_ids} of {num_tokens} are allowed", got, equals=words)
    see("whether they are ints", [isinstance(word, int) for word in got], equals=[True] * len(words))


@concept("The end is known by its number: another token may have the same bytes.", invariant="I3", illustrates=True)
@cases(too_early=(0, [1, 3]), may_end=(1, [0, 1, 2, 3]))
def test_bytes_of_the_end(lab, case):
    state, token_ids = case
    tokens = [b"1", b"1", b"", b"12"]
    see = check(lambda: f"state {state} of numbers; tokens {tokens}, of which 0 and 2 end a text")
    for kind in (list, tuple, frozenset):
        words = lab.TokenTrie(tokens, kind([0, 2])).mask(Automaton(*NUMBER), state)
        see(f"tokens that are allowed, ends {kind([0, 2])}", allowed(words, 4), equals=token_ids)


@concept(
    "A vocabulary is as large as it is: token 65,536 is another one than token 0.", invariant="I4", illustrates=True
)
def test_a_large_vocabulary(lab):
    size = scaled(70_001, 66_000)
    token_ids = [0, 255, 256, 32_767, 32_768, 65_535, 65_536, size - 2, size - 1]
    see = check(
        lambda: f"state 1 of numbers; {size:,} tokens 'x', but {token_ids[:-1]} are '1', and the last one ends a text"
    )
    data = [b"x"] * size
    for token_id in token_ids[:-1]:
        data[token_id] = b"1"
    words = lab.TokenTrie(data, [size - 1]).mask(Automaton(*NUMBER), 1)
    see("number of words", len(words), equals=-(-size // 32))
    numbers = [number for number, word in enumerate(words) if word]
    got = [32 * number + bit for number in numbers for bit in range(32) if words[number] >> bit & 1]
    see("tokens that are allowed", got, equals=token_ids)


LONG = ["1" * length for length in range(1, 61)]


@concept("What many tokens begin with is asked once, and nothing is asked behind a byte that does not lead on.",
         invariant="I5")  # fmt: skip
@cases(
    all_begin_alike=(["12345" + last for last in DIGITS], 0, 15),
    each_begins_the_next=(LONG, 0, 60),
    equal=(["1234"] * 50, 0, 4),
    none_leads_on=(["x" + text for text in LONG], 0, 1),
    dead_in_the_middle=(["1x" + text for text in LONG], 0, 2),
    two_branches=(["1" + text for text in ("23", "24", "x5", "x6", "x7")], 0, 5),
    in_any_order=(["12", "3", "1x", "31", "123", "x", "32", "1", "12x", "311", "xx", "124"], 0, 12),
    the_last_is_the_first=([*LONG[::-1], *LONG], 0, 60),
)
def test_how_often_the_automaton_is_asked(lab, case):
    tokens, state, most = case
    see = check(picture, *NUMBER, tokens, state)
    automaton, trie = Automaton(*NUMBER), trie_of(lab, tokens)
    for time in ("first", "second"):
        automaton.num_asked = 0
        trie.mask(automaton, state)
        num_bytes = sum(map(len, tokens))
        what = f"calls of next_state() for the {time} mask ({num_bytes} bytes in all tokens)"
        see.between(what, automaton.num_asked, most=most)


@concept("The mask of a state is computed once for an automaton, and is that of no other automaton.", invariant="I6")
def test_masks_are_remembered(lab):
    tokens = ["1", "[", "[1", "x", "y"]
    trie, backwards = trie_of(lab, tokens), trie_of(lab, tokens[::-1])
    number, lists = Automaton(*NUMBER), Automaton(*LIST)
    masks_of = {"numbers": lab.TokenMasks(trie, number), "lists": lab.TokenMasks(trie, lists)}
    masks_of["lists, other vocabulary"] = lab.TokenMasks(backwards, lists)
    see = check(lambda: f"tokens   {tokens}, in the other vocabulary {tokens[::-1]}")
    given = []
    for name, state, texts in (
        ("numbers", 0, ["1"]),
        ("lists", 0, ["[", "[1"]),
        ("lists, other vocabulary", 0, ["[1", "["]),
        ("numbers", 1, ["1"]),
        ("lists", 1, ["1"]),
        ("lists", 3, []),
        ("numbers", 0, ["1"]),
        ("lists", 0, ["[", "[1"]),
    ):
        order = tokens[::-1] if "other" in name else tokens
        given.append((name, state, order, masks_of[name].mask(state), texts))
        see_tokens(see, f"in state {state} of {name}", order, allowed(given[-1][3], len(order)), texts)
    for name, state, order, words, texts in given:
        where = f"in state {state} of {name}, looked at after the next masks"
        see_tokens(see, where, order, allowed(words, len(order)), texts)


@concept("A mask is computed on the first call for its state, no earlier, and never again, however many there are.",
         invariant="I6")  # fmt: skip
@cases(
    from_0_on=(0, 1, 20_000), below_0=(-3, 1, 7), far_apart=(2**40, 2**33, 300),
    around_2_to_31=(2**31 - 150, 1, 300), beyond_2_to_53=(2**53, 1, 302), beyond_64_bits=(1, 2 ** far(63, 500), 301),
    of_one_hash=(1, 2**61 - 1, 301),
)  # fmt: skip
def test_asked_once(lab, case):
    start, step, length = case
    length = scaled(length, min(length, 5_000))
    chain = Chain(length, start, step)
    see = check(
        lambda: f"{length:,} states {start}, {start + step}, ..., each with a way to the next by 1; one token '1'"
    )
    masks = lab.TokenMasks(trie_of(lab, ["1"]), chain)
    see("queries before the first mask is asked for", chain.num_asked + chain.num_asked_for_ends, equals=0)
    masks.mask(chain.state(0))
    see("calls of next_state() for the first mask", chain.num_asked, equals=1)
    for first in (True, False):
        chain.num_asked = chain.num_asked_for_ends = 0
        for number in range(length):
            words = masks.mask(chain.state(number))
            if words[0] != (number + 1 < length):
                see(f"mask({chain.state(number)})", list(words), equals=[int(number + 1 < length)])
        if not first:
            what = f"queries for {length:,} masks that are known"
            see(what, chain.num_asked + chain.num_asked_for_ends, equals=0)


@concept("What is remembered goes with its automaton: the next one may lie at the same place in memory.",
         invariant="I6")  # fmt: skip
def test_an_automaton_after_another(lab):
    tokens = ["1", "[", "[1", "x"]
    trie = trie_of(lab, tokens)
    see = check(lambda: f"tokens   {tokens}; a hundred automata of numbers are dropped, and a hundred of lists come")
    for name, automaton, texts in (
        ("numbers", NUMBER, ["1"]),
        ("lists", LIST, ["[", "[1"]),
        ("numbers", NUMBER, ["1"]),
    ):
        for other in [Automaton(*automaton) for _ in range(100)]:
            words = lab.TokenMasks(trie, other).mask(0)
            see_tokens(see, f"in state 0 of {name}", tokens, allowed(words, len(tokens)), texts)
        del other


def plan(rng):
    """An automaton of a few states over a and b, a vocabulary, and states that are asked for."""
    states = rng.randint(1, 4)
    rows = [{char: rng.randrange(states) for char in "ab" if rng.random() < 0.7} for _ in range(states)]
    accepting = [state for state in range(states) if rng.random() < 0.5]
    letters = [rng.choice("aabbc") for _ in range(200)]
    tokens = ["".join(letters[i : i + rng.randint(0, 5)]) for i in range(0, rng.choice((3, 9, 40, 100)), 2)]
    calls = [("vocabulary", tokens + [END] * rng.randint(0, 2), rows, accepting)]
    return calls + [("mask", rng.randrange(states)) for _ in range(4)]


def play(lab, calls):
    tokens, rows, accepting, masks = [], [], [], None
    for name, *arguments in calls:
        if name == "vocabulary":
            tokens, rows, accepting = arguments
            masks = lab.TokenMasks(trie_of(lab, tokens, set), Automaton(rows, set(accepting)))
        else:
            words = masks.mask(arguments[0])
            drawn = picture(rows, accepting, tokens, arguments[0])
            texts = {token_id: tokens[token_id] for token_id in allowed(words, len(tokens))}
            yield "I1", "tokens that lack in the mask, and tokens that are too many", texts, drawn
            yield "I4", "words", list(words), drawn


@concept("Whatever the automaton and the vocabulary are, the mask has exactly the tokens that lead on.",
         invariant="I1", illustrates=True, searches=True)  # fmt: skip
def test_any_automaton(lab):
    walk(lab, plan, play)
