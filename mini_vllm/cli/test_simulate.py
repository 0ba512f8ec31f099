"""mini-vllm simulate and calibrate, through the real commands."""

import builtins
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mini_vllm import __version__
from mini_vllm.cli.commands import app
from mini_vllm.cli.simulated.jobs import Tiers
from mini_vllm.errors import InvalidParameterError
from mini_vllm.simulator.calibration import BUNDLED
from mini_vllm.simulator.fleet import policy_names
from mini_vllm.simulator.step_time import FEATURES, StepTimeModel

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:15:{second:02}.5,{100 + 7 * second},{5 + second % 7}\n" for second in range(20)
)
MOONCAKE = "".join(
    json.dumps(
        {
            "timestamp": 400 * i,
            "input_length": 1100,
            "output_length": 9,
            "hash_ids": [0, 1 + i % 3, 10 + i],
        }
    )
    + "\n"
    for i in range(12)
)


# a pool as large as a GPU's takes longer to make than these traces to simulate
FEW_BLOCKS = ("--num-kv-blocks", 2000)


def run(*arguments: object, status: int = 0) -> Any:
    result = CliRunner(env={"COLUMNS": "160"}).invoke(
        app, [str(argument) for argument in arguments]
    )
    assert result.exit_code == status, result.output
    return result


@pytest.fixture
def azure(tmp_path: Path) -> Path:
    path = tmp_path / "azure.csv"
    path.write_text(AZURE)
    return path


@pytest.fixture
def mooncake(tmp_path: Path) -> Path:
    path = tmp_path / "mooncake.jsonl"
    path.write_text(MOONCAKE)
    return path


def test_all_schedulers_side_by_side(azure: Path) -> None:
    output = run("simulate", "--trace", azure, *FEW_BLOCKS).output
    header = output.splitlines()[0].split()
    assert header == ["figure", *policy_names()]
    for figure in ("goodput", "TTFT p99", "ITL p99", "preempted", "hit %", "makespan"):
        assert figure in output


def test_json_holds_the_report_of_each_scheduler(mooncake: Path) -> None:
    reports = json.loads(
        run(
            "simulate", "--trace", mooncake, "--scheduler", "v1,v1+swap", "--json", *FEW_BLOCKS
        ).output
    )["reports"]
    assert list(reports) == ["v1", "v1+swap"]
    assert reports["v1"]["requests"] == 12
    assert reports["v1"]["prefix_hits"] == 512 * 11 + 512 * 9  # the first block, and one in three


@pytest.mark.slow
def test_options_reach_the_simulator(mooncake: Path) -> None:
    def report(*options: object) -> dict[str, Any]:
        command = (
            "simulate",
            "--trace",
            mooncake,
            "--scheduler",
            "v1",
            "--json",
            *FEW_BLOCKS,
            *options,
        )
        return dict(json.loads(run(*command).stdout)["reports"]["v1"])

    plain = report()
    assert report("--no-prefix-caching")["prefix_hits"] == 0
    assert report("--rate-scale", 2)["makespan"] < 0.6 * plain["makespan"]
    assert report("--num-requests", 5)["requests"] == 5
    assert report("--max-model-len", 1000)["refused"] == 12
    assert report("--slo-ttft", 1e-6)["good_share"] == 0.0 < plain["good_share"]
    assert report("--max-num-batched-tokens", 64)["steps"] > plain["steps"]
    followed = report("--replicas", 2, "--routing", "prefix_aware")
    assert followed["prefix_hits"] == plain["prefix_hits"]
    assert sum(followed["requests_per_replica"]) == 12
    assert report("--replicas", 3)["prefix_hits"] < plain["prefix_hits"]


