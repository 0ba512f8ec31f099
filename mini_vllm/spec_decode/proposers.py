"""Where drafts come from without a model: what followed the last tokens when they were seen before.

Both proposers are deterministic, so the tokens of a request do not depend on them (verify.py).
"""

from collections.abc import Sequence
from itertools import islice
from math import ceil
from typing import Protocol

from mini_vllm.request import Request

MOST_NGRAMS = 1 << 17  # that SuffixProposer remembers
DECAY = 0.85  # of what Pace has seen, with each step: it knows about the last 7
LEAST_SHARE = 0.15
LEAST_PROBABILITY = 0.1  # of a draft and of those before it, as SuffixProposer counts


class Proposer(Protocol):
    """Guesses the next tokens of requests that have caught up."""

    def propose(self, request: Request, num_tokens: int) -> Sequence[int]:
        """At most num_tokens drafts for the tokens behind those that the request has; often
        none.
        """

    def forget(self, request: Request) -> None:
        """The request has ended."""


def ngrams(token_ids: Sequence[int], end: int, max_n: int) -> list[int]:
    """Names of the last n of the first `end` tokens, for each n from 1 up to max_n that there is.

    A name is the tokens themselves, packed into one integer behind a 1: equal names mean equal
    tokens.
    """
    name, names = 1, []
    for n in range(1, min(max_n, end) + 1):
        name = name << 32 | token_ids[end - n]
        names.append(name)
    return names


class NgramProposer:
    """Prompt lookup: the tokens behind the first place where the last n tokens stand, for the
    largest n that has one.

    min_n <= n <= max_n. Source: NgramProposer (vllm/v1/spec_decode/ngram_proposer.py); Saxena 2023,
    "Prompt Lookup Decoding".
    """

    def __init__(self, min_n: int, max_n: int) -> None:
        self.min_n, self.max_n = min_n, max_n
        self._texts: dict[str, str] = {}  # by request

    def propose(self, request: Request, num_tokens: int) -> Sequence[int]:
        if not num_tokens:
            return ()
        token_ids, text = request.all_token_ids, self._text(request)
        place, behind, end = 0, 0, len(text) - 1  # a token has to stand behind what is found
        for n in range(self.min_n, min(self.max_n, end) + 1):
            place = text.find(text[-n:], max(place - 1, 0), end)
            if place < 0:
                break
            behind = place + n
        return token_ids[behind : behind + num_tokens] if behind else ()

    def _text(self, request: Request) -> str:
        """One character for each token."""
        text = self._texts.get(request.request_id, "")
        text += "".join(map(chr, request.all_token_ids[len(text) :]))
        self._texts[request.request_id] = text
        return text

    def forget(self, request: Request) -> None:
        self._texts.pop(request.request_id, None)


class LastNgramProposer(NgramProposer):
    """Prompt lookup by the last place instead of the first, with as many drafts as are asked for.

    The last token of the text stands for each draft that the text does not give. A model runner
    whose steps all have one shape needs a full row of drafts. Padding is verified like any draft.
    Source: NgramGPUSpeculator (vllm/v1/worker/gpu/spec_decode/ngram/speculator.py).
    """

    def propose(self, request: Request, num_tokens: int) -> Sequence[int]:
        token_ids, text = request.all_token_ids, self._text(request)
        behind, end = 0, len(text) - 1  # a token has to stand behind what is found
        for n in range(self.min_n, min(self.max_n, end) + 1):
            place = text.rfind(text[-n:], 0, end)
            if place < 0:
                break
            behind = place + n
        drafts = token_ids[behind : behind + num_tokens] if behind else []
        return drafts + token_ids[-1:] * (num_tokens - len(drafts))


class SuffixProposer:
    """The likeliest tokens one by one, by how often each followed the same n tokens, for the
    largest n that was seen.

    It counts in the texts of all requests with the same cache_salt, in those that have ended, too.
    It stops where what it would propose is improbable. Source: Oliaro et al. 2024, "SuffixDecoding"
    (arXiv 2411.04975).
    """

    def __init__(self, max_n: int) -> None:
        self.max_n = max_n
        # of what followed (salt, n-gram)
        self._counts: dict[tuple[str | None, int], dict[int, int]] = {}
        self._num_seen: dict[str, int] = {}

    def propose(self, request: Request, num_tokens: int) -> Sequence[int]:
        self._learn(request)
        tail, probability = request.all_token_ids[-self.max_n :], 1.0
        end = len(tail)
        while len(tail) < end + num_tokens:
            names = reversed(ngrams(tail, len(tail), self.max_n))
            counts = next(
                filter(None, (self._counts.get((request.cache_salt, name)) for name in names)), None
            )
            if counts is None:
                break
            token_id = max(counts, key=counts.__getitem__)
            probability *= counts[token_id] / sum(counts.values())
            if probability < LEAST_PROBABILITY:
                break
            tail.append(token_id)
        return tail[end:]

    def _learn(self, request: Request) -> None:
        token_ids = request.all_token_ids
        for end in range(self._num_seen.get(request.request_id, 1), len(token_ids)):
            for name in ngrams(token_ids, end, self.max_n):
                counts = self._counts.setdefault((request.cache_salt, name), {})
                counts[token_ids[end]] = counts.get(token_ids[end], 0) + 1
        self._num_seen[request.request_id] = len(token_ids)
        if len(self._counts) > MOST_NGRAMS:
            for key in list(islice(self._counts, MOST_NGRAMS // 8)):
                del self._counts[key]

    def forget(self, request: Request) -> None:
        if request.request_id in self._num_seen:
            self._learn(request)
            del self._num_seen[request.request_id]


class Pace:
    """How many drafts a request asks for: a share of the most, as large as the share of drafts that
    were right lately.

    It begins with a single draft. Below LEAST_SHARE it asks for none, and tries one again after 4
    steps, then after 8, at most 64, as long as that one is wrong. Drafts behind a wrong one were
    not tried: they count neither way.
    """

    def __init__(self, most: int) -> None:
        self.most, self.length = most, 1
        self._num_right = self._num_tried = 0.0
        self._wait = self._num_steps_to_wait = 0

    def next_length(self) -> int:
        """For the coming step; called once a step."""
        if self._num_steps_to_wait:
            self._num_steps_to_wait -= 1
            return 0
        return self.length or 1

    def learn(self, num_drafts: int, num_accepted: int) -> None:
        self._num_right = num_right = DECAY * self._num_right + num_accepted
        self._num_tried = num_tried = (
            DECAY * self._num_tried + num_accepted + (num_accepted < num_drafts)
        )
        share = num_right / num_tried
        self.length = ceil(self.most * share) if share >= LEAST_SHARE else 0
        self._wait = self._num_steps_to_wait = 0 if self.length else min(2 * self._wait or 4, 64)
