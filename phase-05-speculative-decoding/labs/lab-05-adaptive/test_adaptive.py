"""Lab 05.5: how many drafts a request asks for, by how many were right."""

from itertools import groupby
from random import Random

from labkit import cases, check, concept, far, walk


class Watched:
    """A pace, and what happened to it, for the message."""

    def __init__(self, lab, most):
        self.most, self.pace, self.story = most, lab.Pace(most), []

    def next_length(self):
        self.story.append("pace.next_length()")
        return self.pace.next_length()

    def learn(self, num_drafts, num_accepted):
        self.story.append(f"pace.learn({num_drafts}, {num_accepted})")
        self.pace.learn(num_drafts, num_accepted)

    def drawn(self):
        """All calls, as Python that can be typed."""
        lines = [f"pace = Pace({self.most})"]
        for call, again in groupby(self.story):
            times = len(list(again))
            call = call if times == 1 else f"[{call} for _ in range({times})]"
            if len(lines[-1]) + len(call) < 100:
                lines[-1] += f"; {call}"
            else:
                lines.append(call)
        return "\n".join(lines)


def fail(watched, times=1):
    """So many steps whose one draft was wrong."""
    for _ in range(times):
        watched.learn(1, 0)


def until_none(watched):
    """Wrong drafts, until the pace asks for none; then one step of the wait is over."""
    for _ in range(100):
        fail(watched)
        if watched.next_length() == 0:
            break


def waits(watched, num_tries):
    """How long it waits before each of so many tries, all of them wrong; and what it asks for then."""
    found = []
    for _ in range(num_tries):
        steps = 0
        while steps < 200 and (length := watched.next_length()) == 0:
            steps += 1
        found.append((steps, length))
        fail(watched)
    return found


@concept("The length is the share of right drafts, of the most that there may be.", invariant="I2", illustrates=True)
@cases(
    at_first=(4, [], 1),
    all_right=(4, [(1, 1), (4, 4)], 4),
    all_right_for_long=(5, [(5, 5)] * 15, 5),
    first_wrong=(4, [(1, 0)], 0),
    then_wrong=(4, [(1, 1), (4, 0)], 2),
    half=(4, [(4, 2), (4, 2), (4, 2)], 3),
    one_of_four=(5, [(4, 1)] * 6, 3),
    a_few_wrong=(8, [(8, 8), (8, 3), (6, 0)], 7),
    just_one=(1, [(1, 1), (1, 0)], 1),
    of_a_million=(10**6, [(1, 1), (4, 0)], 459_460),
    of_many_right=(10**6, [(1000, 1000), (1000, 999)], 999_460),
    all_of_a_million=(10**6, [(1, 1), (10**6, 10**6)], 10**6),
)
def test_the_share(lab, case):
    most, learnt, expected = case
    watched = Watched(lab, most)
    see = check(watched.drawn)
    for num_drafts, num_accepted in learnt:
        watched.learn(num_drafts, num_accepted)
    see("next_length()", watched.next_length(), equals=expected)


@concept("A draft behind a wrong one was not tried, so it counts neither way.", invariant="I1")
@cases(one_wrong=(4, 0, 46), three_behind_one=(4, 1, 65), eight=(8, 0, 46), hundred=(100, 0, 46), most=(100, 1, 65))
def test_behind_a_wrong_one(lab, case):
    num_drafts, num_accepted, share = case
    watched = Watched(lab, 100)
    see = check(watched.drawn)
    watched.learn(1, 1)
    watched.learn(num_drafts, num_accepted)
    about = range(share - 4, share + 4)
    see.between("next_length()", watched.next_length(), about[0], about[-1])


@concept("What was seen long ago hardly counts: a request that goes bad is noticed within some steps.", invariant="I1",
         illustrates=True)  # fmt: skip