def test_drafts_pay_while_there_are_few_requests_and_lose_under_load() -> None:
    """A GPU whose step is mostly the weights at 1 request, and mostly arithmetic at 256."""
    command = (
        "simulate",
        "--input-len",
        32,
        "--output-len",
        40,
        "--scheduler",
        "v1",
        "--acceptance",
        0.6,
        "--json",
    )
    gains = []
    for rate, num_requests in ((2, 40), (2000, 500)):
        options = (
            "--poisson",
            rate,
            "--num-requests",
            num_requests,
            "--calibration",
            "llama-3.1-8b-h100",
            *FEW_BLOCKS,
        )
        found = json.loads(run(*command, *options).stdout)
        assert found["about"]["engine"]["acceptance"] == 0.6
        plain, drafting = found["reports"]["v1"], found["reports"]["v1+drafts"]
        gains.append(plain["e2e"]["p50"] / drafting["e2e"]["p50"])
    assert gains[0] > 1.5
    assert gains[1] < 0.9


H100 = ("--scheduler", "v1", "--calibration", "llama-3.1-8b-h100", *FEW_BLOCKS)
APART = ("--replicas", 2, "--prefill-replicas", 1, "--decode-replicas", 1)


def test_tiers_and_roles_stand_beside_the_plain_fleet(mooncake: Path) -> None:
    options = ("--kv-offload-bytes", 10**9, "--kv-offload-disk-bytes", 10**9, *APART)
    command = ("simulate", "--trace", mooncake, *H100, *options)
    reports = json.loads(run(*command, "--json").stdout)["reports"]
    assert list(reports) == ["v1", "v1+tiers", "v1, 1P+1D"]
    assert {report["requests"] for report in reports.values()} == {12}
    assert reports["v1+tiers"]["tiers"]["stored"] > 0
    assert reports["v1, 1P+1D"]["roles"]["sent_tokens"] > 0
    output = run(*command, "--timeline", 3).output
    for text in (
        "blocks stored",
        "prefill workers busy",
        "TTFT: to take the roles apart",
        "decodes",
    ):
        assert text in output


def test_tiers_and_roles_that_do_not_fit_are_refused(mooncake: Path, tmp_path: Path) -> None:
    def refused(*options: object) -> str:
        return str(run("simulate", "--trace", mooncake, *options, status=2).output)

    assert "--replicas must be 3, the engines of both roles, got 2" in refused(
        *H100, "--replicas", 2, "--prefill-replicas", 1, "--decode-replicas", 2
    )
    assert "num_decode must be an integer from 1 on, got 0" in refused(
        *H100, "--prefill-replicas", 2
    )
    assert "host_blocks must be an integer from 1 on, got 0" in refused(
        *H100, "--kv-offload-bytes", 1000
    )
    unknown = StepTimeModel((1.0,) * len(FEATURES), {"engine": {"block_size": 16}})
    path = tmp_path / "unknown.json"
    path.write_text(unknown.to_json())
    rest = ("--max-num-seqs", 8, "--max-num-batched-tokens", 512, *FEW_BLOCKS)
    assert "the calibration has no kv_bytes_per_token: give --kv-bytes-per-token" in refused(
        "--scheduler", "v1", "--calibration", path, "--kv-offload-bytes", 10**9, *rest
    )


def tiers_of(about: dict[str, Any], **given: Any) -> Any:
    """The tiers that simulate makes of its options and of a calibration that says this."""
    options = {"kv_bytes_per_token": None, "disk_bandwidth": None, "disk_latency": None, **given}
    size = {"kv_offload_bytes": 50_000, "kv_offload_disk_bytes": 90_000, "load": "always"}
    model = StepTimeModel((1.0,) * len(FEATURES), about)
    return Tiers(**size, **options).of({"block_size": 10}, model)


def test_tiers_have_the_figures_of_the_calibration_unless_others_are_given() -> None:
    about = {"kv_bytes_per_token": 1000, "disk": {"bandwidth": 2e6, "latency": 0.25}}
    measured = tiers_of(about)
    assert (measured.host_blocks, measured.disk_blocks, measured.block_bytes) == (5, 9, 10_000)
    assert (measured.disk_bandwidth, measured.disk_latency) == (2e6, 0.25)
    plain = tiers_of({"kv_bytes_per_token": 1000})
    assert (plain.disk_bandwidth, plain.disk_latency) == (3e9, 1e-4)
    given = tiers_of(about, kv_bytes_per_token=500, disk_bandwidth=1.5, disk_latency=0.0)
    assert given.block_bytes == 5000
    assert (given.disk_bandwidth, given.disk_latency) == (1.5e9, 0)


