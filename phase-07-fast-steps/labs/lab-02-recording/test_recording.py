"""Lab 07.2: what a recorded step does, and what it must refuse."""

from gc import collect
from weakref import ref

from labkit import cases, check, concept, raises

NAMES = ("input_ids", "positions", "slot_mapping")


class Buffer(list):
    """A list of which it can be seen whether anything holds it."""

    __slots__ = ("__weakref__",)


class Model:
    """A forward of two kernels, and what they were given."""

    def __init__(self, lab, size=4, room=6):
        self.buffers = {name: Buffer(90 + i for i in range(room)) for name in (*NAMES, "hidden", "spare")}
        self.graph = lab.StepGraph(size, self.buffers)
        self.seen = []
        self.num_forwards = 0

    def embed(self, input_ids, hidden):
        self.seen.append(("embed", list(input_ids)))
        hidden[:] = [10 * token for token in input_ids]

    def write(self, hidden, slots):
        self.seen.append(("write", list(hidden), list(slots)))

    def forward(self, launch):
        self.num_forwards += 1
        launch(self.embed, "input_ids", "hidden")
        launch(self.write, "hidden", "slot_mapping")

    def shown(self):
        """The three buffers of a step."""
        return [list(self.buffers[name]) for name in NAMES]


def rows_of(lab, num_rows, first=1):
    return [lab.Row(first + i, 20 + i, 40 + i) for i in range(num_rows)]


@concept("While a step is recorded, its kernels are noted and do not run.", invariant="I1", illustrates=True)
def test_recording_runs_nothing(lab):
    model = Model(lab)
    see = check()
    model.graph.record(model.forward)
    see("kernels that ran while the forward was recorded", model.seen, equals=[])
    see("calls of the forward", model.num_forwards, equals=1)


@concept("A second recording takes the place of the first.", invariant="I1", illustrates=True)
def test_recorded_again(lab):
    model, other = Model(lab), []
    see = check()
    model.graph.record(model.forward)
    model.graph.record(lambda launch: launch(lambda spare: other.append(list(spare)), "spare"))
    model.graph.replay()
    see("kernels of the first recording that ran", model.seen, equals=[])
    see("what the kernel of the second recording read", other, equals=[model.buffers["spare"]])


@concept("A replay runs the kernels in order, on what stands in the buffers now.", invariant="I2", illustrates=True)
def test_replay(lab):
    model = Model(lab, size=2, room=2)
    see = check()
    model.graph.record(model.forward)
    for first in (1, 7, 7):
        model.seen.clear()
        model.graph.pad(rows_of(lab, 2, first))
        model.graph.replay()
        ids = [first, first + 1]
        expected = [("embed", ids), ("write", [10 * each for each in ids], [40, 41])]
        see("the kernels of a replay, and what they read", model.seen, equals=expected)
    see("calls of the forward after three replays", model.num_forwards, equals=1)


@concept("A kernel gets its buffers as they were named, also one of them twice.", invariant="I2", illustrates=True)
def test_a_buffer_twice(lab):
    model, got = Model(lab), []
    see = check()
    model.graph.record(lambda launch: launch(lambda *given: got.append(given), "hidden", "spare", "hidden"))
    model.graph.replay()
    hidden, spare = model.buffers["hidden"], model.buffers["spare"]
    same = [[each is wanted for each, wanted in zip(given, (hidden, spare, hidden))] for given in got]
    see("whether the kernel got hidden, spare and hidden", same, equals=[[True] * 3])


@concept("Behind the rows of a step stand dummy rows, whose slot no kernel writes.", invariant="I3", illustrates=True)
@cases(one=1, three=3, all=4, none=0)
def test_dummy_rows(lab, case):
    model = Model(lab)
    see = check()
    model.graph.record(model.forward)
    model.graph.pad(rows_of(lab, case))
    rows = [*rows_of(lab, case), *[(0, 0, -1)] * (4 - case)]
    got = [column[:4] for column in model.shown()]
    see(f"input_ids, positions, slot_mapping of {case} rows in a graph of 4", got, [list(each) for each in zip(*rows)])


