"""What comes from elsewhere is named by its bytes: actions by commit, packages by hash."""

import importlib.util
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
EACH_WORKFLOW = pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)


def parse(file: Path) -> dict[str, Any]:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def requirements(name: str) -> dict[str, tuple[str, int]]:
    """Version and number of hashes of each package that a requirements file pins."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        pin = re.fullmatch(r"([\w.-]+)==([\w.]+)(?:\s*;[^-]+)?((?:\s+--hash=sha256:[0-9a-f]{64})*)\s*", line)
        assert pin, f"{name}: {line[:80]!r} is not a pin"
        package, version, hashes = pin.groups()
        key = re.sub(r"[-_.]+", "-", package).lower()
        assert key not in found, f"{name}: {package} twice"
        found[key] = (version, len(hashes.split()))
    return found


@EACH_WORKFLOW
def test_every_action_is_pinned_by_its_commit_and_names_its_version(file: Path) -> None:
    uses = re.findall(r"^\s*(?:- )?uses:(.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    jobs = parse(file)["jobs"].values()
    assert len(uses) == sum("uses" in each for job in jobs for each in [job, *job.get("steps", [])])
    for each in uses:
        if each.startswith(" ./.github/workflows/"):  # this repository's own, at the same commit
            continue
        assert re.fullmatch(r" [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each), each


@EACH_WORKFLOW
def test_a_workflow_may_only_read_and_keeps_no_credentials(file: Path) -> None:
    workflow = parse(file)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        for step in job.get("steps", []):
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_only_the_job_that_deploys_may_write_and_it_only_deploys() -> None:
    writers = {
        (file.stem, name): job
        for file in WORKFLOWS
        for name, job in parse(file)["jobs"].items()
        if "permissions" in job
    }
    assert set(writers) == {("book", "deploy"), ("ci", "publish")}
    deploy = writers["book", "deploy"]
    assert deploy["permissions"] == {"pages": "write", "id-token": "write"}
    assert deploy["needs"] == "build"
    (step,) = deploy["steps"]
    assert step["uses"].startswith("actions/deploy-pages@")


def test_only_a_green_main_is_published() -> None:
    jobs = parse(next(file for file in WORKFLOWS if file.stem == "ci"))["jobs"]
    publish = jobs.pop("publish")
    assert publish["uses"] == "./.github/workflows/book.yml"
    assert set(publish["needs"]) == set(jobs), "every job of ci"
    assert "github.ref == 'refs/heads/main'" in publish["if"]
    assert "github.event_name == 'push'" in publish["if"]
    assert any(step.get("run") == ".ci/run" for step in jobs["gate"]["steps"]), "the gate itself, not another one"
    book = parse(next(file for file in WORKFLOWS if file.stem == "book"))
    assert list(book[True]) == ["workflow_call"], "`on` is True in YAML 1.1"


def test_every_pinned_package_but_torch_has_a_hash() -> None:
    pinned, hashed = requirements("constraints.txt"), requirements(".ci/requirements-hashed.txt")
    del pinned["torch"]
    assert {name: version for name, (version, _) in hashed.items()} == {
        name: version for name, (version, _) in pinned.items()
    }
    assert not [name for name, (_, hashes) in hashed.items() if not hashes]


def test_the_hashes_are_those_for_the_jobs_that_ask_for_them() -> None:
    spec = importlib.util.spec_from_file_location("hashes", ROOT / ".ci" / "hashes.py")
    assert spec is not None
    assert spec.loader is not None
    hashes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hashes)
    asking = [
        job
        for file in WORKFLOWS
        for job in parse(file)["jobs"].values()
        if any(re.search(r"HASHED=1|^\.ci/run", step.get("run", "")) for step in job.get("steps", []))
    ]
    pythons = {
        step["with"]["python-version"]
        for job in asking
        for step in job["steps"]
        if "python-version" in step.get("with", {})
    }
    assert {job["runs-on"] for job in asking} == {"ubuntu-latest"}
    assert pythons == {f"{major}.{minor}" for major, minor in hashes.PYTHONS}


def test_the_book_s_packages_have_hashes() -> None:
    lock = json.loads((ROOT / "tools" / "book" / "web" / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert not [name for name, package in packages.items() if not package["integrity"].startswith("sha512-")]


def test_what_is_locked_names_no_host() -> None:
    for name in ("constraints.txt", ".ci/requirements-hashed.txt", "tools/book/web/package-lock.json"):
        assert "://" not in (ROOT / name).read_text(encoding="utf-8"), name


# --- what is shipped --------------------------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_the_wheel_has_everything_but_the_tests(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        tmp_path,
        ROOT,
    ]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("mini_vllm_course-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert not [name for name in names if Path(name).name.startswith(("test_", "conftest"))]
    assert {name.split("/")[0] for name in names} == {"labkit", "mini_vllm"}
    shipped = {"mini_vllm", "labkit"}
    tracked = subprocess.run(["git", "ls-files", *shipped], cwd=ROOT, check=True, capture_output=True, text=True)
    assert names == {name for name in tracked.stdout.split() if not Path(name).name.startswith(("test_", "conftest"))}


def test_no_tool_and_no_benchmark_imports_a_test() -> None:
    for file in (*(ROOT / "tools").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")):
        if not file.name.startswith(("test_", "conftest")):
            lines = [line for line in file.read_text(encoding="utf-8").splitlines() if "import" in line.split()]
            assert not [line for line in lines if ".test_" in line or "import test_" in line], file