@pytest.mark.parametrize(
    ("about", "text"),
    [
        ({"kv_bytes_per_token": "x"}, "kv_bytes_per_token must be an integer of at least 1"),
        ({"kv_bytes_per_token": 1, "disk": [1]}, "disk must be a JSON object"),
        ({"kv_bytes_per_token": 1, "disk": {"latency": "x"}}, "disk_latency must be a number"),
        ({"kv_bytes_per_token": 1, "disk": {"bandwidth": 0}}, "disk_bandwidth must be above 0"),
    ],
)
def test_a_calibration_with_wrong_figures_of_tiers_is_refused(
    about: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidParameterError, match=text):
        tiers_of(about)


def test_it_says_what_was_simulated(azure: Path) -> None:
    told = run(
        "simulate", "--trace", azure, "--scheduler", "v1", "--rate-scale", 2, *FEW_BLOCKS
    ).output
    arrivals, steps = (
        ("azure.csv", "rate_scale 2.0"),
        ("calibration llama-3.1-8b-h100, kind derived", "not measured"),
    )
    engine, slo = (
        (f"version {__version__}", "max_num_batched_tokens 2048"),
        ("TTFT within 2 s", "exact to 0.5 %"),
    )
    for part in (*arrivals, *steps, *engine, *slo):
        assert part in " ".join(told.split())
    about = json.loads(
        run(
            "simulate",
            "--poisson",
            5,
            "--num-requests",
            9,
            "--seed",
            4,
            "--json",
            "--scheduler",
            "v1",
        ).stdout
    )["about"]
    assert (about["arrivals"]["seed"], about["steps"]["kind"], about["quantile_error"]) == (
        4,
        "derived",
        0.005,
    )


def test_a_line_for_every_request(azure: Path, tmp_path: Path) -> None:
    out = tmp_path / "requests.jsonl"
    command = (
        "simulate",
        "--trace",
        azure,
        "--scheduler",
        "v1,prefill_first",
        "--out",
        out,
        "--json",
        *FEW_BLOCKS,
    )
    reports = json.loads(run(*command).stdout)["reports"]
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    for policy, report in reports.items():
        own = [line for line in lines if line["scheduler"] == policy]
        assert [line["index"] for line in own] == list(range(20))
        assert [line["input_length"] for line in own] == [100 + 7 * second for second in range(20)]
        ttft = sorted(line["ttft"] for line in own)
        assert report["ttft"]["p50"] == pytest.approx(ttft[9], rel=0.006)
        assert report["ttft"]["mean"] == pytest.approx(sum(ttft) / 20)
        assert (
            report["good_share"]
            == sum(line["ttft"] <= 2 and line["tail_itl"] <= 0.1 for line in own) / 20
        )
        assert (
            report["good_share_by_tpot"]
            == sum(line["ttft"] <= 2 and line["tpot"] <= 0.1 for line in own) / 20
        )


