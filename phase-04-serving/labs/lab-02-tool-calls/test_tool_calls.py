"""Lab 04.2: text and calls from a text that comes in pieces."""

import json
from gc import collect

from labkit import cases, check, concept, far, processor_seconds, scaled, walk

F = '{"name": "f", "arguments": {"a": 1}}'
NO_CALL = '{"name": "f", "arguments": {"a": 1}'  # a bracket is missing
CALLED = ("f", {"a": 1})
ODD_SPACE = "\x0b\x0c\x1c\x1f\x85\xa0\u2003\u2028\ufeff"
LONG, WIDE = far(132_000), far(17_000)
CALLED_AND_B = ("b", [CALLED])


def tag(text):
    return f"<tool_call>{text}</tool_call>"


def picture(pieces):
    """The pieces of a message, or the first of them."""
    shown = "\n".join(f"piece   {piece if len(piece) < 90 else piece[:87] + '...'!r}" for piece in pieces[:6])
    return shown + (f"\nand {len(pieces) - 6} more" if len(pieces) > 6 else "")


def data_of(arguments):
    """What a program reads from the arguments of a call."""
    try:
        return json.loads(arguments)
    except (TypeError, ValueError):
        return f"no JSON: {arguments!r}"


def deltas_of(lab, pieces):
    """What each piece brings; the last one goes to finish()."""
    parser = lab.HermesParser()
    return [*(parser.feed(piece) for piece in pieces[:-1]), parser.finish(pieces[-1])]


def read(lab, pieces):
    """The text of a message, and its calls as pairs of name and arguments."""
    deltas = deltas_of(lab, pieces)
    functions = [call["function"] for delta in deltas for call in delta.tool_calls]
    calls = [(function["name"], data_of(function["arguments"])) for function in functions]
    return "".join(delta.content for delta in deltas), calls


def expect(lab, pieces, content, calls):
    see = check(picture, pieces)
    got = read(lab, pieces)
    see("text", got[0], equals=content)
    see("calls", got[1], equals=calls)


@concept("Text without calls goes through unchanged.", invariant="I1", illustrates=True)
@cases(
    nothing="", plain="Hello, world.", spaces="  two \n lines \n", space=" \n", almost="a <tool_calls> b <tool_call",
    another_tag="<b>1 < 2</b>", upper_case=tag(F).upper(), no_space=f"a\0{ODD_SPACE}b\r\nc",
    end_alone="a </tool_call> b", bare_json=F, twice="<<tool_call",
)  # fmt: skip
def test_text(lab, case):
    expect(lab, [case], case, [])


