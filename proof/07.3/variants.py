# === a_table_by_mode
"""The kinds of graphs of each mode stand in a table, and the sizes are searched from the smallest on."""

from labkit.steps.dispatch import Key

KINDS = {
    "none": (None, False), "piecewise": (None, True), "full": ("any", False), "full_decode_only": ("decode", False),
    "full_and_piecewise": ("decode", True),
}  # fmt: skip


def is_uniform_decode(num_scheduled_tokens, query_len):
    return set(num_scheduled_tokens) == {query_len}


class Dispatcher:
    def __init__(self, mode, sizes, max_num_seqs, query_len=1):
        self.full, self.has_pieces = KINDS[mode]
        self.sizes, self.most, self.query_len = sizes, max_num_seqs, query_len
        full = []
        if self.full == "decode":
            full = [Key(n, n // query_len, True) for n in sizes if n // query_len <= max_num_seqs]
        if self.full == "any":
            full = [Key(n, min(n, max_num_seqs), False) for n in sizes]
        self.keys = {"full": set(full), "piecewise": {Key(n, None, False) for n in sizes if self.has_pieces}}

    def dispatch(self, num_scheduled_tokens):
        num_tokens = sum(num_scheduled_tokens)
        fitting = [n for n in self.sizes if n >= num_tokens > 0]
        if not fitting:
            return "none", None
        n = min(fitting)
        is_uniform = is_uniform_decode(num_scheduled_tokens, self.query_len)
        for key in self.keys["full"]:
            if key.num_tokens == n and (is_uniform or not key.uniform):
                return "full", key
        return ("piecewise", Key(n, None, False)) if self.has_pieces else ("none", None)


# === every_step_looked_up
"""The answer for each number of tokens and each kind of step is worked out at the start."""

from labkit.steps.dispatch import Key


def is_uniform_decode(num_scheduled_tokens, query_len):
    return len(num_scheduled_tokens) > 0 and min(num_scheduled_tokens) == query_len == max(num_scheduled_tokens)


class Dispatcher:
    def __init__(self, mode, sizes, max_num_seqs, query_len=1):
        self.query_len, self.answers = query_len, {}
        self.keys = {"full": set(), "piecewise": set()}
        start = 1
        for size in sizes:
            pieces = Key(size, None, False) if mode.endswith("piecewise") else None
            whole = Key(size, min(size, max_num_seqs), False) if mode == "full" else None
            decode = whole
            if mode.startswith("full_") and size <= query_len * max_num_seqs:
                decode = Key(size, size // query_len, True)
            self.keys["full"] |= {key for key in (whole, decode) if key}
            self.keys["piecewise"] |= {pieces} - {None}
            for n in range(start, size + 1):
                for is_uniform, full in ((True, decode), (False, whole)):
                    self.answers[n, is_uniform] = ("full", full) if full else ("piecewise", pieces)
            start = size + 1

    def dispatch(self, num_scheduled_tokens):
        kind = is_uniform_decode(num_scheduled_tokens, self.query_len)
        mode, key = self.answers.get((sum(num_scheduled_tokens), kind), ("none", None))
        return (mode, key) if key else ("none", None)
