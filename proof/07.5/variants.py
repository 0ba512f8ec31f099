# === a_list_of_splits
"""The sums of the full splits are not kept: a generator takes numbers, and each total is remembered."""

from itertools import islice

from labkit.steps.sums import MULTIPLES


class RunningSum:
    def __init__(self, split_size):
        self.split_size = split_size
        self.count = 0
        self.sums = (0.0, 0.0)

    def extend(self, numbers):
        numbers = iter(numbers)
        while split := list(islice(numbers, self.split_size - self.count % self.split_size)):
            full, last = self.sums
            for number in split:
                last += number
            self.count += len(split)
            self.sums = (full, last) if self.count % self.split_size else (full + last, 0.0)

    def total(self):
        return sum(self.sums)


def padded(kernel, multiple, rows):
    batch = list(rows)
    while len(batch) % multiple:
        batch.append(tuple(0.0 for _ in rows[0]))
    return [number for number, _ in zip(kernel(batch), rows)] if batch else []


def multiple_of(kernel, rows):
    def is_trusted(multiple):
        alone = [padded(kernel, multiple, [row]) for row in rows]
        spans = [(0, n) for n in range(1, 1 + len(rows))] + [(n, len(rows)) for n in range(len(rows))]
        return all(padded(kernel, multiple, rows[a:b]) == sum(alone[a:b], []) for a, b in spans)

    for multiple in filter(is_trusted, MULTIPLES):
        return multiple
    raise ValueError("no multiple can be trusted")


# === row_by_row
"""It compares each row in turn, and remembers what a batch has given."""

from functools import lru_cache

from labkit.steps.sums import MULTIPLES


class RunningSum:
    def __init__(self, split_size):
        self.split_size, self.parts = split_size, [0.0, 0.0, 0]

    def extend(self, numbers):
        for number in numbers:
            full, last, count = self.parts
            last, count = last + number, count + 1
            is_full = count == self.split_size
            self.parts = [full + last, 0.0, 0] if is_full else [full, last, count]

    def total(self):
        full, last, _ = self.parts
        return full + last


def padded(kernel, multiple, rows):
    if len(rows) == 0:
        return []
    missing = 0
    while (len(rows) + missing) % multiple != 0:
        missing += 1
    found = kernel(list(rows) + [[0.0] * len(rows[0]) for _ in range(missing)])
    return list(found[: len(found) - missing])


def differs(kernel, multiple, rows):
    @lru_cache(maxsize=None)
    def batch(start, stop):
        return padded(kernel, multiple, rows[start:stop])

    for i in range(len(rows)):
        (alone,) = padded(kernel, multiple, [rows[i]])
        for n in range(1, len(rows) + 1):
            if i < n and batch(0, n)[i] != alone:
                return True
            if i >= len(rows) - n and batch(len(rows) - n, len(rows))[i - len(rows) + n] != alone:
                return True
    return False


def multiple_of(kernel, rows):
    trusted = [multiple for multiple in MULTIPLES if not differs(kernel, multiple, rows)]
    if not trusted:
        raise ValueError("the kernel cannot be trusted")
    return trusted[0]
