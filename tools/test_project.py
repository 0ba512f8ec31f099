"""What surrounds the code says the same everywhere: name, version, authors, links, dev container, issue forms."""

import json
import re
import subprocess
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import mini_vllm

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_there_is_one_version() -> None:
    assert PROJECT["version"] == mini_vllm.__version__ == CITATION["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", PROJECT["version"])


def test_a_version_that_has_a_tag_is_in_the_changelog() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("tags are known in a clone only")
    tags = subprocess.run(["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for tag in tags.split():
        assert re.search(rf"^## \[{re.escape(tag[1:])}\] - \d{{4}}-\d\d-\d\d$", read("CHANGELOG.md"), re.MULTILINE), tag


def test_the_authors_are_the_same() -> None:
    (author,) = PROJECT["authors"]
    assert [each["name"] for each in CITATION["authors"]] == [author["name"]]
    assert f"Copyright (c) 2026 {author['name']}" in read("LICENSE")


def test_links_lead_to_hosts_that_exist_whoever_hosts_the_repository() -> None:
    home = yaml.safe_load(read("mkdocs.yml"))["repo_url"]
    for name, url in PROJECT["urls"].items():
        if name == "Repository":
            assert url == home, "mkdocs.yml's repo_url is the repository's home"
        else:
            assert url.startswith(("https://github.com/vllm-project/vllm", "https://arxiv.org/abs/")), name


def test_the_distribution_is_installed_from_the_clone() -> None:
    """Under its own name on no index, and no line installs the other project of a like name."""
    name = PROJECT["name"]
    assert name not in ("mini-vllm", "mini_vllm")
    for page in ("README.md", "docs/install.md"):
        assert f"`{name}`" in read(page), page
    for file in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "Makefile", *ROOT.glob(".*/**/*.json")]:
        for line in re.findall(r"pip install [^`\n]*", file.read_text(encoding="utf-8")):
            assert not re.search(r"\bmini[-_]vllm", line), f"{file.name}: {line}"
    nested = [each for extra in PROJECT["optional-dependencies"].values() for each in extra if "vllm" in each]
    assert all(each.startswith(f"{name}[") for each in nested)
    assert set(PROJECT["scripts"]) == {"mini-vllm", "lab"}


def test_after_the_demo_the_first_lab_can_be_watched() -> None:
    recipe = read("Makefile").partition("$(LIGHT): ")[2].partition("\n\n")[0]
    assert "-e '.[labs]'" in recipe
    brought = [re.split(r"[^\w-]", each)[0] for each in PROJECT["optional-dependencies"]["labs"]]
    assert {"pytest", "watchfiles"} <= {*brought}
    readme = read("README.md").partition("\n## Begin\n")[2]
    steps = [readme.index(f"\n    {step} ") for step in ("make demo", "lab watch 03.1", "lab diff 03.1", "lab run 03")]
    assert steps == sorted(steps)


def test_the_dev_container_runs_the_demo() -> None:
    container = json.loads(read(".devcontainer/devcontainer.json"))
    assert container["postCreateCommand"] == "make demo"
    image = re.fullmatch(r"python:(\d+)\.(\d+)-\w+", container["image"])
    assert image
    assert (int(image[1]), int(image[2])) >= tuple(map(int, PROJECT["requires-python"].removeprefix(">=").split(".")))


@pytest.mark.parametrize("file", [form for form in FORMS if form.stem != "config"], ids=lambda file: file.stem)
def test_an_issue_form_asks_for_what_it_needs(file: Path) -> None:
    form = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    ids = [field["id"] for field in form["body"]]
    assert len(ids) == len({*ids})
    for field in form["body"]:
        assert field["type"] in ("input", "textarea", "dropdown")
        assert field["attributes"]["label"]
        assert field["type"] != "dropdown" or all(isinstance(each, str) for each in field["attributes"]["options"])
    assert any(field.get("validations", {}).get("required") for field in form["body"])


def test_without_the_tools_pytest_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_from_file_location("root_conftest", ROOT / "conftest.py")
    assert spec
    assert spec.loader
    conftest = module_from_spec(spec)
    spec.loader.exec_module(conftest)
    monkeypatch.setattr(conftest, "find_spec", lambda name: None)
    source = pytest.Config.ArgsSource
    with pytest.raises(pytest.UsageError, match="`make test` installs"):
        conftest.pytest_configure(SimpleNamespace(args_source=source.TESTPATHS))
    conftest.pytest_configure(SimpleNamespace(args_source=source.ARGS))  # the labs are graded
