# === two_lists
"""The verified tokens and the guesses are two lists, and the rest follows from them."""

from itertools import takewhile

from labkit.steps.verified import FILLER


class VerifiedRequest:
    def __init__(self, prompt, window, max_tokens, stop_token_ids=()):
        self.prompt, self.window, self.max_tokens = list(prompt), window, max_tokens
        self.stop_token_ids, self.kept, self.guesses = set(stop_token_ids), [], []

    @property
    def token_ids(self):
        return [*self.prompt, *self.kept, *self.guesses]

    @property
    def num_verified(self):
        return len(self.kept)

    @property
    def is_finished(self):
        return not self.guesses and self.ends(self.kept)

    def ends(self, output):
        return len(output) >= self.max_tokens or not self.stop_token_ids.isdisjoint(output[-1:])

    def must_verify(self):
        if not self.guesses:
            return False
        return len(self.guesses) + 1 >= self.window or self.ends(self.kept + self.guesses)

    def rows(self):
        rows = [FILLER] * self.window
        known = [(self.prompt + self.kept)[-1], *self.guesses]
        rows[: len(known)] = known
        return rows

    def decoded(self, token_id):
        self.guesses.append(token_id)

    def verified(self, token_ids):
        pairs = zip(self.guesses, token_ids)
        num_right = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        taken = []
        for token_id in token_ids[: num_right + 1]:
            taken.append(token_id)
            if self.ends(self.kept + taken):
                break
        self.kept, self.guesses = self.kept + taken, []
        return taken


# === counts
"""It counts: how many rows are right, how many tokens are left, and where the first stop token stands."""

from labkit.steps.verified import FILLER


class VerifiedRequest:
    def __init__(self, prompt, window, max_tokens, stop_token_ids=()):
        self.token_ids = [*prompt]
        self.start = len(self.token_ids)
        self.num_verified = 0
        self.window, self.max_tokens, self.stop_token_ids = window, max_tokens, frozenset(stop_token_ids)
        self.is_finished = False

    def num_guesses(self):
        return len(self.token_ids) - self.start - self.num_verified

    def must_verify(self):
        full = self.num_guesses() == self.window - 1
        last = len(self.token_ids) - self.start == self.max_tokens
        return self.num_guesses() != 0 and (full or last or self.token_ids[-1] in self.stop_token_ids)

    def rows(self):
        rows = self.token_ids[-1 - self.num_guesses() :]
        while len(rows) < self.window:
            rows.append(FILLER)
        return rows

    def decoded(self, token_id):
        self.token_ids += [token_id]

    def verified(self, token_ids):
        guesses = self.token_ids[len(self.token_ids) - self.num_guesses() :]
        right = 0
        while right < len(guesses) and guesses[right] == token_ids[right]:
            right += 1
        num = min(right + 1, self.max_tokens - self.num_verified)
        stops = [place + 1 for place in range(num) if token_ids[place] in self.stop_token_ids]
        num = stops[0] if stops else num
        taken = list(token_ids[:num])
        self.token_ids[self.start + self.num_verified :] = taken
        self.num_verified += num
        self.is_finished = bool(stops) or self.num_verified == self.max_tokens
        return taken
