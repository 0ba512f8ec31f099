"""Small pictures of state in plain text, for failure messages; and the loop of the engine without a model.

Only names of the contract are read, so a learner's parts are drawn like the reference's.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mini_vllm.step import KVResult

MAX_COLUMNS = 16


class Step(NamedTuple):
    """What one step did: tokens computed by request in scheduling order, preempted and finished requests."""

    scheduled: dict[str, int]
    preempted: list[str]
    finished: list[str]


def drive(scheduler: Any, *, token_id: int = 100, tokens: Mapping[str, int] | None = None) -> Step:
    """One turn of schedule() -> execute() -> update_from_output(); every request that caught up gets a token.

    tokens: the token of a request, instead of token_id.
    """
    output = scheduler.schedule()
    scheduler.kv_cache_manager.begin_step()
    sampled = {
        request.request_id: [(tokens or {}).get(request.request_id, token_id)]
        for request in output.scheduled_requests
        if request.num_computed_tokens + output.num_scheduled_tokens[request.request_id] == request.num_tokens
    }
    scheduler.kv_cache_manager.end_step(KVResult())
    finished = scheduler.update_from_output(output, sampled)
    return Step(
        dict(output.num_scheduled_tokens),
        list(output.preempted_req_ids),
        [request.request_id for request in finished],
    )


def scheduler(scheduler: Any) -> str:
    """The running and the waiting requests, how far each is, and the free blocks."""
    kv = scheduler.kv_cache_manager
    lines = []
    for place, requests in (("running", scheduler.running), ("waiting", scheduler.waiting)):
        for request in requests:
            lines.append(
                f"{place}  {request.request_id:4} computed {request.num_computed_tokens:3} of {request.num_tokens:3}  "
                f"blocks {ids(kv.get_block_ids(request.request_id))}"
            )
    return "\n".join(
        [*(lines or ["no request runs or waits"]), f"free {kv.num_free_blocks} of {kv.num_usable_blocks} blocks"]
    )


def blocks(manager: Any, *request_ids: str) -> str:
    """Block tables, and the free blocks in the order in which they would be taken."""
    tables = [f"{request_id:6} {ids(manager.get_block_ids(request_id))}" for request_id in request_ids]
    return "\n".join([*tables, f"free   {ids(manager.free_block_ids())}"])


def queue(queue: Any) -> str:
    """A free queue, front first."""
    return f"front {ids(queue.block_ids())} back   ({queue.num_free_blocks} counted)"


def timeline(mine: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]] = (), whose: str = "") -> str:
    """Steps of a trace as columns, requests as rows: tokens computed, x for preempted, . for waiting.

    other: the same steps of another scheduler, whose name is `whose`; those that differ come first, in two rows.
    """
    if not mine:
        return ""
    mine, other = mine[-MAX_COLUMNS:], other[-MAX_COLUMNS:]
    longest = max(mine, other, key=len)
    rows = {"free": [[str(step["free_sched"]) for step in steps] for steps in (mine, other)]}
    for name in dict.fromkeys(name for step in (*mine, *other) for name in marks(step)):
        rows[name] = [[marks(step).get(name, "") for step in steps] for steps in (mine, other)]
    lines = [("step", [str(step["step"]) for step in longest])]
    differing = [name for name, (one, theirs) in rows.items() if whose and one != theirs]
    for name in sorted(rows, key=lambda name: (name not in differing, name == "free")):
        lines.append((name, rows[name][0]))
        if name in differing:
            lines.append((f"  {whose}", rows[name][1]))
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:{width}} {' '.join(f'{cell:>3}' for cell in cells)}".rstrip() for name, cells in lines)


def marks(step: Mapping[str, Any]) -> dict[str, str]:
    """What a step did to each request."""
    found = {name: str(num_tokens) for name, num_tokens in step["sched"]}
    return found | dict.fromkeys(step.get("waiting", ()), ".") | dict.fromkeys(step.get("preempted", ()), "x")


def ids(numbers: Iterable[int]) -> str:
    numbers = list(numbers)
    shown = " ".join(map(str, numbers[:16])) or "-"
    return shown + (f" ... ({len(numbers)})" if len(numbers) > 16 else "")