@concept("A call comes as data, in one entry that has all of it.", invariant="I2")
@cases(
    one=(F, "f", {"a": 1}),
    spaces=(f" \n{F}\t\r\n", "f", {"a": 1}),
    other_order=('{"arguments": {"b": [{"name": "x"}]}, "name": "g"}', "g", {"b": [{"name": "x"}]}),
    more_keys=('{"id": 7, "name": "f", "arguments": {"a": null}}', "f", {"a": None}),
    numbers=('{"name": "f", "arguments": {"a": 12345678901234567890, "b": -0.5E+2, "c": 1e-7}}', "f",
             {"a": 12345678901234567890, "b": -50.0, "c": 1e-7}),
    close_together=('{"name":"f","arguments":{"x":-1.5e3,"y":[true,{}]}}', "f", {"x": -1500.0, "y": [True, {}]}),
    not_ascii=('{"name": "f", "arguments": {"a": "é日👍"}}', "f", {"a": "é日👍"}),
    words=('{"name": "f", "arguments": {"a b": "c  d"}}', "f", {"a b": "c  d"}),
    none=('{"name": "now"}', "now", {}),
    empty=('{"name": "now", "arguments": {}}', "now", {}),
    null=('{"name": "now", "arguments": null}', "now", {}),
    null_beside_parameters=('{"name": "now", "arguments": null, "parameters": {"a": 1}}', "now", {}),
    empty_beside_parameters=('{"name": "now", "parameters": {"a": 1}, "arguments": {}}', "now", {}),
    beside_parameters=('{"name": "f", "arguments": {"a": 1}, "parameters": {"b": 2}}', "f", {"a": 1}),
    a_name_with_space=('{"name": " f\\n", "arguments": {" a ": " b "}}', " f\n", {" a ": " b "}),
    a_name_of_space=('{"name": " ", "arguments": {"": 0}}', " ", {"": 0}),
    falsy_values=('{"name": "0", "arguments": {"a": 0, "b": "", "c": [], "d": {}, "e": false}}', "0",
                  {"a": 0, "b": "", "c": [], "d": {}, "e": False}),
    deep=('{"name": "f", "arguments": {"a": ' + "[" * 90 + "]" * 90 + "}}", "f",
          {"a": json.loads("[" * 90 + "]" * 90)}),
    long=('{"name": "f", "arguments": {"a": "' + "b" * LONG + '"}}', "f", {"a": "b" * LONG}),
    much_space=(" " * WIDE + F + "\n" * WIDE, "f", {"a": 1}),
)  # fmt: skip
def test_a_call(lab, case):
    text, name, arguments = case
    pieces = [tag(text)]
    see = check(picture, pieces)
    (delta,) = deltas_of(lab, pieces)
    see("text", delta.content, equals="")
    see("number of calls", len(delta.tool_calls), equals=1)
    call = delta.tool_calls[0]
    see("its keys, sorted", sorted(call), equals=["function", "id", "index", "type"])
    see("its index and type", [call["index"], call["type"]], equals=[0, "function"])
    see("its function's keys, sorted", sorted(call["function"]), equals=["arguments", "name"])
    see("its name", call["function"]["name"], equals=name)
    see("what JSON its arguments are", data_of(call["function"]["arguments"]), equals=arguments)


@concept("The calls of a message are counted, and no two calls have the same id.", invariant="I2")
def test_several_calls(lab):
    pieces = [tag(F) + tag('{"name": "g"}'), tag(F)]
    see = check(picture, pieces)
    messages = [[call for delta in deltas_of(lab, pieces) for call in delta.tool_calls] for _ in range(2)]
    for calls in messages:
        see("index and name", [(call["index"], call["function"]["name"]) for call in calls],
            equals=[(0, "f"), (1, "g"), (2, "f")])  # fmt: skip
    ids = [call["id"] for calls in messages for call in calls]
    see("whether ids are texts", [isinstance(each, str) and each != "" for each in ids], equals=[True] * 6)
    see("different ids of the six calls in two messages like this", len(set(ids)), equals=6)


@concept("A malformed call has no number: the first call behind it is number 0.", invariant="I2", illustrates=True)
@cases(no_end=f"<tool_call>{F} x ", no_name=tag("{}"), no_object=tag("f"))
def test_a_call_behind_a_malformed_one(lab, case):
    pieces = [case + tag('{"name": "g"}')]
    see = check(picture, pieces)
    calls = [call for delta in deltas_of(lab, pieces) for call in delta.tool_calls]
    see("index and name", [(call["index"], call["function"]["name"]) for call in calls], equals=[(0, "g")])


@concept("However many calls and messages there are, each call has its number and an id of its own.", invariant="I2",
         illustrates=True)  # fmt: skip
def test_many_calls(lab):
    num_calls, num_messages, ids = far(5_000, 9_000), scaled(3, 2), []
    see = check(lambda: f"{num_messages} messages of {num_calls} calls")
    for _ in range(num_messages):
        calls = [call for delta in deltas_of(lab, [tag('{"name": "g"}') * num_calls]) for call in delta.tool_calls]
        see("indices", [call["index"] for call in calls], equals=[*range(num_calls)])
        ids += [call["id"] for call in calls]
    see("different ids", len(set(ids)), equals=num_calls * num_messages)
    short = []
    for _ in range(4):
        short += [deltas_of(lab, [tag(F)])[0].tool_calls[0]["id"] for _ in range(25)]
        collect()  # the next parsers may lie where these lay
    see("different ids of 100 messages of one call", len(set(short)), equals=100)


