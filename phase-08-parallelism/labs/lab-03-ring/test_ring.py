"""Lab 08.3: what each rank sends in each round, and what all of them have in the end."""

from random import Random

from labkit import cases, check, concept, far, processor_seconds, walk


def numbers_of(size, length, seed=0):
    """Terms of each rank, whose sum has other bits in another order."""
    rng = Random(1000 * size + length + seed)
    return [[rng.choice((1e16, -1e16, 1.0, 0.1, 3.3e-9)) * rng.random() for _ in range(length)] for _ in range(size)]


def integers(size, length):
    return [[float(100 * rank + place) for place in range(length)] for rank in range(size)]


def part(number, size, length):
    number %= size
    return slice(number * length // size, (number + 1) * length // size)


def expected_sum(terms):
    """Each chunk in the order of the ring, beginning with the rank of its number."""
    size, length = len(terms), len(terms[0])
    total = []
    for number in range(size):
        own = part(number, size, length)
        found = terms[number][own]
        for step in range(1, size):
            found = [a + b for a, b in zip(found, terms[(number + step) % size][own], strict=True)]
        total += found
    return total


def make(lab, terms):
    return [lab.RingRank(rank, len(terms), list(numbers)) for rank, numbers in enumerate(terms)]


def run(ranks, num_rounds):
    """Rounds in which all ranks send, and then all receive; the messages by round and rank."""
    log = []
    for _ in range(num_rounds):
        messages = [rank.send() for rank in ranks]
        log.append([list(message) for message in messages])
        for number, message in enumerate(messages):
            ranks[(number + 1) % len(ranks)].receive(message)
    return log


def told(size, length):
    return lambda: f"{size} ranks, {length} numbers each"


@concept("A message is one chunk: the rank's own one first.", invariant="I1")
@cases(even=(3, 6), uneven=(3, 7), one_more=(4, 5), fewer_than_ranks=(5, 3), two=(2, 3))
def test_first_round(lab, case):
    size, length = case
    terms = integers(size, length)
    see = check(told(size, length))
    for number, rank in enumerate(make(lab, terms)):
        message = rank.send()
        see(f"what rank {number} sends in round 0", list(message), equals=terms[number][part(number, size, length)])
        see("whether it is a list", isinstance(message, list), equals=True)


@concept("A rank sends what it has received in the round before, with its own term added.", invariant="I2",
         illustrates=True)  # fmt: skip
@cases(three=(3, 6), four=(4, 8), five=(5, 5))
def test_rounds_of_adding(lab, case):
    size, length = case
    terms = integers(size, length)
    see = check(told(size, length))
    log = run(make(lab, terms), size - 1)
    for i, messages in enumerate(log):
        for number, message in enumerate(messages):
            own = part(number - i, size, length)
            sums = [sum(terms[(number - back) % size][k] for back in range(i + 1)) for k in range(length)]
            see(f"what rank {number} sends in round {i}", message, equals=sums[own])


@concept("The terms of a chunk are added up in the order of the ring, from the rank of its number on.", invariant="I3")
@cases(two=(2, 6), three=(3, 6), four=(4, 12), five=(5, 25))
def test_order(lab, case):
    size, length = case
    for seed in range(5):
        terms = numbers_of(size, length, seed)
        see = check(told(size, length))
        ranks = make(lab, terms)
        run(ranks, size - 1)
        for number, rank in enumerate(ranks):
            own = part(number + 1, size, length)
            see(f"the chunk that rank {number} has whole", rank.result()[own], equals=expected_sum(terms)[own])


@concept("A sum that comes is taken as it is: nothing is added to it.", invariant="I4")
@cases(two=(2, 4), three=(3, 9), six=(6, 6))
def test_rounds_of_copying(lab, case):
    size, length = case
    terms = integers(size, length)
    see = check(told(size, length))
    ranks = make(lab, terms)
    run(ranks, 2 * (size - 1))
    total = [sum(term[place] for term in terms) for place in range(length)]
    for number, rank in enumerate(ranks):
        see(f"the numbers of rank {number}", rank.result(), equals=total)


@concept("All ranks have the same bits.", invariant="I5", illustrates=True)
@cases(one=(1, 4), two=(2, 9), three=(3, 1), four=(4, 0), seven=(7, 30), many=(far(8, 16), far(60)))
def test_result(lab, case):
    size, length = case
    terms = numbers_of(size, length)
    see = check(told(size, length))
    ranks = make(lab, terms)
    run(ranks, 2 * (size - 1))
    for number, rank in enumerate(ranks):
        see(f"the result of rank {number}", rank.result(), equals=expected_sum(terms))


@concept("A result is a list of its own.", invariant="I5")
def test_result_is_new(lab):
    see, rank = check(told(2, 3)), lab.RingRank(0, 2, [1.0, 2.0, 3.0])
    first = rank.result()
    rank.send()
    rank.receive([10.0, 20.0])
    see("a result from before the round", first, equals=[1.0, 2.0, 3.0])
    first[0] = 99.0
    see("the result now", rank.result(), equals=[1.0, 12.0, 23.0])


@concept("A result is a list of its own in the end, too.", invariant="I5", illustrates=True)
def test_result_is_new_in_the_end(lab):
    see, rank = check(told(2, 3)), lab.RingRank(0, 2, [1.0, 2.0, 3.0])
    for message in ([10.0, 20.0], [5.0]):
        rank.send()
        rank.receive(message)
    rank.result()[0] = 99.0
    see("the result, when one of them was changed", rank.result(), equals=[5.0, 12.0, 23.0])
    alone = lab.RingRank(0, 1, [1.0, 2.0])
    alone.result()[0] = 99.0
    see("the result of a rank alone, when one of them was changed", alone.result(), equals=[1.0, 2.0])


@concept("A message that is under way does not change.", invariant="I6")
@cases(two=(2, 4), three=(3, 6), four=(4, 8))
def test_messages_under_way(lab, case):
    """The messages are kept, and looked at when all rounds are over (nano-vllm #246: overwritten while it was read)."""
    size, length = case
    see, ranks = check(told(size, length)), make(lab, integers(size, length))
    kept = []
    for i in range(2 * (size - 1)):
        messages = [rank.send() for rank in ranks]
        kept += [(i, number, message, list(message)) for number, message in enumerate(messages)]
        for number, message in enumerate(messages):
            ranks[(number + 1) % size].receive(message)
    for i, number, message, as_sent in kept:
        see(f"the message of rank {number} in round {i}, in the end", list(message), equals=as_sent)


@concept("A rank changes no list but its own.", invariant="I6")
def test_lists_of_the_caller(lab):
    numbers, message = [1.0, 2.0, 3.0, 4.0], [10.0, 20.0]
    see = check(told(2, 4))
    rank = lab.RingRank(0, 2, numbers)
    for _ in range(2):
        rank.send()
        rank.receive(message)
        see("the message that came", message, equals=[10.0, 20.0])
    see("the numbers of the caller", numbers, equals=[1.0, 2.0, 3.0, 4.0])


@concept("A rank may be some rounds ahead of the next one: messages wait, and the sums are the same.", invariant="I6",
         illustrates=True)  # fmt: skip
@cases(three=(3, 7), four=(4, 4), five=(5, 11))
def test_ranks_at_their_own_pace(lab, case):
    size, length = case
    terms = numbers_of(size, length)
    for seed in range(8):
        rng, see = Random(seed), check(told(size, length))
        ranks = make(lab, terms)
        boxes, sent, received = [[] for _ in ranks], [0] * size, [0] * size
        while min(received) < 2 * (size - 1):
            number = rng.randrange(size)
            if sent[number] == received[number] < 2 * (size - 1):
                boxes[(number + 1) % size].append(ranks[number].send())
                sent[number] += 1
            elif sent[number] > received[number] and boxes[number]:
                ranks[number].receive(boxes[number].pop(0))
                received[number] += 1
        for number, rank in enumerate(ranks):
            see(f"the result of rank {number}", rank.result(), equals=expected_sum(terms))


@concept("A rank sends all chunks but one, twice.", invariant="I7")
@cases(even=(4, 12), uneven=(3, 7), two=(2, 5), one=(1, 9), fewer_than_ranks=(5, 3), nothing=(3, 0), six=(6, 20))
def test_bytes(lab, case):
    size, length = case
    see = check(told(size, length))
    log = run(make(lab, integers(size, length)), 2 * (size - 1))
    for number in range(size):
        sent = sum(len(messages[number]) for messages in log)
        for itemsize in (2, 4):
            what = f"bytes that rank {number} sends, {itemsize} for a number"
            see(what, lab.bytes_sent(number, size, length, itemsize), equals=sent * itemsize)


@concept("The bytes of an all-reduce are hardly more with many ranks than with two.", invariant="I7", illustrates=True)
@cases(two=2, eight=8, many=far(64, 500))
def test_bytes_of_billions(lab, case):
    length = case * far(10**9)
    see = check(told(case, length))
    seconds = processor_seconds(
        lambda: see("bytes that rank 0 sends", lab.bytes_sent(0, case, length, 2), 4 * (length - length // case))
    )
    see.between("seconds of the processor", seconds, most=0.5)


def plan(rng):
    size = rng.randint(1, 5)
    calls = [("rank", rng.randrange(size), size, [rng.choice((0.1, 1e16, -1e16)) for _ in range(rng.randint(0, 9))])]
    return calls + [("round", rng.random()) for _ in range(rng.randint(0, 2 * (size - 1)))]


def play(lab, calls):
    rank, size, number, i, length = None, 1, 0, 0, 0
    for name, *arguments in calls:
        if name == "rank":
            number, size, numbers = arguments
            rank, i, length = lab.RingRank(number, size, numbers), 0, len(numbers)
            continue
        yield "I2", f"the message of round {i}", list(rank.send())
        own = range(length)[part(number - 1 - i, size, length)]
        rank.receive([arguments[0] * (1 + place) for place in own])
        i += 1
        yield "I5", f"the result after round {i - 1}", rank.result()


@concept("Whatever comes in whatever round: the messages of the reference.", invariant="I2", illustrates=True,
         searches=True)  # fmt: skip
def test_any_rounds(lab):
    walk(lab, plan, play)
