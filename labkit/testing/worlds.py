"""Walks over a scheduler: requests come, share prefixes, run, are ended and come back, over a pool that is tight.

    def plan(rng):
        return plan_world(rng, policy=("priority",))       of the values of a limit one is drawn

    def play(lab, calls):                                  what is looked at, in this order, and the law it rests on
        return play_world(lab, calls, decided={"preempted": "I4", "running": "I1"}, updated={"finished": "I3"})

    @concept("...", invariant="I1", searches=True)
    def test_any_run(lab):
        walk(lab, plan, play)

The calls of a walk are world(), which makes the schedulers; add(), finish(), which ends a request from outside, and
step(). A call that makes no sense, since other calls were left out, does nothing.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from labkit.testing.search import Call, Seen
from mini_vllm.step import KVResult

NAMES = "cebda"  # few, so that they are used again, and not in ascending order
REASONS = ("stop", "length", "abort", "error")
LIMITS: dict[str, Sequence[Any]] = {
    "num_blocks": (2, 4, 5, 6, 7, 8, 9, 11, 14),
    "block_size": (1, 2, 3, 4),
    "max_num_seqs": (1, 2, 3, 4, 5, 5, 5),
    "max_num_batched_tokens": (2, 4, 5, 7, 12, 64),
    "enable_prefix_caching": (True, True, True, False),
}
Kinds = Mapping[str, str]  # what is looked at: the id of the invariant that it rests on


class Options(dict[str, Any]):
    """Arguments of a call that are written by name."""

    def __repr__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.items())


def plan_world(
    rng: random.Random,
    *,
    tokens: Sequence[tuple[int, ...]] = ((1,), (1,), (1,), (2,), (1, 3), (5,)),
    rare: Sequence[str] = ("finish", "late"),
    num_calls: int = 30,
    **limits: Sequence[Any],
) -> list[Call]:
    """The calls of a walk. limits: the values that each may have, those of LIMITS otherwise.

    tokens: how many come out of a step for the first, second, ... that samples, in turn. rare: what there is besides
    add and step: finish; late, a finish while the model runs, sometimes with a new
    request of the same name; fail, a step that does not end well; preempt, between
    steps.
    """
    world = {name: rng.choice(values) for name, values in {**LIMITS, **limits}.items()}
    calls: list[Call] = [("world", Options(world))]
    slots = (world["num_blocks"] - 1) * world["block_size"]
    most = [
        max(2, slots // parts) for parts in (1, 3, 4, 5, 5, 6, 6)
    ]  # tokens of a prompt, and tokens that prompts share
    longest_shared, two = rng.choice((0, *most)), rng.random() < 0.1
    num_first = rng.randint(3, len(NAMES))
    arrival_times = rng.sample(range(1, 99), num_calls)
    for number in range(rng.randint(num_calls // 3, num_calls)):
        kind = rng.choice(("add", "add", "add", *["step"] * 9, *rare)) if number >= num_first else "add"
        name, options = NAMES[number] if number < num_first else rng.choice(NAMES), Options()
        if kind == "add":
            prompt = rng.randint(1, rng.choice(most))
            shared = rng.choice((0, longest_shared, longest_shared, rng.randint(0, longest_shared)))
            options |= {"prompt": prompt, "shared": min(prompt, shared)}
            options |= {"max_tokens": rng.choice((1, 5, 16, 16, 16)), "priority": rng.choice((0, 0, 3, -1, 1))}
            options["arrival_time"] = rng.choice((0, 0, 0, 1e6, 1.7e9)) + arrival_times[number] / 100_000
            if rng.random() < 0.2:
                options["stops_at"] = prompt + rng.randint(0, 5)
            if rng.random() < 0.1:
                options["max_model_len"] = prompt + rng.randint(0, 3)
        if kind in ("step", "late") and (out := rng.choice(tokens)) != (1,):
            options["tokens"] = out
        if kind == "fail":
            options = Options(fails=True)
        if kind == "late":
            options |= {"ended": name, "reason": rng.choice(REASONS)}
            if rng.random() < 0.3:
                options["again"] = rng.randint(1, most[-1])
        if kind == "finish":
            options["reason"] = rng.choice(REASONS)
        if two and rng.random() < 0.5:
            options["scheduler"] = 1
        arguments = [name] if kind in ("add", "finish") else []
        calls.append(("step" if kind in ("late", "fail") else kind, *arguments, *([options] if options else [])))
    return calls


def make_scheduler(lab: Any, num_blocks: int, block_size: int, enable_prefix_caching: bool, **limits: Any) -> Any:
    """The scheduler of a walk, if a lab says nothing else: without the finer rules that are on by default."""
    manager = lab.KVCacheManager(num_blocks, block_size, enable_prefix_caching=enable_prefix_caching)
    return lab.Scheduler(manager, **{"reserve_full_sequence": False, **limits})


def play_world(
    lab: Any,
    calls: Iterable[Call],
    *,
    decided: Kinds,
    updated: Kinds,
    make: Callable[..., Any] = make_scheduler,
) -> Iterator[Seen]:
    """Do the calls. decided: what is looked at after schedule(), preempt() and finish(); updated: after the model.

    The keys of both are methods of World that take nothing, and of `decided` and `updated` below.
    """
    worlds: list[World] = []
    for name, *arguments in calls:
        options = arguments.pop() if arguments and isinstance(arguments[-1], Options) else Options()
        if name == "world":
            worlds = [World(lab, make(lab, **options), which) for which in ("", " of the second scheduler")]
            continue
        world, reason = worlds[options.get("scheduler", 0)], options.get("reason", "abort")
        before = world.drawn()
        if name == "add":
            world.add(*arguments, options)
            continue
        if name == "step":
            yield from world.look(decided, before, world.schedule())
            before = world.drawn()
            if "ended" in options:
                world.scheduler.finish_request(options["ended"], reason)
            if "again" in options:
                world.add(options.get("ended", NAMES[0]), Options(prompt=options["again"]))
            if not options.get("fails"):
                yield from world.look(updated, before, world.update(options.get("tokens", (1,))))
                continue
            world.scheduler.fail_step(world.output)
        elif name == "finish":
            world.scheduler.finish_request(*arguments, reason)
        elif world.scheduler.running:
            world.scheduler._preempt(world.scheduler._pop_victim())
        yield from world.look({key: law for key, law in decided.items() if hasattr(World, key)}, before, {})


class World:
    """A scheduler, every request that it ever had, and what may be seen of them."""

    def __init__(self, lab: Any, scheduler: Any, which: str) -> None:
        self.lab, self.scheduler, self.which = lab, scheduler, which
        self.requests: dict[str, Any] = {}  # by name; the second one of the name a is a'
        self.params = cache(lambda max_tokens: lab.SamplingParams(max_tokens=max_tokens))
        self.output: Any = None
        self.num_steps = 0

    # --- what happens ---------------------------------------------------------------------------------------------

    def add(self, name: str, options: Options) -> None:
        """A new request, if none of the name is in flight and its prompt fits. Its first tokens may be shared."""
        kv, label = self.scheduler.kv_cache_manager, name
        while label in self.requests:
            if not self.requests[label].is_finished:
                return
            label += "'"
        length = options.get("prompt", 1)
        if length > kv.num_usable_blocks * kv.block_size:
            return
        serial = 1000 * (1 + len(self.requests))
        prompt = [position if position < options.get("shared", 0) else serial + position for position in range(length)]
        request = self.lab.Request(
            name,
            prompt,
            self.params(options.get("max_tokens", 16)),
            eos_token_ids=[token_of(options["stops_at"])] if "stops_at" in options else [],
            priority=options.get("priority", 0),
            arrival_time=options.get("arrival_time", 1.0 + len(self.requests)),
            max_model_len=options.get("max_model_len"),
        )
        self.scheduler.add_request(request)
        self.requests[label] = request

    def schedule(self) -> dict[str, Any]:
        """Half a step, and what it decided."""
        ran, earlier = ids_of(self.scheduler.running), self.output
        self.num_steps += 1
        self.output = output = self.scheduler.schedule()
        scheduled = list(output.num_scheduled_tokens.items())
        return {
            "preempted": ("who gives way", list(output.preempted_req_ids)),
            "continued": ("what those compute that ran", [each for each in scheduled if each[0] in ran]),
            "admitted": ("who is admitted, and what it computes", [each for each in scheduled if each[0] not in ran]),
            "scheduled": ("who computes how much", [*scheduled, *ids_of(output.scheduled_requests)]),
            "earlier": ("the output of the step before, looked at again", earlier and written(earlier)),
        }

    def update(self, tokens: Sequence[int]) -> dict[str, Any]:
        """The other half: the model gives those that sample their tokens, which depend on the position alone."""
        output, kv = self.output, self.scheduler.kv_cache_manager
        sampled: dict[str, list[int]] = {}
        told = written(output)
        kv.begin_step()
        for request in output.scheduled_requests:
            behind = request.num_tokens - request.num_computed_tokens  # what is scheduled beyond it is drafts
            if self.scheduler.needs_sample(request, min(output.num_scheduled_tokens[request.request_id], behind)):
                start, count = request.num_tokens, tokens[len(sampled) % len(tokens)]
                sampled[request.request_id] = [token_of(start + i) for i in range(count)]
        kv.end_step(KVResult())
        given = {name: list(token_ids) for name, token_ids in sampled.items()}
        finished = self.scheduler.update_from_output(output, sampled)
        return {
            "sampled": ("who samples", list(given)),
            "finished": ("who finished, and why", [(each.request_id, each.finish_reason) for each in finished]),
            "given": (
                "whether the output and the sampled tokens are as they were",
                (told, given) == (written(output), sampled),
            ),
        }

    # --- what may be seen -----------------------------------------------------------------------------------------

    def look(self, kinds: Kinds, before: str, happened: Mapping[str, tuple[str, Any]]) -> Iterator[Seen]:
        """What is to be looked at, in its order, with the state before."""
        for key, law in kinds.items():
            what, value = happened[key] if key in happened else getattr(self, key)()
            yield law, f"step {self.num_steps}{self.which}: {what}", value, before, ""

    def drawn(self) -> str:
        """The limits, who is where, and the free blocks."""
        scheduler, kv = self.scheduler, self.scheduler.kv_cache_manager
        limits = [f"budget {scheduler.max_num_batched_tokens}", f"at most {scheduler.max_num_seqs} run"]
        limits.append(f"blocks of {kv.block_size}")
        if scheduler.num_watermark_blocks:
            limits.append(f"watermark {scheduler.num_watermark_blocks} blocks")
        if threshold := getattr(scheduler, "long_prefill_token_threshold", 0):
            limits.append(f"threshold {threshold}")
        if scheduler.policy == "priority":
            each = [
                f"{r.request_id} {r.priority} of {r.arrival_time}" for r in (*scheduler.running, *scheduler.waiting)
            ]
            limits.append(f"priority {', '.join(each)}")
        if scheduler.waiting and (hits := kv.get_computed_blocks(scheduler.waiting[0])[0]):
            free = [block.block_id for block in hits if not block.ref_cnt]
            which = f"free: {' '.join(map(str, free))}" if free else "none of them free"
            found = " ".join(str(block.block_id) for block in hits)
            limits.append(f"{scheduler.waiting[0].request_id} would find {found} ({which})")
        return f"{', '.join(limits)}\n{self.lab.draw.scheduler(scheduler)}"

    def of_each(self, what: str, value: Callable[[Any], Any]) -> tuple[str, dict[str, Any]]:
        what += " (x' is the next request of the name x)" if any("'" in label for label in self.requests) else ""
        return what, {label: value(request) for label, request in self.requests.items()}

    def running(self) -> tuple[str, Any]:
        return "who runs, in order", ids_of(self.scheduler.running)

    def waiting(self) -> tuple[str, Any]:
        return "who waits, front first", ids_of(self.scheduler.waiting)

    def computed(self) -> tuple[str, Any]:
        return self.of_each("num_computed_tokens of each", lambda request: request.num_computed_tokens)

    def known(self) -> tuple[str, Any]:
        return self.of_each("tokens known of each", lambda request: list(request.all_token_ids))

    def outputs(self) -> tuple[str, Any]:
        return self.of_each("output of each", lambda request: list(request.output_token_ids))

    def prompts(self) -> tuple[str, Any]:
        return self.of_each("prompt of each", lambda request: list(request.prompt_token_ids))

    def statuses(self) -> tuple[str, Any]:
        return self.of_each("status of each", lambda request: request.status.name)

    def preemptions(self) -> tuple[str, Any]:
        return self.of_each("num_preemptions of each", lambda request: request.num_preemptions)

    def blocks(self) -> tuple[str, Any]:
        held = self.scheduler.kv_cache_manager.get_block_ids
        return "blocks held by each", {name: len(held(name)) for name in NAMES if held(name)}

    def free(self) -> tuple[str, Any]:
        return "how many blocks are free", self.scheduler.kv_cache_manager.num_free_blocks

    def hits(self) -> tuple[str, Any]:
        found = self.scheduler.kv_cache_manager.get_computed_blocks
        return "tokens that each would find cached", {
            each.request_id: found(each)[1] for each in self.scheduler.waiting
        }

    def unfinished(self) -> tuple[str, Any]:
        return "whether somebody is unfinished", bool(self.scheduler.has_unfinished_requests())


def token_of(position: int) -> int:
    """What the model says at a position; the same for all, so that outputs are found in the cache, too."""
    return 500 + position


def ids_of(requests: Iterable[Any]) -> list[str]:
    return [request.request_id for request in requests]


def written(output: Any) -> tuple[Any, ...]:
    """What schedule() returned, as plain values."""
    return dict(output.num_scheduled_tokens), ids_of(output.scheduled_requests), list(output.preempted_req_ids)
