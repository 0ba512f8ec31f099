"""Which block of a prefix cache should give way? Hit rates of policies on recorded prompts, beside Belady's bound.

File: conversation_trace.jsonl of github.com/kvcache-ai/Mooncake (Qin et al., FAST 2025). Without it: conversations at
random. Prompts come one after the other, in blocks of 512 tokens; what a request generates is not in the trace, so it
takes no room. No clock is read: any machine gives the same.
    python benchmarks/bench_eviction.py --mooncake FILE --write
"""

import argparse
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import count, islice
from pathlib import Path
from random import Random

from mini_vllm.load.workload import HASH_BLOCK_SIZE, TraceRequest, read_file
from mini_vllm.simulator.eviction import POLICIES
from mini_vllm.simulator.eviction.policy import Prompt, prompts_of, replay

RESULTS = Path(__file__).parent / "results" / "eviction.md"
CAPACITIES = (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000)
TITLES = {
    "lru_prompt_order": "LRU, heads go first",
    "lru": "LRU",
    "leaf_first": "leaf first",
    "arc": "ARC",
    "lfu_ageing": "LFU with ageing",
    "belady": "Belady's bound",
}


def conversations(num_requests: int, seed: int = 0) -> Iterator[TraceRequest]:
    """Turns of conversations that go on for a while; a third of them begin with one of four system prompts."""
    rng, fresh = Random(seed), count(4 * 16)
    open_ones: list[list[int]] = []
    for time in range(num_requests):
        if not open_ones or rng.random() < 0.3:
            system = rng.randrange(12)
            open_ones.append([16 * system + i for i in range(16)] if system < 4 else [])
        place = min(rng.randrange(len(open_ones)), rng.randrange(len(open_ones)))
        ids = open_ones[place]
        ids += islice(fresh, rng.randint(2, 20))
        yield TraceRequest(float(time), HASH_BLOCK_SIZE * len(ids), 100, tuple(ids))
        if len(ids) > 200 or rng.random() < 0.2:
            del open_ones[place]


def table(prompts: Sequence[Prompt], capacities: Sequence[int]) -> list[str]:
    """A row for each capacity, a column for each policy; in brackets the share of blocks that are of no use."""
    lines = [f"| blocks | tokens | {' | '.join(TITLES.values())} |", "|---:|---:|" + "---:|" * len(TITLES)]
    for num_blocks in capacities:
        cells = []
        for name in TITLES:
            found = replay(prompts, POLICIES[name](num_blocks, prompts))
            orphans = 100 * found.num_orphans / max(found.num_cached, 1)
            cells.append(f"{100 * found.hit_rate:.2f}" + (f" ({orphans:.1f})" if found.num_orphans else ""))
        lines.append(f"| {num_blocks:,} | {num_blocks * HASH_BLOCK_SIZE:,} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mooncake", type=Path, help="without it: conversations at random")
    parser.add_argument("--requests", type=int, default=3_000, help="only the first of the file")
    parser.add_argument("--capacities", type=int, nargs="+", default=CAPACITIES, help="in blocks of 512 tokens")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    arguments = parser.parse_args()
    if arguments.write and not arguments.mooncake:
        parser.error("--write needs --mooncake")
    trace = read_file(arguments.mooncake) if arguments.mooncake else conversations(arguments.requests)
    prompts = prompts_of(islice(trace, arguments.requests))
    least = max(map(len, prompts))
    capacities = [num_blocks for num_blocks in arguments.capacities if num_blocks >= least]
    if not capacities:
        parser.error(f"the longest prompt has {least:,} blocks, and no capacity is as large")
    num_asked, num_names = sum(map(len, prompts)), len({name for prompt in prompts for name in prompt})
    about = (
        f"{len(prompts):,} prompts of {num_asked:,} full blocks, {num_names:,} of them different; the longest has "
        f"{least:,}."
    )
    print(about, flush=True)
    text = f"""# Which block gives way

Hit rates in per cent of all full blocks of the prompts, by the number of blocks that the cache has. In brackets: the
share of blocks in the cache at the end, in per cent, that no lookup can reach, because a block before them is gone.
Mooncake's conversation trace, one prompt after the other, blocks of {HASH_BLOCK_SIZE} tokens.
{about}

{date.today().isoformat()}; counted, so any machine gives the same.

Again: `python benchmarks/bench_eviction.py --mooncake FILE --write`; the script says where the file is from.

{chr(10).join(table(prompts, capacities))}
"""
    if arguments.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