@cases(after_good_ones=(40, 100, 12), after_few=(3, 100, 8))
def test_it_forgets(lab, case):
    num_good, most, expected = case
    watched = Watched(lab, most)
    see = check(watched.drawn)
    for _ in range(num_good):
        watched.learn(1, 1)
    num_bad = 0
    while num_bad < 60 and watched.next_length():
        fail(watched)
        num_bad += 1
    see(f"wrong drafts, after {num_good} right ones, until there are none", num_bad, equals=expected)


@concept("A share of a draft is a whole draft: the length is rounded up.", invariant="I2")
@cases(
    twenty=(20, 3, 4), eight=(8, 3, 2), four=(4, 3, 1), one=(1, 3, 1), a_little_more=(467, 3, 91), far=(26_427, 3, 5094)
)
def test_rounded_up(lab, case):
    most, num_wrong, expected = case
    watched = Watched(lab, most)
    see = check(watched.drawn)
    watched.learn(1, 1)
    fail(watched, num_wrong)
    see("next_length()", watched.next_length(), equals=expected)


@concept("Where almost none is right there are no drafts, and one is tried again after ever more steps.",
         invariant="I4")  # fmt: skip
def test_tries(lab):
    watched = Watched(lab, 100)
    see = check(watched.drawn)
    until_none(watched)
    found = waits(watched, 4)
    see("steps without drafts before each try (one was over), and drafts of the try", found,
        equals=[(3, 1), (8, 1), (16, 1), (32, 1)])  # fmt: skip


@concept("However often it failed, the next try comes within 65 steps.", invariant="I4")
def test_the_longest_wait(lab):
    watched = Watched(lab, 100)
    see = check(watched.drawn)
    until_none(watched)
    found = [steps for steps, _ in waits(watched, 9)]
    see("steps without drafts before the last four tries", found[5:], equals=[64, 64, 64, 64])


@concept("A success ends it: the length is the share again, and the next wait is short.", invariant="I5")
def test_a_success(lab):
    watched = Watched(lab, 100)
    see = check(watched.drawn)
    until_none(watched)
    waits(watched, 3)
    watched.learn(1, 1)
    see.between("next_length() after a right draft", watched.next_length(), least=2)
    until_none(watched)
    see("steps without drafts before the next try (one was over)", waits(watched, 1)[0][0], equals=3)


@concept("A try that had no drafts to verify is still due.", invariant="I3", illustrates=True)
def test_a_try_is_due(lab):
    watched = Watched(lab, 4)
    see = check(watched.drawn)
    until_none(watched)
    lengths = [watched.next_length() for _ in range(6)]
    see("lengths of the next six steps; three of them end the wait of four", lengths, equals=[0, 0, 0, 1, 1, 1])
    lengths = {watched.next_length() for _ in range(far(1000))}
    see("the different lengths of very many steps in which nothing is learnt", lengths, equals={1})


@concept("What is learnt within a wait counts at once: a success ends the wait, a failure begins the next one.",
         invariant="I6", illustrates=True)  # fmt: skip
@cases(
    failure_at_once=([0, "-"], [0] * 8 + [1, 1]),
    failure_at_the_end=([0, 0, 0, 0, "-"], [0] * 8 + [1, 1]),
    two_failures=([0, "-", 0, "-"], [0] * 16 + [1, 1]),
    failure_after_a_longer_wait=([*[0] * 4, 1, "-", *[0] * 5, "-"], [0] * 16 + [1, 1]),
    success_at_once=(["+"], [55, 55]),
    success_in_the_middle=([0, 0, "+"], [55, 55]),
    success_then_failures=([0, "+", *"----"], [0] * 4 + [1, 1]),
)
def test_within_a_wait(lab, case):
    """The first draft is wrong, so that a wait of 4 begins. Then + is a right draft, - a wrong one, a number a step."""
    story, expected = case
    watched = Watched(lab, 100)
    see = check(watched.drawn)
    fail(watched)
    for event in story:
        if isinstance(event, int):
            see("next_length()", watched.next_length(), equals=event)
        else:
            watched.learn(1, int(event == "+"))
    got = [watched.next_length() for _ in expected]
    see("lengths of the next steps", got, equals=expected)