@concept("A parser has one message: two that are read in turn know nothing of each other.", invariant="I5",
         illustrates=True)  # fmt: skip
def test_two_messages_in_turn(lab):
    one, other = f"a {tag(F)} b", f"{tag(NO_CALL)} <tool"
    see = check(picture, [one, other])
    parsers, texts, calls = [lab.HermesParser() for _ in range(2)], ["", ""], [[], []]
    for i in range(max(len(one), len(other)) + 1):
        for which, text in enumerate((one, other)):
            delta = parsers[which].feed(text[i : i + 1]) if i < len(text) else None
            delta = parsers[which].finish() if i == len(text) else delta
            texts[which] += delta.content if delta else ""
            calls[which] += [call["function"]["name"] for call in delta.tool_calls] if delta else []
    see("texts", texts, equals=["ab", other])
    see("calls", calls, equals=[["f"], []])


@concept("What stands in a string is no tag and no bracket.", invariant="I3")
@cases(
    closing=('{"a": "}"}', {"a": "}"}),
    opening=('{"a": "{[{"}', {"a": "{[{"}),
    end_tag=('{"a": "</tool_call>"}', {"a": "</tool_call>"}),
    tag=('{"a": "<tool_call>"}', {"a": "<tool_call>"}),
    quote=('{"a": "\\"}"}', {"a": '"}'}),
    backslash=('{"a": "\\\\"}', {"a": "\\"}),
    by_number=('{"a": "\\u0022}\\u005c"}', {"a": '"}\\'}),
    many_backslashes=('{"a": "' + "\\\\" * 40 + '\\"}"}', {"a": "\\" * 40 + '"}'}),
    both=('{"a": "\\\\\\"}{"}', {"a": '\\"}{'}),
    two_halves_of_a_character=('{"a": "\\ud83d\\udc4d"}', {"a": "👍"}),
    unprintable=('{"a": "\x7f' + ODD_SPACE[4:] + '\xad\u200b"}', {"a": "\x7f" + ODD_SPACE[4:] + "\xad\u200b"}),
    in_a_key=('{"}\\"": {"{": 1}}', {'}"': {"{": 1}}),
)  # fmt: skip
def test_strings(lab, case):
    written, arguments = case
    expect(lab, [tag(f'{{"name": "f", "arguments": {written}}}')], "", [("f", arguments)])


BAD = {
    "empty": "", "no_object": "f", "a_list": "[]", "no_name": "{}", "a_number": '{"name": 5}',
    "empty_name": '{"name": ""}', "a_bracket_too_few": NO_CALL, "a_bracket_too_many": F + "}",
    "two_objects": f"{F} {F}", "comma": '{"name": "f",}', "other_quotes": "{'name': 'f'}",
    "arguments_are_text": '{"name": "f", "arguments": "{}"}',
    "arguments_are_a_list": '{"name": "f", "arguments": [1]}',
    "arguments_are_no_list": '{"name": "f", "arguments": []}',
    "arguments_are_no_text": '{"name": "f", "arguments": ""}', "arguments_are_0": '{"name": "f", "arguments": 0}',
    "arguments_are_false": '{"name": "f", "arguments": false}',
    "arguments_are_true": '{"name": "f", "arguments": true}',
    "a_number_of_0": '{"name": 0}', "no_name_at_all": '{"name": null, "arguments": {}}', "true": '{"name": true}',
    "a_list_of_a_name": '{"name": ["f"]}',
    "no_arguments_beside_parameters": '{"name": "f", "arguments": [], "parameters": {}}',
    "arguments_alone": '{"arguments": {"name": "f"}}', "in_a_list": f"[{F}]",
    "another_space": f"\xa0{F}", "another_space_behind": f"{F}\x0b", "another_space_inside": '{"name":\xa0"f"}',
    "no_value": '{"name": "f", "arguments": {"a":}}',
    "wrong_bracket": '{"name": "f", "arguments": {]}', "line_in_a_string": '{"name": "a\nb"}', "word": '{"name": f}',
}  # fmt: skip