def test_random_arrivals_repeat(tmp_path: Path) -> None:
    command = (
        "simulate",
        "--poisson",
        5,
        "--num-requests",
        30,
        "--input-len",
        50,
        "--scheduler",
        "v1",
        *FEW_BLOCKS,
    )
    first, again, other = (run(*command, "--seed", seed).output for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.slow
def test_plots_are_written(azure: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run(
        "simulate",
        "--trace",
        azure,
        "--scheduler",
        "v1",
        "--plots",
        tmp_path / "plots",
        *FEW_BLOCKS,
    )
    for name in ("load.png", "timeline.png"):
        assert (tmp_path / "plots" / name).read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_it_says_what_to_install(
    azure: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def no_matplotlib(name: str, *rest: Any, **named: Any) -> Any:
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    result = run("simulate", "--trace", azure, "--plots", tmp_path, status=2)
    assert "pip install -e '.[plots]'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a trace or --poisson, and not both"),
        (("--poisson", "-1"), "got -1"),
        (("--poisson", "1", "--burstiness", "0"), "burstiness must be above 0"),
        (("--poisson", "1", "--scheduler", "v2"), "got 'v2'"),
        (("--poisson", "1", "--routing", "random"), "got 'random'"),
        (
            ("--poisson", "1", "--calibration", "a100"),
            "calibration 'a100' is neither a file nor one of",
        ),
        (("--poisson", "1", "--rate-scale", "0"), "the rate scale must be above 0"),
        (("--poisson", "1", "--slo-itl", "0"), "the limits of the SLO must be above 0"),
    ],
)
def test_bad_options_get_one_clear_line(arguments: tuple[str, ...], message: str) -> None:
    result = run("simulate", *arguments, status=2)
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (AZURE + "now,1,2\n", "trace.txt, line 22: ValueError"),
        (MOONCAKE + "{}\n", "trace.txt, line 13: KeyError"),
        ("", "trace.txt, line 1: the columns must be TIMESTAMP"),
    ],
)
def test_a_bad_file_is_named_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_text(text)
    assert message in run("simulate", "--trace", path, status=2).stderr
    assert "got 'xml'" in run("simulate", "--trace", path, "--format", "xml", status=2).stderr


def test_a_calibration_without_an_engine_asks_for_it(azure: Path, tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(StepTimeModel((1e-3, 0, 0, 0, 0, 0)).to_json())
    command = ("simulate", "--trace", azure, "--scheduler", "v1", "--calibration", path)
    assert "give block_size, num_blocks" in run(*command, status=2).stderr
    engine = (
        "--block-size",
        16,
        "--num-kv-blocks",
        500,
        "--max-num-seqs",
        8,
        "--max-num-batched-tokens",
        256,
    )
    assert "goodput" in run(*command, *engine).output
    path.write_text("{}")
    assert f"{path}: not a calibration" in run(*command, status=2).stderr


@pytest.mark.slow
def test_calibrate_writes_what_simulate_reads(azure: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "calibration.json"
    size = (
        "--num-kv-blocks",
        160,
        "--max-model-len",
        512,
        "--max-num-seqs",
        8,
        "--dtype",
        "float32",
    )
    shown = run(
        *("calibrate", "--out", path, "--rounds", 1, "--cpu-time", "--note", "test"),
        *("--disk", tmp_path, *size),
    ).output
    assert "relative error of held-out steps" in shown
    assert "K and V of a token: 2,048 bytes" in shown
    assert {*tmp_path.iterdir()} == {path, azure}, "of the disk's blocks nothing is left"
    record = json.loads(path.read_text())
    assert (record["kind"], record["machine"], record["model"]) == ("measured", "test", "tiny")
    assert list(record["seconds_per"]) == list(FEATURES)
    assert 0 < record["errors"]["median"] <= record["errors"]["p90"]
    assert record["engine"]["num_blocks"] == 160
    assert record["seconds_per"]["copied_block"] > 0
    assert record["kv_bytes_per_token"] == 2048
    assert record["disk"]["bandwidth"] > 0 <= record["disk"]["latency"]
    tiers = ("--kv-offload-bytes", 10**7, "--kv-offload-disk-bytes", 10**8)
    simulated = ("simulate", "--trace", azure, "--scheduler", "v1", "--calibration", path)
    assert "blocks stored" in run(*simulated, *tiers).output
    assert (
        "goodput"
        in run("simulate", "--trace", azure, "--scheduler", "v1", "--calibration", path).output
    )
    few = ("--num-kv-blocks", 3, "--max-num-seqs", 2)
    assert "shapes" in run("calibrate", "--out", path, *few, status=2).stderr


@pytest.mark.slow
def test_the_bundled_calibrations_work(azure: Path) -> None:
    for name in BUNDLED:
        assert (
            "goodput"
            in run("simulate", "--trace", azure, "--scheduler", "v1", "--calibration", name).output
        )