@concept("Before anything is learnt the length is 1, in each step.", invariant="I2", illustrates=True)
@cases(of_1=1, of_4=4, of_100=100)
def test_before_the_first(lab, case):
    watched = Watched(lab, case)
    see = check(watched.drawn)
    see("lengths of the first 200 steps", [watched.next_length() for _ in range(200)], equals=[1] * 200)
    fail(watched)
    got = [watched.next_length() for _ in range(6)]
    see("lengths of the next six steps, after a wrong draft", got, equals=[0, 0, 0, 0, 1, 1])


@concept("Each request has a pace of its own.", invariant="I1", illustrates=True)
def test_two_paces(lab):
    one, other = Watched(lab, 4), Watched(lab, 4)
    see = check(lambda: f"{one.drawn()}\n{other.drawn()}")
    one.learn(1, 1)
    other.learn(1, 0)
    lengths = [(one.next_length(), other.next_length()) for _ in range(6)]
    see("lengths of both", lengths, equals=[(4, 0), (4, 0), (4, 0), (4, 0), (4, 1), (4, 1)])


@concept("Each request has a pace of its own, however many there are, or were.", invariant="I1")
def test_many_paces(lab):
    see, paces, rng = check(), [lab.Pace(4) for _ in range(far(1000))], Random(3)
    learnt = [rng.choice(((1, 1), (2, 1), (1, 0))) for _ in paces]
    for pace, (num_drafts, num_accepted) in zip(paces, learnt):
        pace.learn(num_drafts, num_accepted)
    for step in range(2):
        lengths = {(1, 1): set(), (2, 1): set(), (1, 0): set()}
        for pace, call in zip(paces, learnt):
            lengths[call].add(pace.next_length())
        what = f"what {len(paces)} paces ask for in step {step}, by how they called learn()"
        see(what, lengths, equals={(1, 1): {4}, (2, 1): {2}, (1, 0): {0}})
    del paces, pace
    first = [lab.Pace(4).next_length() for _ in range(20)]
    see("the first lengths of twenty paces, each made when the one before it is gone", first, equals=[1] * 20)


@concept("However long a request runs, what it does again has the same share again.", invariant="I1")
def test_a_long_request(lab):
    pace, lengths = lab.Pace(100), []
    for _ in range(far(100)):
        for num_accepted in (1, 1, 0):
            pace.learn(1, num_accepted)
        lengths.append(pace.next_length())
    see = check()
    what = "the lengths that there are, of at most 100, asked after each wrong draft: every third one is wrong"
    see(what, sorted(set(lengths[20:])), equals=[62])


def plan(rng):
    """Drafts that are right with a probability that changes, and waits of any length."""
    most, accuracy = rng.choice((1, 2, 3, 4, 5, 7, 97, 99_991)), rng.random()
    calls = [("Pace", most)]
    for _ in range(rng.randint(5, 60)):
        if rng.random() < 0.1:
            accuracy = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        calls += [("next_length",)] * rng.choice((1, 1, 1, 2, 5, rng.randint(1, 70)))
        if rng.random() < 0.9:
            draws = [rng.random() < accuracy for _ in range(rng.randint(1, min(most, 8)))]
            calls.append(("learn", len(draws), [*draws, False].index(False)))
    return calls


def play(lab, calls):
    pace = None
    for name, *arguments in calls:
        if name == "Pace":
            pace = lab.Pace(*arguments)
        elif name == "learn":
            pace.learn(*arguments)
        else:
            length = pace.next_length()
            yield "I2" if length > 1 else "I3", "next_length()", length


@concept("Whatever was right and wrong, the pace asks for the drafts that its rules say.", invariant="I2",
         illustrates=True, searches=True)  # fmt: skip
def test_any_request(lab):
    walk(lab, plan, play)