@concept("A malformed call stays in the text, all of it.", invariant="I4")
@cases(**BAD)
def test_malformed(lab, case):
    text = f"a {tag(case)} b"
    expect(lab, [text], text, [])


@concept("Behind a malformed call, or in it, the next call may begin.", invariant="I4")
@cases(
    behind=tag(NO_CALL), behind_no_object=tag("f"), behind_text=tag(NO_CALL) + "x", behind_its_tag="<tool_call>",
    in_an_object="<tool_call>{", later="<tool_call>" + NO_CALL, behind_an_object="<tool_call>" + F,
    in_an_end_tag=f"<tool_call>{F}</tool_", in_a_tag="<tool_", doubled="<",
)  # fmt: skip
def test_the_next_call(lab, case):
    expect(lab, [case + tag(F)], case, [CALLED])


@concept("Whitespace beside a call is no text; other whitespace is.", invariant="I1")
@cases(
    before=(f"a \n{tag(F)}", "a", 1),
    behind=(f"{tag(F)} \n", "", 1),
    text_behind=(f"a {tag(F)} \n b c ", "ab c ", 1),
    between_calls=(f"{tag(F)}\n \t{tag(F)}\r\n{tag(F)}", "", 3),
    first_of_all=(f"\n\n{tag(F)}", "", 1),
    another_space=(
        "".join(f"a{each}{tag(F)}{each}" for each in ODD_SPACE),
        "".join(f"a{each}{each}" for each in ODD_SPACE),
        len(ODD_SPACE),
    ),
    beside_a_malformed_one=(f" {tag('f')} \n", f" {tag('f')} \n", 0),
    of_a_malformed_one=(f"{tag(F)} {tag(' f ')}", tag(" f "), 1),
    behind_a_malformed_one=(f"{tag(F)}<tool_call>{{}} x", "<tool_call>{} x", 1),
)  # fmt: skip
def test_whitespace(lab, case):
    text, content, num_calls = case
    expect(lab, [text], content, [CALLED] * num_calls)


@concept("No cut changes the text or the calls.", invariant="I5")
@cases(
    a_call=(tag(F), "", [CALLED]),
    text_and_calls=(f"Say: {tag(F)}\n{tag(F)}done ", "Say:done ", [CALLED] * 2),
    almost=("a <tool_calls> <<tool_cal", "a <tool_calls> <<tool_cal", []),
    malformed=(f"{tag(NO_CALL)} {tag(F)}", tag(NO_CALL), [CALLED]),
    escapes=(tag('{"name":"f","arguments":{"a":"</tool_call>\\"}{"}}'), "", [("f", {"a": '</tool_call>"}{'})]),
)  # fmt: skip
def test_cuts(lab, case):
    text, content, calls = case
    for cut in range(len(text) + 1):
        expect(lab, [text[:cut], text[cut:]], content, calls)
    for size in (1, 2, 3, 7):
        expect(lab, [*(text[i : i + size] for i in range(0, len(text), size)), ""], content, calls)


