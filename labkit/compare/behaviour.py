"""Two schedulers on the same arrivals: the first step where their decisions differ.

A fake model takes the place of the real one, so what is compared is scheduling and nothing else. The tokens of the
requests must be the same in any case; when they happen may differ, and where it does there is something to learn.
"""

import inspect
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, NamedTuple

from labkit.grade.watchdog import LabHang, watchdog
from labkit.labs.catalog import TRACES, VLLM, Slot
from labkit.labs.graft import Part, grafted, reference_of, reference_owner, replace_attribute, replace_everywhere

CORE = ("mini_vllm.block_pool", "mini_vllm.kv_cache", "mini_vllm.scheduler")
NEVER = "never called"
NUM_SCENARIOS = 100
SECONDS = 5.0
FIELDS = ("sched", "preempted", "finished", "waiting", "free")
RULES: dict[
    str, tuple[Any, str]
] = {  # an option that a scenario may have: the value with which the rule is off, and what it is called
    "policy": ("fcfs", "priority"),
    "long_prefill_token_threshold": (0, "the threshold"),
    "watermark": (0.0, "the watermark"),
    "reserve_full_sequence": (False, "the reservation"),
    "enable_chunked_prefill": (True, "prompts in one piece"),
    "enable_prefix_caching": (False, "the prefix cache"),
}
FINER = ("policy", "long_prefill_token_threshold", "watermark", "reserve_full_sequence", "enable_chunked_prefill")
COUNTS = tuple(f"{kind}_{what}" for kind in ("prefix", "preempted") for what in ("requests", "queries", "hits"))
COMPLETED_BY = {  # labs whose part need not know some rules, and the lab that adds them
    "03.1": (("long_prefill_token_threshold",), "03.6"),
    "03.2": (FINER, "03.13"),
    "03.3": (("policy",), "03.5"),
}

Scenario = dict[str, Any]
Called = tuple[str, Slot]  # a lab's id, and a slot of it


class Difference(NamedTuple):
    """One scenario in which something differs: what, in the step of which number, and the two records as text."""

    scenario: str
    step: int
    mine: str
    reference: str
    same_tokens: bool


