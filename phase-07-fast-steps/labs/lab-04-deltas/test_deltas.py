"""Lab 07.4: what stands in the buffers, and how much of them was written."""

from labkit import cases, check, concept, raises, walk

WIDTH = 4  # blocks of a row


def make(lab, *names):
    """A batch of five rows; request n has n + 1 blocks."""
    batch = lab.DeltaBatch(5, WIDTH)
    for number, name in enumerate(names):
        batch.add(name, 10 + number, 20 + number, [100 * number + i for i in range(number % WIDTH + 1)])
    return batch


def shown(batch):
    """The rows: request, token, position, and the entries of its table."""
    found = []
    for row in range(5):
        name = batch.req_ids[row] if row < len(batch.req_ids) else ""
        table = list(batch.block_tables[row * WIDTH : (row + 1) * WIDTH])
        found.append((name, batch.input_ids[row], batch.positions[row], table))
    return found


def draw(batch):
    return "\n".join(f"row {row}  {name or '-':2} token {t}  position {p}  blocks {table}"
                     for row, (name, t, p, table) in enumerate(shown(batch)))  # fmt: skip


def buffers(batch):
    return [batch.input_ids, batch.positions, batch.block_tables]


def written(batch):
    return sum(buffer.num_written for buffer in buffers(batch))


EMPTY = ("", 0, 0, [-1] * WIDTH)
A, B, C = ("a", 10, 20, [0, -1, -1, -1]), ("b", 11, 21, [100, 101, -1, -1]), ("c", 12, 22, [200, 201, 202, -1])


@concept("A new request takes the row behind the last one.", invariant="I1", illustrates=True)
@cases(none=("", [EMPTY] * 5), one=("a", [A, *[EMPTY] * 4]), three=("abc", [A, B, C, EMPTY, EMPTY]))
def test_added(lab, case):
    names, expected = case
    batch = make(lab, *names)
    see = check(draw, batch)
    see("request, token, position and blocks of each row", shown(batch), equals=expected)


@concept("Blocks are put behind those that a request has.", invariant="I2")
def test_extended(lab):
    batch = make(lab, "a", "b")
    see = check(draw, batch)
    batch.extend("a", [7])
    batch.extend("b", [])
    batch.extend("a", [8, 9])
    see("row of a", shown(batch)[0], equals=("a", 10, 20, [0, 7, 8, 9]))
    see("row of b", shown(batch)[1], equals=B)


@concept("A request computes its next token one position further.", invariant="I2")
def test_advanced(lab):
    batch = make(lab, "a", "b")
    see = check(draw, batch)
    for token_id in (40, 41, 42):
        batch.advance("b", token_id)
    see("row of b", shown(batch)[1], equals=("b", 42, 24, [100, 101, -1, -1]))
    see("row of a", shown(batch)[0], equals=A)


@concept("The last row fills the gap, and no other row moves.", invariant="I3")
@cases(first=("abc", "a", [C, B]), middle=("abc", "b", [A, C]), last=("abc", "c", [A, B]), alone=("a", "a", []))
def test_removed(lab, case):
    names, gone, expected = case
    batch = make(lab, *names)
    see = check(draw, batch)
    batch.remove(gone)
    see(f"the rows in use when {gone} has gone", shown(batch)[: len(expected)], equals=expected)
    see("the requests by row", list(batch.req_ids), equals=[each[0] for each in expected])


@concept("A request that has moved is found in its new row.", invariant="I3", illustrates=True)
def test_moved(lab):
    batch = make(lab, "a", "b", "c")
    see = check(draw, batch)
    batch.remove("a")
    batch.advance("c", 50)
    batch.extend("c", [9])
    see("row of c, which has moved to row 0", shown(batch)[0], equals=("c", 50, 23, [200, 201, 202, 9]))
    batch.add("d", 13, 23, [300])
    batch.remove("c")
    batch.extend("d", [301])
    see("row of d, which has moved where a longer table was", shown(batch)[0], equals=("d", 13, 23, [300, 301, -1, -1]))