@concept("Text is given out as soon as it can be nothing else, and a call as soon as it is whole.", invariant="I6")
@cases(
    text=(["Hel", "lo", ", ", "you"], ["Hel", "lo", ",", " you"]),
    no_tag=(["a <", "tool", "box", "<b", ">"], ["a", "", " <toolbox", "<b", ">"]),
    a_call=(["Yes. <tool_", "call>" + F, "</tool_call", ">", "no"], ["Yes.", "", "", CALLED, "no"]),
    no_object=(["<tool_call>", " \n", "y", "es"], ["", "", "<tool_call> \ny", "es"]),
    no_json=(["<tool_call>{", '"a": ', "<", "b>", "{"], ["", "", '<tool_call>{"a":', " <b>", "{"]),
    no_name=(["<tool_call>{", "}", "."], ["", "<tool_call>{}", "."]),
    space=(["a ", " ", "\n", "b ", "<", "b"], ["a", "", "", "  \nb", "", " <b"]),
    space_behind_a_call=([tag(F), " ", "\n", "b", " "], [CALLED, "", "", "b", ""]),
    a_call_and_text=(["a", tag(F)[:-1], "> b ", "c"], ["a", "", CALLED_AND_B, " c"]),
    in_an_end_tag=(["<tool_call>", F + "</tool_", "<", "x"], ["", "", f"<tool_call>{F}</tool_", "<x"]),
    a_number_is_no_word=(['<tool_call>{"a": 1', "x", "2"], ["", '<tool_call>{"a": 1x', "2"]),
    no_end=(["<tool_call>", F, "</", "b", "<"], ["", "", "", f"<tool_call>{F}</b", ""]),
)  # fmt: skip
def test_at_once(lab, case):
    pieces, expected = case
    see = check(picture, pieces)
    parser = lab.HermesParser()
    for number, (piece, given) in enumerate(zip(pieces, expected), start=1):
        delta = parser.feed(piece)
        calls = [(call["function"]["name"], data_of(call["function"]["arguments"])) for call in delta.tool_calls]
        text, wanted = ("", [given]) if given is CALLED else given if isinstance(given, tuple) else (given, [])
        see(f"text that piece {number}, {piece!r}, brings", delta.content, equals=text)
        see(f"calls that piece {number}, {piece!r}, brings", calls, equals=wanted)


@concept("A character that JSON has only in strings ends a call where it stands.", invariant="I6")
def test_no_json(lab):
    """Without < , which may begin the next tag, and without the letters of NaN and Infinity, which json.loads takes."""
    odd = ("\0", "é", "٣", "５", "\ufeff")
    for character in (*"ABCDFGHJKLMOPQRSTUVWXYZbcdghjkmopqvwxz!#$%&'()*/;=>?@\\^_`|~", *odd):
        pieces = ["<tool_call>", '{"name": ', character, "1}"]
        see, parser = check(picture, pieces), lab.HermesParser()
        given = [parser.feed(piece).content for piece in pieces]
        see(f"text that {character!r} brings", given[2], equals='<tool_call>{"name": ' + character)
        see("text of all pieces", "".join(given), equals="".join(pieces))


@concept("What was held back comes out in the end.", invariant="I7")
@cases(
    half_a_tag=("a <tool_cal", "a <tool_cal", 0),
    a_tag=("a <tool_call>\n", "a <tool_call>\n", 0),
    half_an_object=(f"<tool_call>{NO_CALL} ", f"<tool_call>{NO_CALL} ", 0),
    space=("a \n", "a \n", 0),
    no_end_tag=(f"a <tool_call>{F}", "a", 1),
    space_for_an_end_tag=(f"<tool_call>{F}\n", "", 1),
    half_an_end_tag=(f"<tool_call>{F}</tool_c", "", 1),
    a_character_of_an_end_tag=(f"<tool_call>{F}<", "", 1),
    all_but_a_character=(f"<tool_call>{F} </tool_call", "", 1),
    half_an_end_tag_of_no_call=(f"<tool_call>{NO_CALL}</tool_c", f"<tool_call>{NO_CALL}</tool_c", 0),
)  # fmt: skip
def test_the_end(lab, case):
    text, content, num_calls = case
    for pieces in ([text, ""], [text]):
        expect(lab, pieces, content, [CALLED] * num_calls)


def call_with(inside):
    return f'<tool_call>{{"name": "f", "arguments": {{"a": {inside}}}}}</tool_call>'


