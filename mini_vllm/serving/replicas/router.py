"""Which of several engines gets a prompt, by what was sent to each before.

The rule is that of the simulator's fleet (simulator/routing.py), so what `mini-vllm simulate` says
of a number of replicas holds for the server. The front has no view of the engines' caches. It
guesses: an engine has the last blocks that were sent to it, as many as its KV cache has place for.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence

from mini_vllm.simulator.routing import ReplicaState, by_prefix


class Sent:
    """What one engine was sent, and what it has not finished.

    max_blocks: names of blocks that are remembered.
    """

    def __init__(self, max_blocks: int) -> None:
        self.max_blocks = max_blocks
        self.num_waiting = 0  # as the engine has told it last
        self.num_tokens: dict[str, int] = {}  # of the prompt, by choice that is not finished
        self._names: OrderedDict[Hashable, None] = OrderedDict()  # those of the last use come last

    @property
    def num_blocks(self) -> int:
        """That it has."""
        return len(self._names)

    def num_known(self, names: Sequence[Hashable]) -> int:
        """How many blocks at the beginning of a prompt it has."""
        return next((i for i, name in enumerate(names) if name not in self._names), len(names))

    def add(self, names: Sequence[Hashable]) -> None:
        for name in reversed(names):  # the end of a prompt is forgotten before its beginning
            self._names[name] = None
            self._names.move_to_end(name)
        while len(self._names) > self.max_blocks:
            self._names.popitem(last=False)

    def state(self, names: Sequence[Hashable], block_size: int) -> ReplicaState:
        return ReplicaState(
            self.num_known(names) * block_size,
            len(self.num_tokens),
            sum(self.num_tokens.values()),
            self.num_waiting > 0,
            not self._names,
        )


class PrefixRouter:
    """Places requests on engines. max_blocks: that the KV cache of one engine has."""

    def __init__(self, num_replicas: int, block_size: int, max_blocks: int) -> None:
        self.block_size = block_size
        self.replicas = [Sent(max_blocks) for _ in range(num_replicas)]
        self._place: dict[str, int] = {}

    def place(
        self, request_ids: Sequence[str], prompt_token_ids: Sequence[int], cache_salt: str | None
    ) -> int:
        """The engine that gets the choices of one prompt."""
        names = [*block_names(prompt_token_ids, self.block_size, cache_salt)]
        # of equal ones the first is chosen: that with the most room in its cache
        order = sorted(range(len(self.replicas)), key=lambda i: self.replicas[i].num_blocks)
        states = [self.replicas[i].state(names, self.block_size) for i in order]
        chosen = order[by_prefix(states, len(prompt_token_ids))]
        replica = self.replicas[chosen]
        replica.add(names)
        for request_id in request_ids:
            self._place[request_id] = chosen
            replica.num_tokens[request_id] = len(prompt_token_ids)
        return chosen

    def take_back(self, request_id: str) -> int | None:
        """The request is over. Returns where it was, None if it is not known."""
        place = self._place.pop(request_id, None)
        if place is not None:
            del self.replicas[place].num_tokens[request_id]
        return place


def block_names(
    token_ids: Sequence[int], block_size: int, cache_salt: str | None
) -> Iterator[Hashable]:
    """One for each full block: equal if all tokens up to its end are equal.

    Two prompts may share a name by chance. One of them then goes to an engine that has less of it,
    which costs time and no token.
    """
    name = hash(cache_salt)
    for start in range(0, len(token_ids) - block_size + 1, block_size):
        name = hash((name, *token_ids[start : start + block_size]))
        yield name
