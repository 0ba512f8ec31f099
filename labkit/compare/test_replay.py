"""Replay: every decision is compared, both recorded forms are read, and what is not here is said by name."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from labkit.compare.replay import BrokenTraceError, find_trace_files, read_traces, replay, unsupported
from mini_vllm.observe.trace import fake_token, run_trace
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler

TRACES = Path(__file__).parents[2] / "traces" / "vllm-0.33.0"
CATEGORIES = ("aborts", "mixed", "no_caching", "priority_directed")

Trace = dict[str, Any]


def recorded(category: str) -> list[Trace]:
    return read_traces(TRACES / f"{category}.jsonl")


def busy_trace() -> Trace:
    """One in which requests are preempted and come back."""
    return next(trace for trace in recorded("mixed") if trace["totals"]["preempted_hits"])


def as_schema_2(trace: Trace) -> Trace:
    """The same run as schema 2 records it. `computed` and `sampled` are told by what schema 1 has."""
    trace = copy.deepcopy(trace)
    config, requests = trace["config"], {request["id"]: request for request in trace["requests"]}
    full = {"kind": "full", "block_size": config["block_size"]}
    config.update(
        hash_block_size=config["block_size"],
        groups=[full],
        retention=0,
        spec=None,
        async_scheduling=False,
        connector=None,
    )
    computed: dict[str, int] = {}
    outputs = dict.fromkeys(requests, 0)
    for step in trace["steps"]:
        computed.update(dict(step.get("new", []) + step.get("resumed", [])))
        for request_id in step.get("preempted", []) + step.get("aborted_before", []):
            computed.pop(request_id, None)
        during, step["sampled"] = step.get("aborted_during", []), {}
        for request_id, num_tokens in step["sched"]:
            computed[request_id] += num_tokens
            position = len(requests[request_id]["prompt"]) + outputs[request_id]
            if computed[request_id] == position:
                seed = requests[request_id]["sample_seed"]
                step["sampled"][request_id] = [fake_token(seed, position, config["vocab_size"])]
                outputs[request_id] += request_id not in during
        for request_id in [*during, *(request_id for request_id, _ in step.get("finished", []))]:
            computed.pop(request_id, None)
        step["computed"] = dict(computed)
        step["blocks"] = {request_id: [block_ids] for request_id, block_ids in step.get("blocks", {}).items()}
        for name in ("sampled", "computed", "blocks"):
            if not step[name]:
                del step[name]
        if not config["enable_prefix_caching"]:
            step.pop("cached", None)
    return trace | {"schema": 2, "area": "plain"}


@pytest.mark.parametrize("category", CATEGORIES)
def test_both_forms_of_a_run_are_equal(category: str) -> None:
    for trace in recorded(category):
        assert replay(trace) is None
        assert replay(as_schema_2(trace)) is None, trace["name"]


@pytest.mark.parametrize("form", [lambda trace: trace, as_schema_2], ids=["schema 1", "schema 2"])
def test_every_field_of_a_step_is_compared(form: Any) -> None:
    """An edit of any decision is found, in its step and under its name."""
    trace = form(busy_trace())
    names = set().union(*trace["steps"]) - {"step"}
    assert names >= {"sched", "new", "resumed", "preempted", "blocks", "waiting", "free", "cached", "finished"}
    for name in names:
        edited = copy.deepcopy(trace)
        step = [step for step in edited["steps"] if name in step][-1]
        step[name] = step[name] + 1 if isinstance(step[name], int) else type(step[name])()
        if name == "sched" or form is as_schema_2:
            step[name] = step[name] or {"x": [[9]]}
        found = replay(edited)
        assert str(found).startswith(f"step {step['step']}: {name}: ours "), found
        assert ", vLLM " in str(found)


@pytest.mark.parametrize("name", ["outputs", "totals"])
def test_what_a_run_ends_with_is_compared(name: str) -> None:
    for key, value in busy_trace()[name].items():
        edited = busy_trace()
        edited[name][key] = value + 1 if isinstance(value, int) else value[:-1]
        assert key in str(replay(edited))


@pytest.mark.parametrize("length", [-1, 1])
def test_a_run_of_another_length_differs(length: int) -> None:
    trace = busy_trace()
    last = trace["steps"][-1]
    trace["steps"] = trace["steps"][:-1] if length < 0 else [*trace["steps"], last | {"step": last["step"] + 1}]
    expected = "not finished, and vLLM is" if length < 0 else "finished, and vLLM is not"
    assert str(replay(trace)).endswith(f": {expected}")


def test_recorded_tokens_are_inputs() -> None:
    """Schema 2 says what was sampled; the replay follows it, whatever the fake model would have said."""
    trace = as_schema_2(recorded("no_caching")[0])
    request_id, token_ids = next((name, ids) for name, ids in trace["outputs"].items() if len(ids) > 1)
    step = next(step for step in trace["steps"] if request_id in step.get("sampled", {}))
    other = token_ids[0] % (trace["config"]["vocab_size"] - 1) + 1  # not the fake model's, and not 0, which may end it
    step["sampled"][request_id] = [other]
    assert str(replay(trace)).startswith(f"output of {request_id}: ours [{other}, ")
    trace["outputs"][request_id][0] = other
    assert replay(trace) is None


def test_stop_token_ids_are_part_of_a_request() -> None:
    trace = as_schema_2(recorded("no_pressure")[0])
    request = trace["requests"][0]
    first = trace["outputs"][request["id"]][0]
    trace["requests"][0] = request | {"stop_token_ids": [first]}
    assert run_trace(trace)["outputs"][request["id"]] == [first]
    assert "finished: ours" in str(replay(trace))
    assert f"'{request['id']}', 'stop'" in str(replay(trace))


@pytest.mark.parametrize(
    ("config", "request_fields", "feature"),
    [
        ({"hash_block_size": 2}, {}, "hashes of parts of a block (hash_block_size)"),
        ({}, {"kv": {"ext": 8}}, "KV from outside without a connector (kv of a request)"),
        ({"mystery": 1}, {}, "options not known here (mystery)"),
        ({}, {"mystery": 1}, "fields of a request not known here (mystery)"),
    ],
)
def test_a_feature_that_is_not_here_is_named(config: Trace, request_fields: Trace, feature: str) -> None:
    trace = as_schema_2(next(trace for trace in recorded("mixed") if trace["config"]["block_size"] == 4))
    assert unsupported(trace) is None
    trace["config"].update(config)
    trace["requests"][0].update(request_fields)
    assert str(unsupported(trace)).split(", ")[-1] == feature
    assert str(replay(trace)).startswith("not replayed: ")


def test_what_nobody_would_compare_does_not_pass_for_equal() -> None:
    trace = as_schema_2(busy_trace())
    trace["steps"][0]["mystery"] = 1
    assert unsupported(trace) == "fields of a step not known here (mystery)"
    assert unsupported(trace | {"hangs": True}) == "a run that vLLM did not finish (hangs)"
    assert unsupported(trace | {"schema": 3}) == "a form of traces not known here (schema 3)"


def test_whatever_is_raised_is_a_difference() -> None:
    class Breaks(Scheduler):
        def _preempt(self, request: Request) -> None:
            raise ZeroDivisionError("broken")

    trace = busy_trace()
    step = next(step["step"] for step in trace["steps"] if step.get("preempted"))
    assert replay(trace, scheduler_cls=Breaks) == f"step {step}: ZeroDivisionError: broken"
    del trace["config"]["block_size"]
    assert replay(trace) == "KeyError: 'block_size'"


def test_a_long_difference_is_cut_around_what_differs() -> None:
    trace = busy_trace()
    trace["totals"]["final_free_queue"] = [*range(1, 900)]
    assert len(str(replay(trace))) < 400
    trace["steps"][0]["sched"] = [[f"r{i}", 1] for i in range(900)]
    assert len(str(replay(trace))) < 400


# --- files ----------------------------------------------------------------------------------------------------------


def test_files_are_found_below_a_folder(tmp_path: Path) -> None:
    trace = busy_trace()
    (tmp_path / "sub.json").mkdir()
    (tmp_path / "sub.json" / "one.json").write_text(json.dumps(trace))
    (tmp_path / "many.jsonl").write_text(f"{json.dumps(trace)}\n\n{json.dumps(trace)}\n")
    (tmp_path / "notes.txt").write_text("no trace")
    (tmp_path / "model.json").write_text('{"vocab_size": 7}')
    files = find_trace_files(tmp_path)
    assert [file.name for file in files] == ["many.jsonl", "model.json", "one.json"]
    assert [len(read_traces(file)) for file in files] == [2, 0, 1]
    assert find_trace_files(tmp_path / "notes.txt") == [tmp_path / "notes.txt"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "{"),
        ("a.json", ""),
        ("a.json", '{"steps": []}'),
        ("a.jsonl", '{"name": "x", "config": {}, "requests": [], "steps": []}\n7\n'),
        ("a.json", '{"name": "x", "config": {}, "requests": [], "steps": 7}'),
        ("a.json", "[" * 100_000),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BrokenTraceError, match=f"{name}: "):
        read_traces(tmp_path / name)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BrokenTraceError, match=r"gone\.json: FileNotFoundError"):
        read_traces(tmp_path / "gone.json")
