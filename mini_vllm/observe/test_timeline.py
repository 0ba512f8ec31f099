"""The timeline: a trace as text."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.observe import timeline
from mini_vllm.observe.trace import TraceRecorder, run_trace
from mini_vllm.offload.remote.gate import attach_gate
from mini_vllm.offload.tiers.connector import TierConnector
from mini_vllm.offload.tiers.disk import DiskTier
from mini_vllm.offload.tiers.host import HostTier
from mini_vllm.offload.tiers.manager import tiered
from mini_vllm.offload.tiers.work import TierPlan, TierResult
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler
from mini_vllm.scheduler_interface import Step
from mini_vllm.spec_decode.scheduler import SpeculativeScheduler
from mini_vllm.step import KVResult

TRACES = Path(__file__).parents[2] / "traces" / "vllm-0.33.0"
SCENARIO = {  # 8 usable blocks: "other" is preempted, "shares-the-prefix" begins like "first"
    "config": {
        "block_size": 4,
        "num_blocks": 9,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 8,
        "vocab_size": 100,
    },
    "requests": [
        {"id": "first", "prompt": list(range(1, 11)), "max_tokens": 9},
        {
            "id": "shares-the-prefix",
            "prompt": [*range(1, 9), 11],
            "max_tokens": 8,
            "arrival_step": 2,
            "sample_seed": 1,
        },
        {
            "id": "other",
            "prompt": list(range(20, 31)),
            "max_tokens": 6,
            "arrival_step": 3,
            "sample_seed": 2,
        },
    ],
}
TIMELINE = """\
step             0         10
first            ##oooooooo
shares-the-pr...   +ooooooo
other               ##ox...+oooo
tokens           933984333392222
KV blocks        345799778845555

# prefill chunk   + chunk after a prefix hit
o decode, one token   . waiting   x preempted
tokens: share of the budget used; KV blocks: share of the cache in use"""


def test_timeline_in_ascii() -> None:
    assert (
        timeline.render_timeline(run_trace(SCENARIO), width=60, ascii_only=True).plain == TIMELINE
    )


def test_timeline_in_unicode_differs_in_its_characters_only() -> None:
    translated = timeline.render_timeline(run_trace(SCENARIO), width=60).plain
    assert "   ◆▪▪▪▪▪▪▪" in translated
    assert [len(line) for line in translated.splitlines()] == [
        len(line) for line in TIMELINE.splitlines()
    ]


def test_timeline_marks_the_budget_that_is_spent_and_the_recomputed_chunk() -> None:
    config = {"block_size": 4, "num_blocks": 8, "max_num_seqs": 2, "max_num_batched_tokens": 5}
    requests = [
        {"id": name, "prompt": [seed] * 11, "max_tokens": 9, "sample_seed": seed}
        for seed, name in ((1, "a"), (3, "b"))
    ]
    trace = run_trace({"config": {**config, "enable_prefix_caching": False}, "requests": requests})
    a, b = timeline.read_requests(trace)
    assert {"prefill", "decode"} == set(filter(None, a.marks))
    assert b.marks.count("preempted") == b.num_preemptions > 0
    assert b.marks[b.marks.index("recompute") - 1] in ("waiting", "preempted")
    assert trace["totals"]["scheduled_tokens"] == 2 * (11 + 8) + b.num_recomputed_tokens


WITH_TIERS = """\
step      0         10
first     #o
other        #o
short              #o
again             ::<o
tokens    61 61    121
KV blocks 77 77    397

# prefill chunk   < back from main memory
o decode, one token   : waiting for a load
tokens: share of the budget used; KV blocks: share of the cache in use"""


def trace_with_tiers() -> dict[str, Any]:
    """A prompt comes again, which only the disk has by then; an io thread reads for two steps."""

    def make_connector() -> TierConnector:
        return TierConnector(4, HostTier(2), DiskTier((), 9), clock=lambda: 0.0)

    kv = tiered(KVCacheManager, make_connector)(num_blocks=5, block_size=4)
    scheduler = Scheduler(kv, max_num_seqs=2, max_num_batched_tokens=16)
    attach_gate(scheduler)
    recorder = TraceRecorder(scheduler)
    document, params = list(range(1, 10)), SamplingParams(max_tokens=2, ignore_eos=True)
    prompts = {
        0: ("first", document),
        3: ("other", list(range(20, 30))),
        8: ("again", document),
        9: ("short", [7]),
    }
    ages: dict[int, int] = {}
    is_read: dict[int, bool] = {}
    for number in range(13):
        if number in prompts:
            name, prompt = prompts[number]
            scheduler.add_request(Request(name, prompt, params))
        recorder.before_schedule()
        step = Step.decide(scheduler)
        recorder.after_schedule(step)
        plan = step.plan.connector or TierPlan("")
        is_read |= {job.number: job.kind == "read" for job in plan.jobs}  # those that begin
        ages = {number: ages.get(number, 0) + 1 for number in is_read}
        done = {number: True for number in is_read if ages[number] > is_read[number]}
        is_read = {number: read for number, read in is_read.items() if number not in done}
        sampled = {name: [60 + number] for name in step.output.num_scheduled_tokens}
        step.end_kv(kv, KVResult(connector=TierResult(done)))
        recorder.after_update(step, sampled, step.update(scheduler, sampled))
    assert not scheduler.has_unfinished_requests()
    return recorder.to_trace("with tiers")


def test_a_wait_for_a_load_has_a_sign_of_its_own() -> None:
    trace = trace_with_tiers()
    assert timeline.render_timeline(trace, width=60, ascii_only=True).plain == WITH_TIERS
    drawn = timeline.render_timeline(trace, width=60).plain
    assert "◁◁" in drawn
    assert "◁ waiting for a load" in drawn


WITH_DRAFTS = """\
step      0         10
a         #!oooo**~!~
b         +!oooo**x..+!!~
tokens    953333575546544
KV blocks 444666886776777