@concept("A request that is not in the batch is refused.", invariant="I3", illustrates=True)
def test_a_stranger(lab):
    batch = make(lab, "a", "b")
    see = check(draw, batch)
    with raises(KeyError, "c is not in the batch"):
        batch.remove("c")
    see("the rows after the refusal", shown(batch), equals=[A, B, EMPTY, EMPTY, EMPTY])
    batch = make(lab)
    with raises(KeyError, "nobody is in the batch"):
        batch.remove("c")


@concept("Nothing is left of a request that has gone or moved.", invariant="I4")
@cases(first="a", middle="b", last="c", longest_first="cab", in_turn="abc", backwards="cba")
def test_nothing_is_left(lab, case):
    batch = make(lab, "a", "b", "c")
    see = check(draw, batch)
    for name in case:
        batch.remove(name)
    num_rows = 3 - len(case)
    see("the rows that are not in use", shown(batch)[num_rows:], equals=[EMPTY] * (5 - num_rows))


@concept("A short table that moves over a long one ends where it ended.", invariant="I4")
def test_a_short_table_over_a_long_one(lab):
    batch = make(lab, "a", "b", "c")
    batch.add("d", 13, 23, [300])
    see = check(draw, batch)
    batch.remove("c")
    see("row 2, where c was and d is", shown(batch)[2], equals=("d", 13, 23, [300, -1, -1, -1]))


@concept("Only what is new is written, into buffers that stay.", invariant="I5")
@cases(advance=("advance", 40, 2), extend=("extend", [7], 1), extend_by_none=("extend", [], 0))
def test_deltas(lab, case):
    name, argument, most = case
    batch = make(lab, "a", "b", "c")
    see = check(draw, batch)
    before, lists = written(batch), buffers(batch)
    {"advance": batch.advance, "extend": batch.extend}[name]("a", argument)
    see.between(f"entries that {name}(a, {argument}) writes", written(batch) - before, most=most)
    before = written(batch)
    batch.remove("a")
    see.between("entries that remove(a) writes, in two rows", written(batch) - before, most=2 * (WIDTH + 2))
    same = [new is old for new, old in zip(buffers(batch), lists)]
    see("whether each buffer is the same list", same, equals=[True] * 3)
    numbers = [batch.input_ids, batch.positions]
    before = [buffer.num_written for buffer in numbers]
    batch.remove("c")
    most = max(buffer.num_written - old for buffer, old in zip(numbers, before))
    see.between("entries of input_ids, or of positions, that remove(c) writes", most, most=2)


def plan(rng):
    calls = [("batch",)]
    for _ in range(rng.randint(4, 30)):
        name = rng.choice("abcde")
        calls.append(rng.choice((
            ("add", name, rng.randint(1, 99), rng.randint(0, 50), [7, 8, 9][: rng.randint(0, 3)]),
            ("remove", name), ("advance", name, rng.randint(1, 99)), ("extend", name, [rng.randint(0, 99)]),
        )))  # fmt: skip
    return calls


def play(lab, calls):
    batch, lengths = None, {}
    for name, *arguments in calls:
        if name == "batch":
            batch = make(lab)
            continue
        request_id = arguments[0]
        if (name == "add") == (request_id in lengths) or (name == "extend" and lengths[request_id] == WIDTH):
            continue
        before = draw(batch)
        calls_of = {"add": batch.add, "remove": batch.remove, "advance": batch.advance, "extend": batch.extend}
        calls_of[name](*arguments)
        if name == "add":
            lengths[request_id] = len(arguments[3])
        elif name == "extend":
            lengths[request_id] += 1
        elif name == "remove":
            del lengths[request_id]
        yield "I4", "request, token, position and blocks of each row", shown(batch), before


@concept("Whatever comes and goes: the rows of the reference.", invariant="I4", illustrates=True, searches=True)
def test_any_calls(lab):
    walk(lab, plan, play)
