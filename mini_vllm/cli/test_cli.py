"""The command line: what a user sees, through the real commands."""

import json
import logging
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from typer.testing import CliRunner

from mini_vllm.cli.commands import app
from mini_vllm.cli.keys_file import read_keys_file
from mini_vllm.observe import timeline
from mini_vllm.observe.trace import run_trace

torch = pytest.importorskip("torch")
COMMANDS = ("demo", "generate", "chat", "bench", "trace", "doctor")
QUESTION = "What is a KV block?"
ANSWER = "A KV block is a fixed-size piece of the KV cache"
SCENARIO = {
    "config": {"block_size": 4, "num_blocks": 9, "max_num_seqs": 4, "max_num_batched_tokens": 8},
    "requests": [{"id": "a", "prompt": [1, 2, 3, 4, 5], "max_tokens": 3}],
}


@pytest.fixture(autouse=True, scope="module")
def _leave_no_trace() -> Iterator[None]:
    """The commands set the number of threads and where the engine logs; other tests do not want
    that.
    """
    logger, threads = logging.getLogger("mini_vllm"), torch.get_num_threads()
    before = (logger.handlers, logger.level, logger.propagate)
    yield
    logger.handlers, logger.level, logger.propagate = before
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _small_kv_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Filling the cache that a machine has room for with zeros takes longer than all else that a
    command does here.
    """
    monkeypatch.setattr("mini_vllm.worker.memory.MAX_CPU_KV_CACHE_BYTES", 16 << 20)


def run(*arguments: str, status: int = 0, **options: Any) -> Any:
    runner = CliRunner(env={"COLUMNS": "100", "FORCE_COLOR": None})
    result = runner.invoke(app, [*arguments], **options)
    assert result.exit_code == status, result.output
    return result


# --- help and errors ------------------------------------------------------------------------------


def test_help_needs_no_torch() -> None:
    code = (
        "import sys, mini_vllm.cli.commands; sys.exit('torch' in sys.modules or 'transformers' "
        "in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_listed_and_has_help(name: str) -> None:
    assert re.search(rf"^  {name} ", run("--help").output, re.MULTILINE)
    assert "--debug" in run(name, "--help").output


def test_the_help_of_serve_has_groups_with_defaults() -> None:
    """The command's own options come first, and what is in no group last."""
    text = run("serve", "--help").output
    titles = re.findall(r"^(\w+):$", text, re.MULTILINE)
    assert titles == ["Access", "Limits", "Disaggregation", "Engine", "Options"]
    for title, name, default in (
        ("Access", "--port", "8000"),
        ("Limits", "--max-queue", "1024"),
        ("Engine", "--block-size", "16"),
    ):
        group = text.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert re.search(rf"{name} [^-]*default:\s+{default}", group), group


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--kv-connector nixl", "--kv-connector needs --role"),
        ("--kv-ip 10.0.0.1", "--kv-ip needs --role"),
        ("--kv-peer 127.0.0.1", "--kv-peer needs --role"),
        ("--kv-load-failure-policy fail", "--kv-load-failure-policy needs --role"),
        ("--role decode --data-parallel-size 2", "--role is for one engine"),
        ("--kv-events-config {} --data-parallel-size 2", "--kv-events-config is for one engine"),
        (
            "--tensor-parallel-size 2 --enable-expert-parallel --expert-loads loads.json "
            "--data-parallel-size 2",
            "--expert-loads is for one engine",
        ),
    ],
)
def test_an_option_that_nothing_would_obey_is_refused(options: str, message: str) -> None:
    assert message in " ".join(run("serve", *options.split(), status=2).output.split())


@pytest.mark.parametrize("name", ["MINI_VLLM_API_KEY", "VLLM_API_KEY"])
def test_keys_come_from_the_environment_or_a_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mini_vllm.serving import run as served

    asked: list[tuple[str, ...]] = []

    async def note(server: Any, **options: Any) -> None:
        asked.append(server.api.options.api_keys)

    monkeypatch.setattr(served, "run", note)
    run("serve")
    run("serve", env={name: "one two"})
    run("serve", env={name: ""})
    file = tmp_path / "keys"
    file.write_text("three\n\nfour\n")
    run("serve", "--api-key-file", str(file), env={name: "one"})
    run("serve", "--api-key", "five", env={name: "one"})
    assert asked == [(), ("one", "two"), (), ("one", "three", "four"), ("five",)]
    file.write_text("\n")
    assert "--api-key is no key" in run("serve", "--api-key-file", str(file), status=2).output
    run("serve", "--api-key-file", str(tmp_path / "nosuch"), status=2)


