"""Which block of a prefix cache gives way: policies, and a cache of names that replays prompts.

    policy.py      EvictionPolicy, what all of them answer; replay() counts their hits
    lru.py         the block that was used longest ago, in two orders within a prompt
    leaf_first.py  the same, among the blocks on which no other one is built
    arc.py         two lists, and a border between them that moves
    ranked.py      what the ones below have in common but ARC: the least rank gives way
    lfu.py         the block that was used least often; old uses count less
    belady.py      the block that is used last from now on: no policy has more hits

No engine runs here. Blocks are the names of a trace, and prompts come one after the other.
"""

from mini_vllm.simulator.eviction.arc import ARC
from mini_vllm.simulator.eviction.belady import Belady
from mini_vllm.simulator.eviction.leaf_first import LeafFirst
from mini_vllm.simulator.eviction.lfu import AgeingLFU
from mini_vllm.simulator.eviction.lru import LRU, PromptOrderLRU
from mini_vllm.simulator.eviction.policy import EvictionPolicy

POLICIES: dict[str, type[EvictionPolicy]] = {
    "lru_prompt_order": PromptOrderLRU,
    "lru": LRU,
    "leaf_first": LeafFirst,
    "arc": ARC,
    "lfu_ageing": AgeingLFU,
    "belady": Belady,
}
