"""Two schedulers on the same arrivals: the first step where their decisions differ.

A fake model takes the place of the real one, so what is compared is scheduling and nothing else. The tokens of the
requests must be the same in any case; when they happen may differ, and where it does there is something to learn.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from labkit.graft import Part, grafted
from labkit.watchdog import watchdog

CORE = ("mini_vllm.block_pool", "mini_vllm.kv_cache", "mini_vllm.scheduler")
NUM_SCENARIOS = 50
SECONDS = 20.0
FIELDS = ("sched", "preempted", "finished", "waiting", "free")

Scenario = dict[str, Any]


class Difference(NamedTuple):
    """One scenario in which something differs: what, in the step of which number, and the two records as text."""

    scenario: str
    step: int
    mine: str
    reference: str
    same_tokens: bool


def scenarios(scheduler: str = "v1") -> Iterator[Scenario]:
    """Arrivals that meet one another: shared prefixes, long prompts, tight pools. scheduler: which of the family."""
    for seed in range(NUM_SCENARIOS):
        rng = random.Random(seed)
        block_size = rng.choice((1, 3, 4, 8))
        shared = [rng.randrange(1, 100) for _ in range(3 * block_size + 1)]
        requests: list[dict[str, Any]] = []
        for i in range(rng.randint(2, 6)):
            own = [rng.randrange(1, 100) for _ in range(rng.randint(1, 12))]
            prompt = [*shared[: rng.choice((0, len(shared)))], *own]
            requests.append(
                {"id": f"r{i}", "arrival_step": rng.randint(0, 4), "arrival_time": float(i), "prompt": prompt,
                 "max_tokens": rng.randint(1, 10), "priority": 0, "ignore_eos": True, "sample_seed": i}
            )  # fmt: skip
        longest = max(len(request["prompt"]) + request["max_tokens"] for request in requests)
        num_blocks = -(-longest // block_size) + rng.randint(1, 8) + 1
        config = {
            "block_size": block_size, "num_blocks": num_blocks, "max_num_seqs": rng.randint(1, 4),
            "max_num_batched_tokens": rng.choice((4, 7, 16, 64)), "policy": "fcfs", "vocab_size": 100,
        }  # fmt: skip
        if scheduler != "v1":
            config["scheduler"] = scheduler
        yield {"name": f"scenario {seed}", "config": config, "requests": requests}


def scheduler_of(parts: Sequence[Part]) -> str | None:
    """The scheduler that the parts decide in: V1 if one is of the core, else the policy that one is of, if any."""
    from mini_vllm.policies import SCHEDULERS

    modules = {slot.module for part in parts for slot in part.lab.slots}
    if modules & set(CORE):
        return "v1"
    return next((name for name, scheduler_cls in SCHEDULERS.items() if scheduler_cls.__module__ in modules), None)


def decides(part: Part) -> bool:
    """Whether a part can change a decision."""
    return scheduler_of([part]) is not None


def compare(parts: Sequence[Part]) -> Iterator[Difference]:
    """The reference beside the reference with these parts. Whatever the parts raise passes through."""
    from mini_vllm.observe.trace import run_trace

    for scenario in scenarios(scheduler_of(parts) or "v1"):
        reference = run_trace(scenario)
        with grafted(parts), watchdog(SECONDS):
            mine = run_trace(scenario, max_steps=10_000)
        same_tokens = mine["outputs"] == reference["outputs"]
        step = first_differing_step(mine["steps"], reference["steps"])
        if step is not None or not same_tokens:
            at = step or 0
            number = max(mine["steps"], reference["steps"], key=len)[at]["step"]
            records = describe(mine["steps"], at), describe(reference["steps"], at)
            yield Difference(scenario["name"], number, *records, same_tokens)


def first_differing_step(mine: Sequence[Any], reference: Sequence[Any]) -> int | None:
    """The index of the first record in which a decision differs."""
    for step in range(max(len(mine), len(reference))):
        if step >= len(mine) or step >= len(reference):
            return step
        if any(mine[step].get(name) != reference[step].get(name) for name in FIELDS):
            return step
    return None


def describe(steps: Sequence[Any], step: int) -> str:
    """One step in a line."""
    if step >= len(steps):
        return "has finished already"
    return ", ".join(f"{name} {steps[step].get(name)}" for name in FIELDS if steps[step].get(name))


def summary(parts: Sequence[Part]) -> str:
    """What a learner reads: how many scenarios differ, and the first of them."""
    found = list(compare(parts))
    if not found:
        return f"Behaviour: the same decisions as the reference in all {NUM_SCENARIOS} scenarios, step for step."
    first = found[0]
    lines = [f"Behaviour: other decisions than the reference in {len(found)} of {NUM_SCENARIOS} scenarios."]
    lines += [
        f"  {first.scenario}, step {first.step}",
        f"    yours      {first.mine}",
        f"    reference  {first.reference}",
    ]
    wrong = [each.scenario for each in found if not each.same_tokens]
    lines.append(f"  The tokens differ in {', '.join(wrong)}." if wrong else "  The tokens are the same everywhere.")
    return "\n".join(lines)