@pytest.mark.parametrize("name", ["generate", "chat", "bench", "trace"])
def test_commands_with_an_engine_share_its_options(name: str) -> None:
    text = run(name, "--help").output
    for option in (
        "--block-size",
        "--num-kv-blocks",
        "--no-prefix-caching",
        "--attention-backend",
        "--policy",
    ):
        assert f" {option} " in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["generate", "hi", "--block-size", "0"],
            "block_size must be an integer in [1, 2147483647], got 0",
        ),
        (
            ["generate", "hi", "--policy", "lottery"],
            "policy must be 'fcfs' or 'priority', got 'lottery'",
        ),
        (
            ["generate", "hi", "--temperature", "-1"],
            "temperature must be a number in [0, 1e6], got -1.0",
        ),
        (["generate", ""], "the prompt has 0 tokens"),
        (["generate", "hi", "--attention-backend", "nosuch"], "nosuch"),
        (["chat", "-m", "hi", "--dtype", "int8"], "dtype must be one of"),
        (["trace"], "give prompts or a scenario"),
        (["demo", "--blocks", "3"], "the prompt has"),
    ],
)
def test_a_refusal_is_one_line_and_status_2(arguments: list[str], message: str) -> None:
    result = run(*arguments, status=2)
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1
    assert message in errors[0]
    assert "Traceback" not in result.output


def test_debug_shows_the_exception() -> None:
    result = CliRunner().invoke(app, ["generate", "hi", "--block-size", "0", "--debug"])
    assert type(result.exception).__name__ == "InvalidParameterError"


def test_unknown_model(tmp_path: Path) -> None:
    assert "nosuch" in run("generate", "hi", "--model", str(tmp_path / "nosuch"), status=2).stderr


@pytest.mark.parametrize(
    "arguments",
    [["generate", "hi", "--tempreature", "0"], ["generate"], ["bench", "--block-size", "x"]],
)
def test_wrong_usage_is_status_2(arguments: list[str]) -> None:
    assert "Error" in run(*arguments, status=2).stderr


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    lines = run("generate", "hi", "--dtype", "bfloat16", status=2).stderr.splitlines()
    assert "dtype 'bfloat16' needs torch" in lines[-1]
    assert "[engine]" in lines[-1]


# --- generate, chat, bench, doctor ----------------------------------------------------------------


def test_generate_prints_the_text_alone() -> None:
    result = run("generate", QUESTION, "--max-tokens", "13", "--dtype", "float32")
    assert result.stdout.strip() == ANSWER
    assert "KV cache: " in result.stderr


def test_generate_reads_stdin_and_stops() -> None:
    result = run("generate", "-", "--stop", " piece", "--dtype", "float32", input=f"{QUESTION}\n")
    assert result.stdout.strip() == "A KV block is a fixed-size"