@concept("Nothing of a fuller step is left in the rows behind a smaller one.", invariant="I3")
def test_a_smaller_step_follows(lab):
    model = Model(lab)
    see = check()
    model.graph.record(model.forward)
    for num_rows in (4, 2, 3, 1):
        model.graph.pad(rows_of(lab, num_rows))
    got = [column[:4] for column in model.shown()]
    see("the buffers of 1 row after steps of 4, 2 and 3", got, [[1, 0, 0, 0], [20, 0, 0, 0], [40, -1, -1, -1]])


@concept("Buffers are shared with graphs of other sizes: a step is written into them, up to its own size.",
         invariant="I3")  # fmt: skip
def test_written_in_place(lab):
    model = Model(lab)
    see = check()
    lists = dict(model.buffers)
    model.graph.record(model.forward)
    model.graph.pad(rows_of(lab, 3))
    moved = [name for name in lists if model.buffers[name] is not lists[name]]
    see("buffers that are other lists now", moved, equals=[])
    see("entries behind the graph's size", [column[4:] for column in model.shown()], equals=[[94, 95]] * 3)


@concept("A graph takes steps of at most its size, and refuses others before it changes anything.", invariant="I4")
@cases(none=(0, False), one=(1, True), all=(4, True), more=(5, False), many=(40, False))
def test_which_steps(lab, case):
    num_rows, expected = case
    model = Model(lab)
    see = check()
    model.graph.record(model.forward)
    see(f"can_use({num_rows}) of a graph of 4 rows", model.graph.can_use(num_rows), equals=expected)
    if num_rows > 4:
        before = model.shown()
        with raises(ValueError, f"a graph of 4 rows refuses {num_rows} rows"):
            model.graph.pad(rows_of(lab, num_rows))
        see("the buffers after a refusal", model.shown(), equals=before)


@concept("A replay on a buffer that has moved would compute with old memory, so it is refused.", invariant="I5")
@cases(
    first="input_ids", between="hidden", last="slot_mapping",
)  # fmt: skip
def test_a_buffer_has_moved(lab, case):
    model = Model(lab)
    see = check()
    model.graph.record(model.forward)
    model.graph.pad(rows_of(lab, 2))
    model.buffers[case] = list(model.buffers[case])
    with raises(lab.MovedBufferError, f"{case} is another list with the same content"):
        model.graph.replay()
    del model.buffers[case]
    with raises(lab.MovedBufferError, f"{case} is no buffer any more"):
        model.graph.replay()
    for _ in range(20):  # a list that has gone may leave its place in memory to the next one
        model.buffers[case] = Buffer([0] * 6)
        with raises(lab.MovedBufferError, f"{case} is another list, made when the old one was gone"):
            model.graph.replay()
    see("kernels that ran before the refusal", model.seen, equals=[])


@concept("A buffer is known by which list it is: new content is no move, and what no kernel uses may move.",
         invariant="I5", illustrates=True)  # fmt: skip
def test_what_may_change(lab):
    model = Model(lab)
    see = check()
    model.graph.record(model.forward)
    model.buffers["spare"], model.buffers["more"] = [], []
    model.buffers["hidden"][:] = [7] * 6
    model.graph.replay()
    see("kernels that ran", [each[0] for each in model.seen], equals=["embed", "write"])
    model.graph.record(lambda launch: launch(lambda hidden: model.seen.append(("alone", list(hidden))), "hidden"))
    for name in NAMES:
        model.buffers[name] = list(model.buffers[name])
    model.graph.replay()
    expected = [("alone", model.buffers["hidden"])]
    see("the kernel of a graph that uses no buffer of a step", model.seen[2:], equals=expected)


@concept("Without a recording there is nothing to use.", invariant="I6")
@cases(never_recorded=0, destroyed=1, destroyed_twice=2)
def test_nothing_recorded(lab, case):
    model = Model(lab)
    see = check()
    if case:
        model.graph.record(model.forward)
    for _ in range(case):
        model.graph.destroy()
    see("can_use(1)", model.graph.can_use(1), equals=False)
    with raises(lab.NotRecordedError, "nothing is recorded"):
        model.graph.replay()
    see("buffers that stay", sorted(model.buffers), equals=sorted((*NAMES, "hidden", "spare")))
    if case:
        held = ref(model.buffers["hidden"])
        model.buffers["hidden"] = Buffer([0] * 6)
        collect()
        see("whether anything still holds a buffer that is no longer in the dict", held() is not None, equals=False)
    model.graph.record(model.forward)
    see("can_use(1) after a new recording", model.graph.can_use(1), equals=True)
