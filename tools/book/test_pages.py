"""The pages that newcomers look for: home and where it leads, your own model, vLLM, Docker, 404, and other readers.

What needs the built site is in test_site.py.
"""

import inspect
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from mini_vllm import errors
from mini_vllm.cli.common import ENGINE_OPTIONS
from mini_vllm.cli.serve import Access, Disaggregation, Limits, serve
from mini_vllm.models import checkpoint
from mini_vllm.models.compressed_tensors import read_quantization_config
from mini_vllm.models.config_fields import MODELS, check_config
from tools.book import check
from tools.book.check import DOCS, ROOT
from tools.test_claims import rows

HOME, MODEL, VLLM = DOCS / "index.md", DOCS / "own-model.md", DOCS / "vllm.md"
DOCKERFILE = ROOT / "Dockerfile"
LINK = re.compile(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)")


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def section(page: Path, heading: str) -> str:
    return read(page).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


# --- home, and where it leads -----------------------------------------------------------------------------------------


def leads_to(page: Path) -> set[str]:
    """The pages of docs/ that the text of a page links to."""
    targets = [(page.parent / path).resolve() for path in LINK.findall(read(page))]
    return {target.relative_to(DOCS).as_posix() for target in targets if DOCS in target.parents}


def two_clicks() -> set[str]:
    one = leads_to(HOME)
    return one.union(*(leads_to(DOCS / page) for page in one))


def test_one_click_leads_from_home_to_what_the_engine_shows() -> None:
    pages = ("ask", "first-lab", "serving", "calculators", "load", "closing", "own-model", "vllm", "docker", "how-long")
    assert {f"{page}.md" for page in pages} <= leads_to(HOME)


@pytest.mark.parametrize(
    ("page", "heading"),
    [
        ("first-lab.md", "Your first lab, in five minutes"),
        ("phase-03-continuous-batching-scheduler/guide.md", "Preemption"),
        ("own-model.md", "On a GPU"),
        ("own-model.md", "Which families"),
        ("vllm.md", "Scheduler and memory"),
        ("install.md", "Windows and macOS"),
        ("docker.md", "With a GPU"),
        ("glossary.md", "KV cache and paging"),
    ],
)
def test_two_clicks_lead_from_home_to_what_newcomers_look_for(page: str, heading: str) -> None:
    assert page in two_clicks()
    assert re.search(rf"^##? {heading}$", read(DOCS / page), re.MULTILINE)


def test_the_first_lab_is_graded_where_it_stands() -> None:
    assert 'class="lab-cell"' in read(DOCS / "first-lab.md")


def test_home_begins_with_two_sentences_and_the_engine_at_work() -> None:
    before, figure, after = read(HOME).partition('<div class="kv-timeline"')
    lead = re.sub(r"^#.*$|<[^>]*>|^\[.*$", "", before, flags=re.MULTILINE)
    assert len(re.findall(r"\.(?=\s|$)", lead)) == 2
    cards = after.partition('class="home-cards"')[2].partition("</div>")[0]
    assert len(re.findall(r"^- \*\*\[", cards, re.MULTILINE)) == 5
    assert figure


def test_the_recorded_figures_say_what_vllm_read() -> None:
    """The step, what was found and what of it was never computed; all traces in which that happens are played."""
    recorded = ROOT / "traces/vllm-0.33.0/quirk.jsonl"
    for line in read(recorded).splitlines():
        trace = json.loads(line)
        figure = json.loads(read(DOCS / "figures" / f"{trace['name'].replace('_', '-')}.json"))
        resumed = next(step for step in trace["steps"] if "resumed" in step)
        [[name, found]], computed = resumed["resumed"], trace["kv_violations"][0]["pos"]
        assert figure["caption"] == (
            f"vLLM 0.33.0: in step {resumed['step']}, {name} finds {found} tokens in the prefix cache, "
            f"and {found - computed} of them were never computed"
        )
        assert f"figures/{trace['name'].replace('_', '-')}.json" in read(HOME)
        assert resumed["step"] == trace["kv_violations"][0]["step"]


@pytest.mark.parametrize("url", ["", "https://host.example/fork/mini_vllm"])
def test_a_fork_names_its_repository_in_one_place(url: str) -> None:
    pytest.importorskip("mkdocs", reason="pip install -e '.[docs]' brings mkdocs")
    from tools.book import hooks

    for page in (HOME, DOCS / "install.md"):
        made: Any = SimpleNamespace(file=SimpleNamespace(src_uri=page.name, generated_by=None), meta={})
        config: Any = SimpleNamespace(repo_url=url)
        files: Any = SimpleNamespace(get_file_from_path=lambda path: path)
        text = hooks.on_page_markdown(read(page), made, config, files)
        assert ("git clone " in text) == (f"git clone {url}\n" in text) == bool(url), page.name