def test_prompts_from_a_file_or_stdin(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(f'{{"prompt": "{QUESTION}"}}\n\n{{"prompt": "What is a slot?"}}\n')
    options = ("--max-tokens", "4", "--json", "--dtype", "float32")
    wanted = json.loads(run("generate", QUESTION, "What is a slot?", *options).stdout)
    texts = [each["outputs"][0]["text"] for each in wanted]
    for path, given in ((str(file), ""), ("-", f"{QUESTION}\nWhat is a slot?\n")):
        found = json.loads(run("generate", "--prompts", path, *options, input=given).stdout)
        assert [each["outputs"][0]["text"] for each in found] == texts
    ran = ["bench", "--prompts", str(file), "--output-len", "3", "--iterations", "1", "--json"]
    result = json.loads(run(*ran).stdout)
    assert (result["num_requests"], result["num_output_tokens"]) == (2, 6)
    file.write_text('{"prompt": "a"}\n{"prompt": 1}\n')
    for command in ("generate", "bench"):
        assert "line 2: " in run(command, "--prompts", str(file), status=2).stderr
        file.write_text("\n")
        assert "a file that has one" in run(command, "--prompts", str(file), status=2).stderr
        file.write_text('{"prompt": "a"}\n{"prompt": 1}\n')
        assert "jsonl1" in run(command, "--prompts", f"{file}1", status=2).stderr


def test_generate_json() -> None:
    results = json.loads(
        run(
            "generate", QUESTION, "What is a slot?", "-n", "2", "--max-tokens", "5", "--json"
        ).stdout
    )
    assert [result["prompt"] for result in results] == [QUESTION, "What is a slot?"]
    for result in results:
        assert [choice["index"] for choice in result["outputs"]] == [0, 1]
        assert all(
            len(choice["token_ids"]) == 5 and choice["finish_reason"] == "length"
            for choice in result["outputs"]
        )


def test_generate_several_prompts_as_text() -> None:
    lines = run("generate", QUESTION, "What is a slot?", "--max-tokens", "8").stdout.splitlines()
    assert [line for line in lines if line.startswith("> ")] == [
        f"> {QUESTION}",
        "> What is a slot?",
    ]


def test_the_seed_decides_what_is_sampled() -> None:
    options = ["generate", "Once", "--temperature", "5", "--max-tokens", "12", "--seed"]
    first, again, other = (run(*options, seed).stdout for seed in ("1", "1", "2"))
    assert first == again != other


def test_chat_once() -> None:
    assert run("chat", "-m", QUESTION, "--dtype", "float32").stdout.startswith(ANSWER)


def test_chat_keeps_the_conversation_until_new() -> None:
    result = run("chat", input=f"{QUESTION}\n{QUESTION}\n/new\n{QUESTION}\n")
    assert result.stdout.count(ANSWER) == 3
    figures = [
        list(map(int, re.findall(r"\d+", line)[:2]))
        for line in result.stderr.splitlines()
        if "cached" in line
    ]
    (first, no_hit), (second, hit), (third, _) = figures
    assert first == third < second
    assert no_hit == 0 < hit


@pytest.mark.slow
def test_chat_goes_on_after_a_conversation_that_is_too_long() -> None:
    result = run(
        "chat", "--max-model-len", "64", input=f"{QUESTION}\n{QUESTION * 8}\n/new\n{QUESTION}\n"
    )
    assert result.stdout.count(ANSWER) == 2
    assert "/new starts a new conversation" in result.stderr.splitlines()[-2]


def test_ctrl_c_ends_the_answer_not_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    from mini_vllm.engine.llm_engine import LLMEngine

    steps, step = [0], LLMEngine.step

    def interrupted_step(engine: LLMEngine) -> Any:
        steps[0] += 1
        if steps[0] == 4:
            signal.raise_signal(signal.SIGINT)
        return step(engine)

    monkeypatch.setattr(LLMEngine, "step", interrupted_step)
    # in the background a shell has it ignored
    at_first = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.getsignal(signal.SIGINT)
    result = run("chat", input=f"{QUESTION}\nWhat is a slot?\n")
    first, second = result.stdout.splitlines()
    assert first.endswith(" [stopped]")
    assert ANSWER.startswith(first.removesuffix(" [stopped]"))
    assert second.startswith("A slot is the place of one token")
    assert signal.getsignal(signal.SIGINT) is before
    signal.signal(signal.SIGINT, at_first)


def test_bench_counts_what_it_ran() -> None:
    options = [
        "--num-requests",
        "3",
        "--input-len",
        "40",
        "--output-len",
        "6",
        "--prefix-len",
        "32",
    ]
    result = json.loads(
        run(
            "bench", *options, "--max-num-batched-tokens", "40", "--iterations", "2", "--json"
        ).stdout
    )
    assert (result["num_requests"], result["total_num_tokens"], result["num_output_tokens"]) == (
        3,
        138,
        18,
    )
    # the second and third find the first one's two blocks, in each iteration
    assert result["prefix_hit_tokens"] == 64
    assert result["recent_prefix_hit_rate"] == 64 / 120
    assert result["preemptions"] == 0
    assert result["steps"] == 7  # 40 | 1 + 8 + 8 | four decodes more, and the last of the late two
    assert result["spread"]["steps"] == [7, 7]
    least, largest = result["spread"]["elapsed_time"]
    assert least <= result["elapsed_time"] <= largest
    assert result["elapsed_time"] == pytest.approx((least + largest) / 2)
    for name in ("ttft", "tpot", "itl", "e2el"):
        median, p99 = (result[f"{which}_{name}_ms"] for which in ("median", "p99"))
        assert 0 < median <= p99 <= 1000 * largest
    assert result["mean_ttft_ms"] < result["mean_e2el_ms"]
    assert (
        result["tokens_per_second"]
        > result["output_tokens_per_second"]
        > result["requests_per_second"]
    )


def test_bench_counts_all_tokens_of_a_step_with_drafts() -> None:
    options = (
        "--num-requests",
        "1",
        "--input-len",
        "64",
        "--output-len",
        "128",
        "--iterations",
        "1",
    )
    result = json.loads(run("bench", *options, "--speculative", "ngram", "--json").stdout)
    assert result["steps"] < result["num_output_tokens"] == 128


def test_bench_as_text() -> None:
    text = run("bench", "--num-requests", "2", "--input-len", "8", "--output-len", "1").stdout
    assert re.search(r"^elapsed_time +\S+ +\S+ to +\S+$", text, re.MULTILINE)
    assert re.search(r"^iterations +3$", text, re.MULTILINE)
    assert "itl" not in text  # one token has no latency between tokens


def test_doctor() -> None:
    result = run("doctor")
    for name in ("Python", "torch", "transformers", "attention", "tiny model"):
        assert re.search(rf"^ok +{name} ", result.stdout, re.MULTILINE), result.stdout


def test_doctor_says_whether_a_model_fits_without_loading_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mini_vllm.models.weights.safe_open", only_headers)
    stdout = " ".join(run("doctor", "--model", "tiny").stdout.split())
    assert re.match(r"ok dtype bfloat16 [\d,]+ of [\d,]+ bytes", stdout)
    assert "ok dtype bfloat16, quantization int8 " in stdout
    monkeypatch.setattr("mini_vllm.worker.device.available_host_memory", lambda: 1000)
    monkeypatch.setattr("mini_vllm.worker.memory.available_host_memory", lambda: 1000)
    stderr = run("doctor", "--model", "tiny", status=2).stderr
    assert "1,000 bytes are available" in stderr


def only_headers(file: Path, framework: str) -> Any:
    assert framework == "np"
    return safe_open(file, framework)


def test_doctor_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mini_vllm.cli.doctor.installed", lambda package: None)
    result = run("doctor")
    assert re.search(
        r"^- +engine +in NumPy +runs the bundled model alone.*engine", result.stdout, re.MULTILINE
    )
    assert re.search(r"^ok +tiny model ", result.stdout, re.MULTILINE)


def test_doctor_finds_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mini_vllm.cli.doctor.ask", lambda: "A KV block is a cheese.")
    assert "answers wrongly" in run("doctor", status=1).stdout


# --- trace ----------------------------------------------------------------------------------------


def test_trace_of_prompts_has_the_texts_and_the_schema(tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    large = ("--num-kv-blocks", "8000")
    result = run(
        "trace",
        QUESTION,
        "What is a slot?",
        "--out",
        str(out),
        "--max-num-batched-tokens",
        "8",
        *large,
    )
    record = json.loads(out.read_text(encoding="utf-8"))
    assert [spec["prompt_text"] for spec in record["requests"]] == [QUESTION, "What is a slot?"]
    assert record["requests"][0]["output_text"].strip().startswith(ANSWER)
    assert "peak KV cache use" in result.stdout
    schema = Path(timeline.__file__).with_name("trace.schema.json")
    pytest.importorskip("jsonschema").validate(
        record, json.loads(schema.read_text(encoding="utf-8"))
    )
    assert out.stat().st_size < 40_000, "the free queue of 7,999 blocks is not in it"
    run("trace", QUESTION, "--out", str(out), "--free-queue", *large)
    assert len(json.loads(out.read_text(encoding="utf-8"))["totals"]["final_free_queue"]) == 7999


def test_trace_of_a_scenario_needs_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    scenario, out = tmp_path / "scenario.json", tmp_path / "trace.json"
    scenario.write_text(json.dumps(SCENARIO), encoding="utf-8")
    result = run("trace", "--scenario", str(scenario), "--out", str(out), "--free-queue")
    assert json.loads(out.read_text(encoding="utf-8")) == json.loads(
        json.dumps(run_trace(SCENARIO))
    )
    assert re.search(r"^a +█▪▪$", result.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    "text", ["not json", "[]", '{"config": {}}', '{"config": {}, "requests": []}']
)
def test_trace_refuses_what_is_no_scenario(tmp_path: Path, text: str) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(text, encoding="utf-8")
    assert "is not a scenario" in run("trace", "--scenario", str(path), status=2).stderr


# --- the demo -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo_output() -> str:
    return str(run("demo").stdout)


@pytest.mark.parametrize(
    "answer",
    [
        "A KV block is a fixed-size piece",
        "Chunked prefill spreads a long prompt",
        "A prefix hit is the unbroken run",
        "Preemption takes the blocks away",
        "The token budget is the number of tokens",
        "A block table is the list of the block ids",
    ],
)
def test_demo_prints_each_answer_once(demo_output: str, answer: str) -> None:
    assert demo_output.count(answer) == 1


def test_demo_has_its_sections_in_order(demo_output: str) -> None:
    titles = (
        "Six questions at once",
        "What the scheduler did",
        "What to see in it",
        "Where to go next",
    )
    assert [demo_output.count(title) for title in titles] == [1, 1, 1, 1]
    assert sorted(titles, key=demo_output.index) == list(titles)


def test_demo_shows_chunks_a_prefix_hit_and_a_preemption(demo_output: str) -> None:
    assert re.search(r"^ben +·◆██", demo_output, re.MULTILINE)
    assert re.search(r"^eve +◆▪+x·+◆", demo_output, re.MULTILINE)
    assert re.search(r"^preemptions +1 ", demo_output, re.MULTILINE)


@pytest.mark.slow
def test_demo_answers_do_not_depend_on_the_options(demo_output: str) -> None:
    def answers(output: str) -> str:
        return output.split("What the scheduler did")[0].split("\n\n", 3)[3]

    other = run(
        "demo", "--budget", "17", "--blocks", "100", "--block-size", "4", "--no-prefix-caching"
    ).stdout
    assert answers(other) == answers(demo_output)
    assert "no hit" in other


@pytest.mark.slow
def test_demo_is_drawn_in_ascii_where_the_output_is_not_utf8() -> None:
    result = CliRunner(charset="ascii").invoke(app, ["demo"])
    assert result.stdout.isascii()
    assert re.search(r"^eve +\+o+x\.+\+", result.stdout, re.MULTILINE)


# --- serve --multi-tenant -------------------------------------------------------------------------

DIGEST = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"  # of foo


def test_a_keys_file_names_tenants_by_key_or_by_its_sha256(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(
        f'[alice]\nkey = "sha256:{DIGEST}"\nquota = 7\n[bob]\nkey = "bar"\n["c.d-e_9"]\nkey = "é"\n'
    )
    digests, quotas = read_keys_file(file)
    assert quotas == {"alice": 7}
    assert digests == {
        "alice": DIGEST,
        **{n: sha256(k.encode()).hexdigest() for n, k in (("bob", "bar"), ("c.d-e_9", "é"))},
    }


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "[a]",
            '[a]\nkey = ""',
            '[a]\nkey = "SECRET x"',
            "[a]\nkey = 7",
            '[a]\nkey = "SECRET"\nquota = -1',
        ),
        *(
            '[a]\nkey = "SECRET"\nquota = 0.5',
            '[a]\nkey = "SECRET"\nquotas = 1',
            'a = "SECRET"',
            '["a/b"]\nkey = "SECRET"',
        ),
        *(
            '[""]\nkey = "SECRET"',
            '["é"]\nkey = "SECRET"',
            '[a]\nkey = "sha256:SECRET"',
            '[a]\nkey = "SECRET"\n[a]',
        ),
        *(
            '[a]\nkey = "SECRET"\n[b]\nkey = "SECRET"',
            f'[a]\nkey = "foo"\n[b]\nkey = "sha256:{DIGEST}"',
            "[a]\nkey = SECRET",
        ),
    ],
)
def test_what_is_no_keys_file_is_refused_without_telling_a_key(text: str, tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(text)
    output = run("serve", "--multi-tenant", str(file), status=2).output
    assert "keys.toml" in output.replace("\n", "")
    assert "SECRET" not in output
    assert "Traceback" not in output


def test_tenants_have_a_scheduler_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text('[a]\nkey = "b"')
    output = run("serve", "--multi-tenant", str(file), "--scheduler", "warm_first", status=2).output
    assert "--scheduler" in output