def scenarios(scheduler: str = "v1", *, without: Collection[str] = ()) -> Iterator[Scenario]:
    """Arrivals that meet one another: shared prefixes, long prompts, tight pools, and every rule in some of them.

    scheduler: which of the family; the rules are V1's. without: rules that are off in all.
    """
    for seed in range(NUM_SCENARIOS):
        rng = random.Random(seed)
        block_size = rng.choice((1, 3, 4, 8))
        shared = [rng.randrange(1, 100) for _ in range(3 * block_size + 1)]
        num_requests = rng.randint(2, 6)
        arrival_times = rng.sample(range(num_requests), num_requests)
        requests: list[dict[str, Any]] = []
        for i in range(num_requests):
            own = [rng.randrange(1, 100) for _ in range(rng.randint(1, 12))]
            prompt = [*shared[: rng.choice((0, len(shared)))], *own]
            requests.append(
                {"id": f"r{i}", "arrival_step": rng.randint(0, 4), "arrival_time": float(arrival_times[i]),
                 "prompt": prompt, "max_tokens": rng.randint(1, 10), "priority": rng.choice((0, 0, -1, 5)),
                 "ignore_eos": True, "sample_seed": i}
            )  # fmt: skip
        longest = max(len(request["prompt"]) + request["max_tokens"] for request in requests)
        num_blocks = -(-longest // block_size) + rng.choice((1, 1, 2, 3, 6)) + 1
        options = {
            "policy": rng.choice(("fcfs", "priority")),
            "long_prefill_token_threshold": rng.choice((0, 0, 2, 5)),
            "watermark": rng.choice((0.0, 0.0, 0.1, 0.4)),
            "reserve_full_sequence": rng.random() < 0.7,
            "enable_chunked_prefill": rng.random() < 0.75,
            "enable_prefix_caching": rng.random() < 0.8,
        }
        config = {
            "block_size": block_size, "num_blocks": num_blocks, "max_num_seqs": rng.randint(1, 5),
            "max_num_batched_tokens": rng.choice((4, 7, 16, 64)), "vocab_size": 100,
        }  # fmt: skip
        options |= {rule: RULES[rule][0] for rule in without}
        if scheduler == "v1" and not options["enable_chunked_prefill"]:
            config |= {"max_model_len": longest, "max_num_batched_tokens": longest, "num_blocks": 3 * num_blocks}
            config["max_num_seqs"] = num_requests  # so that the budget is what they wait for
            options["long_prefill_token_threshold"] = 0
            requests = [{**request, "arrival_step": 0} for request in requests]
        config |= options if scheduler == "v1" else {"scheduler": scheduler}
        yield {"name": f"scenario {seed}", "config": config, "requests": requests}


def scheduler_of(parts: Sequence[Part]) -> str | None:
    """The scheduler that the parts decide in: V1 if one is of the core, else the policy that one is of, if any."""
    from mini_vllm.policies.registry import SCHEDULERS

    modules = {slot.module for part in parts for slot in part.lab.slots}
    if modules & set(CORE):
        return "v1"
    return next((name for name, path in SCHEDULERS.items() if path.partition(":")[0] in modules), None)


def decides(part: Part) -> bool:
    """Whether a part can change a decision."""
    return scheduler_of([part]) is not None


def scenarios_for(parts: Sequence[Part]) -> Iterator[Scenario]:
    """Those that the parts are meant for."""
    return scenarios(scheduler_of(parts) or "v1", without=unknown_rules(parts))


def unknown_rules(parts: Sequence[Part]) -> dict[str, str]:
    """The rules that one of the parts need not know, and which: the lab that completes it is not among the parts."""
    ids = {part.lab.id for part in parts}
    found: dict[str, str] = {}
    for lab_id, (rules, other) in COMPLETED_BY.items():
        if lab_id in ids and other not in ids:
            found |= dict.fromkeys(rules, f"{lab_id} need not know that, and {other} adds it")
    return found


def idle_rules(parts: Sequence[Part]) -> list[str]:
    """A line for each reason why rules are not exercised."""
    reasons: dict[str, list[str]] = {}
    for rule, reason in unknown_rules(parts).items():
        reasons.setdefault(reason, []).append(RULES[rule][1])
    return [f"  Not exercised: {', '.join(rules)} ({reason})." for reason, rules in reasons.items()]


def compare(
    parts: Sequence[Part], called: set[Called] | None = None, tell: Callable[[str], object] = lambda name: None
) -> Iterator[Difference]:
    """The reference beside the reference with these parts. Whatever the parts raise passes through, a hang does not.

    called: the slots that were called are added to it. tell: is told each scenario's name before it runs.
    """
    from mini_vllm.observe.trace import run_trace

    for scenario in scenarios_for(parts):
        tell(scenario["name"])
        reference = run_trace(scenario)
        try:
            with grafted(parts), watchdog(SECONDS), noting_calls(parts, called):
                mine = run_trace(scenario, max_steps=10_000)
        except LabHang:
            yield Difference(scenario["name"], 0, "did not come back", describe(reference["steps"], 0), False)
            return
        same_tokens = mine["outputs"] == reference["outputs"]
        step = first_differing_step(mine["steps"], reference["steps"])
        if step is not None or not same_tokens:
            at = step or 0
            number = max(mine["steps"], reference["steps"], key=len)[at]["step"]
            records = describe(mine["steps"], at), describe(reference["steps"], at)
            yield Difference(scenario["name"], number, *records, same_tokens)


def beside(parts: Sequence[Part], name: str) -> tuple[Any, Any]:
    """The traces of one scenario: with the parts, and the reference's."""
    from mini_vllm.observe.trace import run_trace

    scenario = next(each for each in scenarios_for(parts) if each["name"] == name)
    reference = run_trace(scenario)
    with grafted(parts), watchdog(SECONDS):
        return run_trace(scenario, max_steps=10_000), reference


def rerun(trace: Mapping[str, Any]) -> Any:
    """The arrivals of a run with a model once more, without it: each request gets the tokens that it got there."""
    from mini_vllm.observe.trace import ScenarioRun

    class Rerun(ScenarioRun):
        def _sample(self, request: Any, drafts: Sequence[int]) -> list[int]:
            return trace["outputs"].get(request.request_id, ())[len(request.output_token_ids) :][:1] or [0]

    run = Rerun(trace)
    while not run.is_done() and run.step < len(trace["steps"]):
        run.run_step()
    return run.to_trace()


def first_differing_step(mine: Sequence[Any], reference: Sequence[Any], fields: Collection[str] = FIELDS) -> int | None:
    """The index of the first record in which a decision differs, or whatever else the fields are."""
    for step in range(max(len(mine), len(reference))):
        if step >= len(mine) or step >= len(reference):
            return step
        if any(mine[step].get(name) != reference[step].get(name) for name in fields):
            return step
    return None


def describe(steps: Sequence[Any], step: int, fields: Collection[str] = FIELDS) -> str:
    """One step in a line."""
    if step >= len(steps):
        return "has finished already"
    return ", ".join(f"{name} {steps[step].get(name)}" for name in fields if steps[step].get(name))


@contextmanager
def wrapped(parts: Sequence[Part], wrap: Callable[[Any, Part, Slot], Any], names: Any = None) -> Iterator[None]:
    """In place of each function that parts bring which are grafted: wrap(function, part, slot). names: a test's lab."""
    with ExitStack() as undo:
        for part in parts:
            for slot, mine in part.replacements:
                if isinstance(mine, type):
                    for name, method in list(vars(mine).items()):
                        if inspect.isfunction(method):
                            replace_attribute(mine, name, wrap(method, part, slot), undo)
                elif not slot.owner:
                    other = wrap(mine, part, slot)
                    if reference_of(slot) is mine:  # else a later part has taken its place
                        replace_everywhere(slot, other, undo)
                    replace_attribute(part.module, slot.name, other, undo)  # where the part itself calls it
                    if names is not None and vars(names).get(slot.name) is mine:
                        replace_attribute(names, slot.name, other, undo)
                elif vars(reference_owner(slot)).get(slot.name) is mine:  # else a later part has taken its place
                    replace_attribute(reference_owner(slot), slot.name, wrap(mine, part, slot), undo)
        yield


@contextmanager
def noting_calls(parts: Sequence[Part], called: set[Called] | None) -> Iterator[None]:
    """Add to `called` the slots of grafted parts that are called."""

    def noting(function: Any, part: Part, slot: Slot) -> Any:
        def call(plain: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
            assert called is not None
            called.add((part.lab.id, slot))
            return plain(*arguments, **named)

        return around(function, call)

    with wrapped([] if called is None else parts, noting):
        yield


def around(function: Any, call: Callable[..., Any]) -> Any:
    """The same function to look at; to call it is call(function, ...)."""
    kind = type(function) if isinstance(function, staticmethod | classmethod) else None
    plain = getattr(function, "__func__", function)

    @wraps(plain)
    def called(*arguments: Any, **named: Any) -> Any:
        return call(plain, *arguments, **named)

    return kind(called) if kind else called


def not_exercised(parts: Sequence[Part], called: set[Called]) -> dict[str, list[str]]:
    """The slots that made no decision: why, and which."""
    found: dict[str, list[str]] = {}
    for number, part in enumerate(parts):
        later = {slot: other.lab.id for other in parts[number + 1 :] for slot in other.lab.slots}
        for slot, _ in part.replacements:
            if slot in later:
                reason = f"that of lab {later[slot]} takes its place"
            elif (part.lab.id, slot) not in called:
                reason = NEVER
            else:
                continue
            found.setdefault(reason, []).append(f"{slot.name} of {part.lab.id}")
    return found


def summary(parts: Sequence[Part]) -> str:
    """What a learner reads: how many scenarios differ, the first of them, and which parts it says nothing about."""
    called: set[Called] = set()
    found = list(compare(parts, called))
    idle = not_exercised(parts, called)
    notes = idle_rules(parts)
    notes += [f"  Not exercised: {', '.join(names)} ({reason})." for reason, names in idle.items()]
    if sum(map(len, idle.values())) == sum(len(part.replacements) for part in parts):
        return "\n".join(
            ["Behaviour: nothing of yours was called in the scenarios, so they say nothing of it.", *notes]
        )
    if not found:
        same = f"Behaviour: the same decisions as the reference in all {NUM_SCENARIOS} scenarios, step for step."
        return "\n".join([same, *notes])
    first = found[0]
    lines = [f"Behaviour: other decisions than the reference in {len(found)} of {NUM_SCENARIOS} scenarios."]
    lines += [
        f"  {first.scenario}, step {first.step}",
        f"    yours      {first.mine}",
        f"    reference  {first.reference}",
    ]
    wrong = [each.scenario for each in found if not each.same_tokens]
    lines.append(f"  The tokens differ in {', '.join(wrong)}." if wrong else "  The tokens are the same everywhere.")
    return "\n".join([*lines, *notes])


def beside_vllm(parts: Sequence[Part]) -> str:
    """What a learner reads of the recorded traces of vLLM: how many differ, and the first of them."""
    from labkit.compare.replay import find_trace_files, read_traces, replay

    about = f"Beside vLLM {VLLM}"
    unknown = unknown_rules(parts)
    uncounted = COUNTS if "enable_chunked_prefill" in unknown else ()  # an outline of 03.2 need not count, either
    every = [trace for file in find_trace_files(TRACES) for trace in read_traces(file)]
    traces = [trace for trace in every if not any(has_rule(trace["config"], rule) for rule in unknown)]
    found: dict[str, str] = {}
    called: set[Called] = set()
    for trace in traces:
        try:
            with grafted(parts), watchdog(SECONDS), noting_calls(parts, called):
                totals = {name: value for name, value in trace["totals"].items() if name not in uncounted}
                difference = replay(trace | {"totals": totals})
        except LabHang:
            return f"{about}: yours did not come back in the recorded trace {trace['name']}."
        if difference:
            found[trace["name"]] = difference
    idle = not_exercised(parts, called).get(NEVER, [])
    if not called:
        return f"{about}: nothing of yours was called in the recorded traces."
    others = f" that exercise no other rule (of {len(every)})" if unknown else ""
    of_all = f"the {len(traces)} recorded traces{others}"
    if found:
        name, difference = next(iter(found.items()))
        said = f"{about}: {len(found)} of {of_all} differ, the first in {name}, {difference}"
    else:
        said = f"{about}: every step of {of_all} is the same."
        if apart := sum(bool(trace.get("kv_violations")) for trace in traces):  # replay() does not compare their steps
            said = f"{about}: {len(traces)} of {of_all} are replayed, {len(traces) - apart} of them step for step.\n"
            said += f"  In the other {apart} vLLM reads blocks that were never computed; yours reads none."
    return "\n".join([said, *([f"  Not exercised: {', '.join(idle)} ({NEVER})."] if idle else [])])


def has_rule(config: Mapping[str, Any], rule: str) -> bool:
    """Whether a rule is on in a recorded trace."""
    name = "scheduler_reserve_full_isl" if rule == "reserve_full_sequence" else rule
    off = RULES[rule][0]
    return bool(config.get(name, off) != off)