# prefill chunk   + chunk after a prefix hit
o decode, one token   * drafts, all accepted
~ drafts, some accepted   ! drafts, all rejected
. waiting   x preempted
tokens: share of the budget used; KV blocks: share of the cache in use"""


def test_timeline_tells_drafts_that_were_right_from_others() -> None:
    """A rejected draft is no chunk that is computed again."""
    config = {
        "block_size": 4,
        "num_blocks": 9,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 8,
        "vocab_size": 2,
    }
    lookup = {"num_speculative_tokens": 3, "prompt_lookup_min": 1}
    requests = [
        {"id": name, "prompt": [1, 2, 0, 1, 2, last], "max_tokens": 16, "sample_seed": 1}
        for name, last in (("a", 0), ("b", 2))
    ]
    trace = run_trace(
        {"config": config | lookup, "requests": requests}, scheduler_cls=SpeculativeScheduler
    )
    assert timeline.render_timeline(trace, width=60, ascii_only=True).plain == WITH_DRAFTS
    a, b = timeline.read_requests(trace)
    assert (a.num_chunks, a.num_recomputed_tokens, b.num_chunks, b.num_preemptions) == (1, 0, 2, 1)
    counts = [
        timeline.drafts_of(record, name)
        for record in trace["steps"]
        for name in record.get("spec", ())
    ]
    num_drafts, num_accepted = map(sum, zip(*counts, strict=True))
    assert f"drafts                    {num_drafts}, of which {num_accepted} were accepted" in str(
        timeline.render_totals(trace)
    )
    num_wanted = 2 * (6 + 15) - b.num_cached_tokens + b.num_recomputed_tokens
    assert trace["totals"]["scheduled_tokens"] == num_wanted + num_drafts - num_accepted
    assert "drafts" not in str(timeline.render_totals(run_trace(SCENARIO)))


def test_timeline_shows_a_running_request_that_gets_nothing() -> None:
    """Our scheduler never does that to a request, but a trace may come from another one."""
    trace = run_trace(SCENARIO)
    dropped = trace["steps"][4]["sched"].pop(0)
    assert dropped == ["first", 1]
    row = timeline.read_requests(trace)[0]
    assert row.marks[3:6] == ["decode", "idle", "decode"]
    assert "- running, not in this step" in timeline.render_timeline(trace).plain


def test_long_runs_are_drawn_in_bands_and_cut_with_a_word() -> None:
    config = {"block_size": 4, "num_blocks": 40, "max_num_seqs": 1, "max_num_batched_tokens": 64}
    trace = run_trace(
        {"config": config, "requests": [{"id": "a", "prompt": [1], "max_tokens": 65}]}
    )
    text = timeline.render_timeline(trace, width=30, max_bands=2).plain
    assert [line for line in text.splitlines() if line.startswith("step")] == [
        "step      0         10",
        "step      20        30",
    ]
    assert "Not shown: steps 40 to 64." in text
    assert max(len(line) for line in text.split("█ prefill")[0].splitlines()) <= 30


def test_requests_and_totals() -> None:
    trace = run_trace(SCENARIO)
    console = Console(width=100, file=None)
    with console.capture() as capture:
        console.print(
            timeline.render_requests(trace), timeline.render_totals(trace, ascii_only=True)
        )
    text = capture.get()
    assert re.search(r"shares-the-prefix +9 +8 +1 +8 +0 +length", text)
    assert re.search(r"other +11 +0 +3 +6 +1 +length", text)
    assert re.search(r"tokens computed +50 \(3.3 per step; the budget is 8\)", text)
    assert re.search(r"saved by the prefix cache +12 tokens", text)
    assert re.search(r"preemptions +1 \(8 tokens computed again\)", text)
    assert "#################### 8 of 8 blocks" in text


@pytest.mark.parametrize("path", sorted(TRACES.glob("*.jsonl")), ids=lambda path: path.stem)
def test_vllms_own_trace_is_drawn_as_ours(path: Path) -> None:
    """The recordings lack some of our fields; what they say of the requests is the same."""
    for line in path.read_text(encoding="utf-8").splitlines()[:3]:
        recorded = json.loads(line)
        rows = timeline.read_requests(recorded)
        assert sum(row.num_preemptions for row in rows) == recorded["totals"]["preemptions"]
        if path.stem != "quirk":
            assert (
                timeline.render_timeline(recorded).plain
                == timeline.render_timeline(run_trace(recorded)).plain
            )
