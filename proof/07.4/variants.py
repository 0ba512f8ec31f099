# === copies_rows_whole
"""A row is copied over its whole width, and found by looking through the ids."""

from labkit.steps.batch import PADDING, Buffer


class DeltaBatch:
    def __init__(self, max_num_seqs, max_blocks):
        self.max_blocks = max_blocks
        self.req_ids, self.lengths = [], []
        self.input_ids, self.positions = Buffer([0] * max_num_seqs), Buffer([0] * max_num_seqs)
        self.block_tables = Buffer([PADDING] * max_num_seqs * max_blocks)

    def _row(self, request_id):
        if request_id not in self.req_ids:
            raise KeyError(request_id)
        return self.req_ids.index(request_id)

    def add(self, request_id, token_id, position, block_ids):
        self.req_ids.append(request_id)
        self.lengths.append(0)
        self.input_ids[len(self.req_ids) - 1] = token_id
        self.positions[len(self.req_ids) - 1] = position
        self.extend(request_id, block_ids)

    def extend(self, request_id, block_ids):
        row = self._row(request_id)
        for block_id in block_ids:
            self.block_tables[row * self.max_blocks + self.lengths[row]] = block_id
            self.lengths[row] += 1

    def advance(self, request_id, token_id):
        row = self._row(request_id)
        self.input_ids[row] = token_id
        self.positions[row] = self.positions[row] + 1

    def _write(self, row, token_id, position, table):
        self.input_ids[row], self.positions[row] = token_id, position
        self.block_tables[row * self.max_blocks : (row + 1) * self.max_blocks] = table

    def remove(self, request_id):
        row, last = self._row(request_id), len(self.req_ids) - 1
        table = list(self.block_tables[last * self.max_blocks : (last + 1) * self.max_blocks])
        self._write(row, self.input_ids[last], self.positions[last], table)
        self._write(last, 0, 0, [PADDING] * self.max_blocks)
        self.req_ids[row], self.lengths[row] = self.req_ids[last], self.lengths[last]
        self.req_ids.pop()
        self.lengths.pop()


# === ends_by_padding
"""A table ends at its first padding, so no length is kept."""

from labkit.steps.batch import PADDING, Buffer


class DeltaBatch:
    def __init__(self, max_num_seqs, max_blocks):
        self.width, self.req_ids, self.places = max_blocks, [], {}
        self.input_ids = Buffer(0 for _ in range(max_num_seqs))
        self.positions = Buffer(0 for _ in range(max_num_seqs))
        self.block_tables = Buffer(PADDING for _ in range(max_num_seqs * max_blocks))

    def _span(self, row):
        return range(row * self.width, (row + 1) * self.width)

    def add(self, request_id, token_id, position, block_ids):
        row = self.places[request_id] = len(self.places)
        self.req_ids.append(request_id)
        self.input_ids[row] = token_id
        self.positions[row] = position
        self.extend(request_id, block_ids)

    def extend(self, request_id, block_ids):
        free = [place for place in self._span(self.places[request_id]) if self.block_tables[place] == PADDING]
        for place, block_id in zip(free, block_ids):  # noqa: B905
            self.block_tables[place] = block_id

    def advance(self, request_id, token_id):
        self.input_ids[self.places[request_id]] = token_id
        self.positions[self.places[request_id]] += 1

    def remove(self, request_id):
        row = self.places.pop(request_id)
        last = len(self.places)
        if row < last:
            name = self.req_ids[last]
            self.places[name], self.req_ids[row] = row, name
            self.input_ids[row] = self.input_ids[last]
            self.positions[row] = self.positions[last]
            for to, place in zip(self._span(row), self._span(last)):  # noqa: B905
                self.block_tables[to] = self.block_tables[place]
        del self.req_ids[last]
        self.input_ids[last] = self.positions[last] = 0
        for place in self._span(last):
            self.block_tables[place] = PADDING
