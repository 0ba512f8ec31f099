# === a_list_of_chunks
"""The chunks are lists, and each of them is replaced by a new one."""


class RingRank:
    def __init__(self, rank, size, numbers):
        ends = [c * len(numbers) // size for c in range(size + 1)]
        self.chunks = [tuple(numbers[a:b]) for a, b in zip(ends, ends[1:])]  # noqa: B905
        self.out, self.size, self.left = rank, size, size - 1

    def send(self):
        return list(self.chunks[self.out])

    def receive(self, message):
        self.out = (self.out - 1) % self.size
        if self.left > 0:
            message = map(sum, zip(message, self.chunks[self.out]))  # noqa: B905
        self.left -= 1
        self.chunks[self.out] = tuple(message)

    def result(self):
        return [number for chunk in self.chunks for number in chunk]


def bytes_sent(rank, size, num_numbers, itemsize):
    ends = [c * num_numbers // size for c in range(size + 1)]
    lengths = [b - a for a, b in zip(ends, ends[1:])]  # noqa: B905
    sent = [lengths[(rank - i) % size] for i in range(2 * (size - 1))]
    return sum(sent) * itemsize


# === a_generator
"""A rank is a generator that gives a message and waits for one."""


def life(rank, size, numbers):
    def bounds(c):
        return slice(c % size * len(numbers) // size, (c % size + 1) * len(numbers) // size)

    for i in range(2 * size - 2):
        came = yield numbers[bounds(rank - i)]
        where = bounds(rank - i - 1)
        own = numbers[where]
        numbers[where] = [came[k] + own[k] for k in range(len(own))] if i < size - 1 else came
    yield []


class RingRank:
    def __init__(self, rank, size, numbers):
        self.numbers = [*numbers]
        self.life = life(rank, size, self.numbers)
        self.message = next(self.life)

    def send(self):
        return self.message[:]

    def receive(self, message):
        self.message = self.life.send(list(message))

    def result(self):
        return self.numbers.copy()


def bytes_sent(rank, size, num_numbers, itemsize):
    def length(c):
        return (c + 1) * num_numbers // size - c * num_numbers // size

    if size == 1:
        return 0
    return itemsize * (2 * num_numbers - length((rank + 1) % size) - length((rank + 2) % size))