def test_pages_of_the_start_say_what_readers_call_them() -> None:
    said = [re.findall(r"^<!-- search: (.+?) -->$", read(DOCS / uri), re.M | re.S) for _, uri in check.nav()["Start"]]
    assert all(len(comments) == 1 for comments in said)


# --- plain Markdown ---------------------------------------------------------------------------------------------------


def test_a_code_host_shows_no_lists_of_attributes() -> None:
    """Nor what only one renderer knows: admonitions and snippets."""
    for file, _ in check.prose():
        text = re.sub(r"^(`{3,}).*?^\1$|`[^`\n]*`|\$\$.*?\$\$", "", read(file), flags=re.MULTILINE | re.DOTALL)
        found = re.findall(r"\{:? ?[.#][^}]*\}|\{: [^}]*\}|^(?:!!!|\?\?\?) |^--8<--", text, re.MULTILINE)
        assert not found, check.name_of(file)


def test_summary_and_book_toml_are_mdbook_s() -> None:
    """Only what mdBook reads in a SUMMARY.md: its title, titles of parts, and links to files, each once."""
    book = tomllib.loads(read(ROOT / "book.toml"))
    folder = ROOT / book["book"]["src"]
    first, *lines = [line for line in read(folder / "SUMMARY.md").splitlines() if line]
    assert first == "# Summary"
    links = [match for line in lines if (match := re.fullmatch(r"- \[([^\[\]]+)\]\(([\w./-]+\.md)\)", line))]
    assert all(line.startswith("# ") for line in lines if not line.startswith("- "))
    assert len(links) == sum(line.startswith("- ") for line in lines) == len({link[2] for link in links})
    assert all((folder / link[2]).is_file() for link in links)
    assert f"{book['build']['build-dir'].split('/')[0]}/" in read(ROOT / ".gitignore").split()


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("mdbook") is None, reason="mdBook is not installed")
def test_mdbook_builds_every_page(tmp_path: Path) -> None:
    run = subprocess.run(["mdbook", "build", "--dest-dir", str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for _, uri in [entry for entries in check.nav().values() for entry in entries]:
        assert (tmp_path / uri).with_suffix(".html").is_file(), uri


# --- your own model -------------------------------------------------------------------------------------------------


def test_the_families_are_those_of_the_table_of_models() -> None:
    assert {row[0].strip("`") for row in rows(section(MODEL, "Which families"))} == {*MODELS}


def test_the_memory_of_a_model_follows_from_its_sizes() -> None:
    """Two bytes a parameter; a key and a value of 8 heads of 128 in each layer."""
    sizes = {row[0]: row[1:] for row in rows(section(DOCS / "calculators.md", "Where the numbers are from"))}
    table = rows(section(MODEL, "Does it fit into the memory?"))[:4]
    assert len(table) == 4
    for name, weights, token, context in table:
        layers, parameters = int(sizes[name][0]), float(sizes[name][5])
        per_token = 2 * layers * 8 * 128 * 2
        said = (weights, token, context)
        assert said == (f"{2 * parameters:.1f}", f"{per_token // 1024}", f"{per_token * 4096 / (1 << 30):.2f}"), name


def folder_with(folder: Path, *names: str, **config: Any) -> Path:
    for name in names:
        (folder / name).write_text("{}", encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"} | config), encoding="utf-8")
    return folder


def angles(folder: Path) -> None:
    from mini_vllm.models.layers.rotary import rope_parameters

    rope_parameters(SimpleNamespace(rope_scaling={"rope_type": "proportional", "factor": 2.0}, rope_theta=1e4))  # type: ignore[arg-type]


def tensors(folder: Path) -> None:
    from mini_vllm.models.weights import Checkpoint

    Checkpoint(checkpoint.resolve_model("tiny"), headers_only=True).finish()


def memory(folder: Path) -> None:
    from mini_vllm.config import EngineConfig
    from mini_vllm.worker.fit import forms_of

    with (
        patch("mini_vllm.worker.device.available_host_memory", return_value=1000),
        patch("mini_vllm.worker.memory.available_host_memory", return_value=1000),
        patch("torch.cuda.is_available", return_value=False),
    ):
        forms_of(EngineConfig("tiny"))


REFUSED: dict[str, Callable[[Path], object]] = {  # by how the row begins
    "another `model_type`": lambda f: checkpoint.load_hf_config(folder_with(f, model_type="gemma3")),
    "weights in": lambda f: checkpoint.weight_files(folder_with(f, "pytorch_model.bin")),
    "a GGUF file": lambda f: checkpoint.weight_files(folder_with(f, "model.gguf")),
    "AWQ": lambda f: read_quantization_config(f / "config.json", {"quant_method": "awq"}),
    "code in": lambda f: checkpoint.load_hf_config(folder_with(f, auto_map={"AutoModel": "model.Model"})),
    "an adapter": lambda f: checkpoint.load_hf_config(folder_with(f, "adapter_config.json")),
    "rotary": angles,
    "weights that are larger": memory,
    "a tensor": tensors,
    "a value": lambda f: check_config(f / "config.json", {"model_type": "llama", "vocab_size": -1}),
}


@pytest.mark.parametrize("row", rows(section(MODEL, "What is refused")), ids=lambda row: row[0][:20])
def test_what_is_refused_is_refused_as_the_page_says(row: list[str], tmp_path: Path) -> None:
    if row[0].startswith(("rotary", "a tensor", "weights that")):
        pytest.importorskip("torch")
    refuse = next(call for begins, call in REFUSED.items() if row[0].startswith(begins))
    named = re.match(r"`(\w+)`", row[1])
    assert named
    with pytest.raises(getattr(errors, named[1])):
        refuse(tmp_path)


# --- beside vLLM ------------------------------------------------------------------------------------------------------


def options_of_serve() -> set[str]:
    own = {name for each in (serve, Access, Limits, Disaggregation) for name in inspect.signature(each).parameters}
    names = {name.replace("enable_", "no_") for name in ENGINE_OPTIONS} | own
    return {"--" + name.replace("_", "-") for name in names}


def test_the_options_of_the_page_are_those_of_the_command() -> None:
    text = section(VLLM, "From `vllm serve` to `mini-vllm serve`")
    same = text.partition("These have another name")[0]
    ours = " ".join(row[1] for row in rows(text))
    found = set(re.findall(r"--[a-z][a-z-]+", same + ours + section(MODEL, "Does it fit into the memory?")))
    assert len(found) > 20
    assert found <= options_of_serve()


# --- Docker -----------------------------------------------------------------------------------------------------------


def test_the_dockerfile_is_short_and_names_what_there_is() -> None:
    text = read(DOCKERFILE)
    assert len(text.splitlines()) <= 20
    for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE):
        assert all((ROOT / name).exists() for name in line.split()), line
    pyproject = tomllib.loads(read(ROOT / "pyproject.toml"))
    project = pyproject["project"]
    extras = re.search(r"'\.\[([\w,]+)\]'", text)
    assert extras
    assert {*extras[1].split(",")} <= {*project["optional-dependencies"]}
    assert re.findall(r"torch==\S+", text) == re.findall(r"^torch==\S+", read(ROOT / "constraints.txt"), re.MULTILINE)
    assert f"EXPOSE {inspect.signature(Access).parameters['port'].default.default}" in text
    for packages in tomllib.loads(read(ROOT / "pyproject.toml"))["tool"]["hatch"]["build"]["targets"]["wheel"][
        "packages"
    ]:
        assert f"COPY {packages} {packages}" in text
    named = [project["readme"], *project["license-files"]]
    assert all(re.search(rf"^COPY .*\b{re.escape(name)} ", text, re.MULTILINE) for name in named)


@pytest.mark.parametrize("command", re.findall(r"^docker (?:run|build) .+$", read(DOCS / "docker.md"), re.MULTILINE))
def test_the_port_of_the_container_is_open_to_this_machine_alone(command: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in re.findall(r"(?:-p|--publish) (\S+)", command))
    assert set(re.findall(r"mini-vllm serve (.*)$", command)) <= {""} or "--host 0.0.0.0" in command


@pytest.mark.nightly
def test_the_image_is_built_and_answers() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True).returncode:
        pytest.skip("no Docker daemon is running")
    build = subprocess.run(
        [docker, "build", "-q", "-t", "mini-vllm-test", "."], cwd=ROOT, capture_output=True, text=True
    )
    assert build.returncode == 0, build.stderr[-4000:]
    call = [docker, "run", "--rm", "mini-vllm-test", "mini-vllm", "demo"]
    run = subprocess.run(call, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "KV" in run.stdout


# --- 404 --------------------------------------------------------------------------------------------------------------


def test_the_page_for_a_wrong_address_leads_to_pages_that_are_there() -> None:
    text = read(ROOT / "tools/book/theme/404.html")
    links = re.findall(r'(?:href|action)="([^"{]+)"', text)
    assert len(links) > 5
    assert all((DOCS / link).with_suffix(".md").is_file() for link in links)
    assert not re.search(r'<(?:link|script|img)[^>]*(?:src|href)="', text), "it lies in any folder, so it needs no file"
