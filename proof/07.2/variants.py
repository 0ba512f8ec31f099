# === closures
"""Each launch is a closure, and beside it the buffers that have to stay."""

from labkit.steps.recording import MovedBufferError, NotRecordedError


class StepGraph:
    def __init__(self, size, buffers):
        self.size, self.buffers = size, buffers
        self.destroy()

    def destroy(self):
        self.closures, self.used = [], {}

    def record(self, forward):
        self.destroy()
        forward(self._note)

    def _note(self, kernel, *names):
        lists = [self.buffers[name] for name in names]
        self.used.update(zip(names, lists, strict=True))
        self.closures.append(lambda: kernel(*lists))

    def can_use(self, num_rows):
        return 1 <= num_rows <= self.size if self.closures else False

    def pad(self, rows):
        if len(rows) > self.size:
            raise ValueError(f"at most {self.size} rows, got {len(rows)}")
        for i in range(self.size):
            token, position, slot = rows[i] if i < len(rows) else (0, 0, -1)
            self.buffers["input_ids"][i] = token
            self.buffers["positions"][i] = position
            self.buffers["slot_mapping"][i] = slot

    def replay(self):
        if not self.closures:
            raise NotRecordedError("record() comes first")
        moved = [name for name, buffer in self.used.items() if self.buffers.get(name) is not buffer]
        if moved:
            raise MovedBufferError(", ".join(moved))
        for closure in self.closures:
            closure()


# === by_address
"""Addresses are compared as numbers, and the recording is None where there is none."""

from labkit.steps.recording import MovedBufferError, NotRecordedError


class StepGraph:
    def __init__(self, size, buffers):
        self.size = size
        self.buffers = buffers
        self.recording = None

    def record(self, forward):
        self.recording = recording = []
        forward(lambda kernel, *names: recording.append((kernel, names, [self.buffers[name] for name in names])))

    def can_use(self, num_rows):
        return self.recording is not None and num_rows in range(1, self.size + 1)

    def pad(self, rows):
        num_dummies = self.size - len(rows)
        if num_dummies < 0:
            raise ValueError("too many rows")
        for i, (name, fill) in enumerate((("input_ids", 0), ("positions", 0), ("slot_mapping", -1))):
            self.buffers[name][: self.size] = [row[i] for row in rows] + [fill] * num_dummies

    def _addresses(self, names):
        return [id(self.buffers.get(name)) for name in names]

    def replay(self):
        if self.recording is None:
            raise NotRecordedError("nothing is recorded")
        for _, names, lists in self.recording:
            if self._addresses(names) != [id(each) for each in lists]:
                raise MovedBufferError(f"one of {names}")
        for kernel, _, lists in self.recording:
            kernel(*lists)

    def destroy(self):
        self.recording = None