@concept("A message of twice the length costs about twice as much, whatever stands in it.", invariant="I8")
@cases(
    a_long_call=lambda n: call_with('"' + "b" * n + '"'),
    deep_commas=lambda n: '<tool_call>{"name": "f", "arguments": {"a": [' + "1," * (n // 2),
    tags=lambda n: "<tool_call>{" * (n // 12),
    spaces=lambda n: " " * n,
    words=lambda n: "ab " * (n // 3),
    almost_tags=lambda n: "<tool_<" * (n // 7),
    many_objects=lambda n: call_with("[" + "{}," * (n // 3) + "{}]"),
    many_objects_without_end=lambda n: call_with("[" + "{}," * (n // 3)),
    many_lists=lambda n: call_with("[" + "[]," * (n // 3) + "{}]"),
    many_strings=lambda n: call_with("[" + '"b",' * (n // 4) + "1]"),
    many_escapes=lambda n: call_with('"' + '\\\\' * (n // 2) + '"'),
    many_quotes=lambda n: call_with('"' + '\\"' * (n // 2) + '"'),
    space_in_a_call=lambda n: "<tool_call>" + " " * n + F + "</tool_call>",
    space_behind_an_object=lambda n: "<tool_call>" + F + " " * n + "</tool_call>",
    space_in_an_object=lambda n: call_with(" " * n + "1"),
    many_calls=lambda n: tag('{"name": "g"}') * (n // 37),
    many_malformed_calls=lambda n: tag("f") * (n // 24),
    space_and_words_behind_a_call=lambda n: tag(F) + " " * n + "b",
)  # fmt: skip
def test_a_long_message(lab, case):
    see, short, long = check(), scaled(1500), scaled(12000, 6000)
    fast = in_proportion(lab, lambda length: [*case(length), ""], short, long)
    what = f"processor time of {long} characters, one a piece, beside {short}"
    see.true(what, fast, "more", f"at most {2 * long // short} times as much")


@concept("A piece may be the whole message: it costs as much as its characters cost one by one.", invariant="I8",
         illustrates=True)  # fmt: skip
@cases(
    words=(lambda n: "ab " * (n // 3), 320_000),
    spaces=(lambda n: " " * n, 48_000),
    a_long_call=(lambda n: call_with('"' + "b" * n + '"'), 48_000),
    many_calls=(lambda n: tag('{"name": "g"}') * (n // 37), 48_000),
    many_strings=(lambda n: call_with("[" + '"b",' * (n // 4) + "1]"), 320_000),
)
def test_a_long_piece(lab, case):
    text_of, most = case
    see, short, long = check(), scaled(most // 8), scaled(most, most // 2)
    fast = in_proportion(lab, lambda length: [text_of(length)], short, long)
    what = f"processor time of {long} characters in one piece, beside {short}"
    see.true(what, fast, "more", f"at most {2 * long // short} times as much")


def in_proportion(lab, pieces_of, short, long):
    """Whether the longer message costs about as many times more as it is longer."""

    def seconds(length):
        pieces = pieces_of(length)
        return processor_seconds(lambda: deltas_of(lab, pieces))

    return any(seconds(long) < 2 * (long / short) * seconds(short) + 0.01 for _ in range(3))


BLOCKS = (
    *("a", "b ", " ", "\n", "<", "{", "}", "<tool_", "<tool_call>", "</tool_call>", "</tool_", F, NO_CALL),
    *(tag(F), tag(F), tag('{"name": "g"}'), tag("f"), tag(NO_CALL)),
    tag('{"name": "h", "arguments": {"x": "</tool_call>}"}}'),
)  # fmt: skip


def plan(rng):
    """Pieces of one length, of a text that is made of blocks."""
    return [("pieces_of", rng.choice((1, 2, 5, 11, 1000)))] + [
        ("write", rng.choice(BLOCKS)) for _ in range(rng.randint(1, 8))
    ]


def play(lab, calls):
    size, text = 1, ""
    for name, value in calls:
        if name == "pieces_of":
            size = value
        else:
            text += value
    pieces = [text[i : i + size] for i in range(0, len(text), size)] + [""]
    content, found = read(lab, pieces)
    yield "I1", "text", content, picture([text])
    yield "I2", "calls", found, picture([text])


@concept("Whatever the text is, and however it is cut, text and calls are told apart.", invariant="I5",
         illustrates=True, searches=True)  # fmt: skip
def test_any_message(lab):
    walk(lab, plan, play)
