"""What README.md and three pages of the book say of sizes and numbers is computed here, and compared.

A number on these pages has to be part of a CLAIM, a sentence in which the names stand for what is computed from the
repository. A number that no claim has is refused, so a new one cannot be added unchecked. Lab ids, phases and the
arguments of example commands are looked up instead. The rings that docs/where-things-are.md and the package draw are
compared, too. CITATION.cff and some other pages have some of the same claims; the other figures of docs/measured.md
come from the reports (test_book.py). What needs torch is read as text; it is imported only to see whether that was read
rightly.
"""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from labkit.compare.replay import find_trace_files, read_traces
from labkit.labs.catalog import VLLM, labs
from mini_vllm.cli.commands import app
from mini_vllm.policies.registry import SCHEDULERS
from tools.check_size import HEART, ROOT, measure_package
from tools.mutation import planted_bugs, planted_kernel_bugs

PACKAGE = ROOT / "mini_vllm"
README, INDEX, MEASURED = ROOT / "README.md", ROOT / "docs/index.md", ROOT / "docs/measured.md"
LIBRARY, MAP = ROOT / "docs/library.md", ROOT / "docs/where-things-are.md"
BACKENDS, FAMILY = ROOT / "docs/api/engine.md", ROOT / "docs/api/schedulers.md"
PAGES = (README, INDEX, LIBRARY, MAP)  # on which every number is checked
LABS = tuple(labs())
ALSO = (MEASURED, BACKENDS, *(ROOT / name for name in ("docs/install.md", "docs/vllm.md", "CITATION.cff")))  # have some
RINGS = {  # from within: the files, and the folders with what other rings have not of them
    "heart": HEART,
    "step": ("engine", "worker", "light", "attention", "native", "parallel", "models"),
    "text": ("config.py", "params.py", "errors.py", "frontend"),
    "features": ("policies", "offload", "spec_decode", "structured"),
    "product": ("serving", "cli", "observe", "load", "simulator"),
}
STEP = ("worker/model_runner.py", "attention/reference.py", "models/qwen3.py")  # of the bundled model
ROADS = {  # where each starts; imports are followed from there
    "numpy": (*HEART, "light/numpy_executor.py"),
    "torch": (*HEART, *STEP),
    "text": (*HEART, *STEP, "worker/local_executor.py", "engine/llm.py"),
}
ABOUT = 0.03  # how far a number may be off that follows the word "about"

CLAIMS = (
    "{core_files} files with {core_lines} source lines",
    "{core_files} files decide a step, with {core_lines} source lines.",
    "{core_files} files decide a step, with {core_lines} source lines. {step_files} files with {step_lines} more "
    "compute it: the model runner, plain attention and the bundled model, with all that they import. "
    "The whole package has about {package_lines}.",
    "| a step is decided | the heart alone | {core_files} | {core_lines} |",
    "`light/numpy_executor.py` | {numpy_files} | {numpy_lines} |",
    "`models/qwen3.py` | {torch_files} | {torch_lines} |",
    "`engine/llm.py` | {text_files} | {text_lines} |",
    "{traces} runs of the scheduler of vLLM {vllm} were recorded, and {traces} of {traces} are replayed: {equal} are "
    "equal step for step. {apart} are kept apart",
    "{equal} of {traces} recorded runs of vLLM {vllm}'s scheduler come out the same here, step for step. In the other "
    "{apart}, vLLM reads memory that was never written.",
    "The decisions are those of vLLM {vllm}. This is not measured but tested, on {traces} recorded traces. {traces} of "
    "{traces} are replayed: {equal} are equal step for step, and {apart} are kept apart. In these {apart}, vLLM",
    "On {equal} of the {traces} recorded traces the scheduler makes the decisions of vLLM {vllm}'s V1 scheduler with "
    "`async_scheduling=False`, step for step. On the other {apart}",
    "{labs} labs in {phases} phases",
    "{apart} runs in which vLLM reads what was never written",
    "In step {quirk_preempted} `B` is given a chunk",
    "`B` comes back in step {quirk_resumed} with {quirk_found} tokens from the prefix cache. It has computed "
    "{quirk_computed} of them.",
    "the labs of {light_phases} of the {phases} phases need Python alone",
    "a weekend or {weeks} weeks",
    "Python {python} or newer",
    "Node.js {node} or newer",
    "{backends} back ends compute the same attention",
    "Tests check {laws} laws.",
    "torch=={torch}",
    "It is one line, and it takes {first_minutes} minutes.",
    "CC BY {cc}",
    "{paged} % of the KV memory's slots hold a token if the cache is paged. It is {unpaged} % if",
    "{gpu_decodes} decodes of {gpu_context} tokens read the cache at {gpu_copy} % of a copy's bandwidth",
    "{figure_requests} requests share a budget of {figure_budget} tokens a step. `a` has a prompt of {figure_prompt} "
    "tokens, so its prompt is computed in {figure_chunks} steps. `b` begins with the same tokens as `a`, so it finds "
    "the first {figure_hit} of them",
)

WORDS = ("nought", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
DIGITS = r"\d[\d,]*(?:\.\d+)*"
# "one" is a pronoun more often than a number.
NUMBER = rf"(?:{DIGITS}|{'|'.join(WORDS[2:])}|(?:dozen|hundred|thousand|million|billion)s?|twenty|fifty)"
IN_TEXT = re.compile(rf"(?<![\w.-]){NUMBER}(?!\w)", re.IGNORECASE)
LAB, PHASE = re.compile(r"\b0\d\.\d+\b"), re.compile(r"(?<![\d.])0\d\b(?!\.\d)|(?<=phase )\d\b|(?<=^\| )\d(?= )", re.M)
ARGUMENT = re.compile(r"--[\w-]+[= ][\d.]+|\b\w+=[\d.]+")  # --max-tokens 10, temperature=0.0


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def section(page: Path, heading: str) -> str:
    """What stands below a heading, up to the next one."""
    return read(page).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def keys_of(file: str, name: str) -> list[str]:
    """The keys of a mapping that a module defines, without importing it."""
    for node in ast.parse(read(ROOT / file)).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            assert isinstance(node.value, ast.Dict)
            return [ast.literal_eval(key) for key in node.value.keys if key is not None]
    raise KeyError(f"{file} has no {name}")


def file_of(module: str) -> str | None:
    """The file of a module of the package, as measure_package() names it; None for what is no module."""
    place = PACKAGE.joinpath(*module.split(".")[1:])
    for path in (place / "__init__.py", place.with_suffix(".py")):
        if path.is_file():
            return path.relative_to(PACKAGE).as_posix()
    return None


def module_of(file: str) -> str:
    return ".".join(["mini_vllm", *Path(file).with_suffix("").parts]).removesuffix(".__init__")


def imports_of(node: ast.AST) -> Iterator[str]:
    """The names of the package that are imported when the module is loaded, and not for types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
            yield str(child.module)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            yield from imports_of(ast.Module(child.orelse, []))
        elif not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from imports_of(child)


@cache
def loaded_with(*files: str) -> frozenset[str]:
    """These files of the package and all that is loaded with them: what they import, and the folders' own modules."""
    found: set[str] = set()
    names = {module_of(file) for file in files}
    while names:
        name = names.pop()
        file = file_of(name) if name.partition(".")[0] == "mini_vllm" else None
        if file is not None and file not in found:
            found.add(file)
            names |= {*imports_of(ast.parse(read(PACKAGE / file))), name.rpartition(".")[0]}
    return frozenset(found)


@cache
def sizes() -> dict[str, int]:
    """Source lines of the files of the package that have any."""
    return {file.path: file.num_lines for file in measure_package(PACKAGE) if file.num_lines}


def length(name: str, files: Iterable[str]) -> dict[str, int]:
    """How many files there are that have source lines, and how many lines."""
    lines = [sizes()[file] for file in files if file in sizes()]
    return {f"{name}_files": len(lines), f"{name}_lines": sum(lines)}


@cache
def facts() -> dict[str, str | float]:
    """What is so, by the names that CLAIMS use: numbers, and versions as text."""
    traces = [trace for file in find_trace_files(ROOT / "traces" / f"vllm-{VLLM}") for trace in read_traces(file)]
    num_apart = sum(bool(trace.get("kv_violations")) for trace in traces)  # test_vllm_parity.py says what holds of them
    by_phase = {lab.id[:2]: [each for each in LABS if each.id[:2] == lab.id[:2]] for lab in LABS}
    waste = read(ROOT / "benchmarks/results/waste.md")
    paged, unpaged = (
        re.search(rf"^\| {kind} \| ([\d.]+) ", waste, re.MULTILINE)
        for kind in ("blocks of 16", "a stretch of 8,192 tokens")
    )
    gpu = re.search(
        r"^\| decode (64) x (8192) \|[^|]*\|[^|]*\| (\d+)% \|",
        read(ROOT / "benchmarks/results/attention_cuda.md"),
        re.MULTILINE,
    )
    figure = json.loads(read(ROOT / "docs/figures/first-run.json"))
    prompts = {request["id"]: len(request["prompt"]) for request in figure["requests"]}
    quirk = json.loads(read(ROOT / "docs/figures/quirk-005.json"))
    resumed = next(step for step in quirk["steps"] if "resumed" in step)
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    node = json.loads(read(ROOT / "tools/book/web/package.json"))["engines"]["node"]
    torch = re.search(r"^torch==(.*)$", read(ROOT / "constraints.txt"), re.MULTILINE)
    first = re.search(r'data-minutes="(\d+)"', read(ROOT / "docs/first-lab.md"))
    licence = re.search(r"CC BY (\d\.\d)", read(ROOT / "LICENSE-docs"))
    assert paged
    assert unpaged
    assert gpu
    assert torch
    assert first
    assert licence
    return {
        **length("core", HEART),
        **length("step", loaded_with(*STEP) - {*HEART}),
        **{key: number for name, files in ROADS.items() for key, number in length(name, loaded_with(*files)).items()},
        "package_lines": sum(sizes().values()),
        "traces": len(traces),
        "equal": len(traces) - num_apart,
        "apart": num_apart,
        "vllm": VLLM,
        "labs": len(LABS),
        "phases": len(by_phase),
        "light_phases": sum(not any(lab.needs for lab in of_phase) for of_phase in by_phase.values()),
        "weeks": len(re.findall(r"^\*\*Week \d", read(ROOT / "docs/how-to-use.md"), re.MULTILINE)),
        "torch": torch[1],
        "first_minutes": float(first[1]),
        "python": project["requires-python"].removeprefix(">="),
        "node": float(node.removeprefix(">=")),
        "backends": len(keys_of("mini_vllm/attention/registry.py", "BACKENDS")),
        "laws": len(re.findall(r"^- \*\*\w+\.\*\*", section(LIBRARY, "What to rely on"), re.MULTILINE)),
        "cc": licence[1],
        **{
            name: float(number)
            for name, number in zip(("gpu_decodes", "gpu_context", "gpu_copy"), gpu.groups(), strict=True)
        },
        "unpaged": float(unpaged[1]),
        "paged": float(paged[1]),
        "figure_requests": len(prompts),
        "figure_budget": figure["config"]["max_num_batched_tokens"],
        "figure_prompt": prompts["a"],
        "figure_chunks": sum(step["computed"].get("a", prompts["a"]) < prompts["a"] for step in figure["steps"]),
        "quirk_preempted": next(step["step"] for step in quirk["steps"] if step.get("preempted") == ["B"]),
        "quirk_resumed": resumed["step"],
        "quirk_found": dict(resumed["resumed"])["B"],
        "quirk_computed": quirk["kv_violations"][0]["pos"],
        "figure_hit": next(hit for step in figure["steps"] for name, hit in step.get("new", ()) if name == "b"),
    }


def rows(text: str) -> list[list[str]]:
    """The rows of all tables of a text, without their heads."""
    lines = [*text.splitlines(), ""]
    is_rule = [bool(re.fullmatch(r"\|[-:| ]+\|", line)) for line in lines]
    body = [line for i, line in enumerate(lines[:-1]) if line[:1] == "|" and not is_rule[i] and not is_rule[i + 1]]
    return [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in body]


# --- every number is a claim that is true ---------------------------------------------------------------------------


def plain(text: str) -> str:
    """A page as one line, without figures and excerpts, what is no text, and numbers that are names or arguments."""
    made = r"<!-- (figure|excerpt): .*?<!-- /\1 -->"
    text = re.sub(rf"{made}|<!--.*?-->|<[^>]*>", " ", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)|https?://[^\s`]*|[*\[\]]", "", text)
    for label in (LAB, PHASE, ARGUMENT):
        text = label.sub("", text)
    return " ".join(text.split())


def template(claim: str) -> re.Pattern[str]:
    """A claim as a pattern, with a group for each name in turn."""
    parts = re.split(r"\{(\w+)\}", claim)
    return re.compile("".join(f"({NUMBER})" if i % 2 else re.escape(part) for i, part in enumerate(parts)), re.I)


def is_true(said: str, fact: str | float, *, about: bool) -> bool:
    if isinstance(fact, str):
        return said == fact
    number = WORDS.index(said.lower()) if said.lower() in WORDS else float(said.replace(",", ""))
    return abs(number - fact) <= ABOUT * fact if about else number == fact


def wrong(text: str, *, only_claims: bool = False) -> Iterator[str]:
    """What is not so, and the numbers that no claim has."""
    text, known = plain(text), set()
    for claim in CLAIMS:
        for match in template(claim).finditer(text):
            for number, name in enumerate(re.findall(r"\{(\w+)\}", claim), start=1):
                start = match.start(number)
                known.add(start)
                if not is_true(match[number], facts()[name], about=text[:start].endswith("about ")):
                    yield f"{match[number]} in {match[0]!r}: {name} is {facts()[name]}"
    for match in IN_TEXT.finditer(text):
        if not only_claims and match.start() not in known:
            around = text[max(0, match.start() - 60) : match.end() + 40]
            yield f"{match[0]} in {around!r}: no claim in tools/test_claims.py computes it"


@pytest.mark.parametrize("page", [*PAGES, *ALSO], ids=lambda page: page.name)
def test_every_number_is_computed(page: Path) -> None:
    found = list(wrong(read(page), only_claims=page in ALSO))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.slow
def test_every_claim_is_made_and_fails_when_a_figure_is_changed(claim: str) -> None:
    """Each number of each claim in turn becomes another one, which must be noticed."""
    found = [
        (text, match) for text in map(plain, map(read, [*PAGES, *ALSO])) for match in template(claim).finditer(text)
    ]
    assert found, "no page says this any more: take it out of CLAIMS"
    for text, match in found:
        for number in range(1, len(match.groups()) + 1):
            for other in ("17", "9,700", "eleven"):
                start, end = match.span(number)
                changed = text[:start] + other + text[end:]
                assert list(wrong(changed, only_claims=True)), f"{other} for {match[number]} in {match[0]!r}"


@pytest.mark.parametrize(
    "sentence",
    ["It has 17 modules.", "It has three modules.", "Some 9,000 lines.", "Hundreds of tests.", "Twice 3.5 MB."],
)
def test_a_number_without_a_claim_is_refused(sentence: str) -> None:
    (found,) = wrong(sentence)
    assert "no claim" in found


# --- names that stand for numbers: labs, GPUs, lists ----------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_labs_and_phases_exist(page: Path) -> None:
    text, ids = re.sub(r"\]\([^)]*\)", "", read(page)), {lab.id for lab in LABS}
    assert {*LAB.findall(text)} <= ids
    assert {number.zfill(2) for number in PHASE.findall(text)} <= {name[:2] for name in ids}


def test_the_table_of_phases_says_what_each_needs() -> None:
    needs = {"Python alone": (0, 0), "Python alone, but 05.3": (0.01, 0.5), "PyTorch, for most labs": (0.5, 1)}
    table = rows(section(README, "The course"))
    phases = [re.sub(r"\[(\d\d) .*", r"\1", row[0]) for row in table]
    assert phases == sorted({lab.id[:2] for lab in LABS})
    for phase, (_, _, said) in zip(phases, table, strict=True):
        heavy = [lab.id for lab in LABS if lab.id[:2] == phase and lab.needs]
        least, most = needs[said]
        assert least <= len(heavy) / sum(lab.id[:2] == phase for lab in LABS) <= most, phase
        assert LAB.findall(said) in ([], heavy), phase


def test_readme_is_short() -> None:
    assert len(read(README).splitlines()) <= 120


def test_the_tables_of_choices_have_each_choice() -> None:
    def names(page: Path, heading: str) -> list[str]:
        return [row[0].strip("`") for row in rows(section(page, heading))]

    assert names(BACKENDS, "The back ends") == keys_of("mini_vllm/attention/registry.py", "BACKENDS")
    assert names(FAMILY, "The family") == list(SCHEDULERS)


def test_commands_and_models_are_listed() -> None:
    text = " ".join(section(LIBRARY, "As a library").split())
    listed = text.partition("The command line has ")[2]
    commands = [command.callback.__name__.replace("_", " ") for command in app.registered_commands if command.callback]
    assert re.findall(r"`(?:mini-vllm )?(\w[\w ]*)`", listed) == commands
    families = re.search(r"The supported families are ([^.]*?),? and any other", text)
    assert families
    models = [name.removesuffix("_text") for name in keys_of("mini_vllm/models/config_fields.py", "MODELS")]
    assert sorted(name.lower().replace("-", "_") for name in re.findall(r"[A-Z][\w-]+", families[1])) == sorted(models)


def test_kernels_are_compiled_for_the_named_gpus() -> None:
    tree = ast.parse(read(ROOT / "tools/compile_kernels.py"))
    (targets,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TARGETS"
    )
    for page in (README, BACKENDS, MEASURED):
        assert {*re.findall(r"\bsm_(\d+)", read(page))} == {*map(str, targets)}, page.name


# --- where things are -----------------------------------------------------------------------------------------------


def drawn_tree() -> list[str]:
    return section(MAP, "The folders").partition("```text\n")[2].partition("\n```")[0].splitlines()


def places_of(line: str) -> list[str]:
    """The files and folders that a line of the tree names, before two spaces."""
    return re.split(r" {2,}", line.strip())[0].split()


def test_the_map_and_the_package_draw_the_rings() -> None:
    drawn: dict[str, list[str]] = {}
    for line in drawn_tree():
        if match := re.match(r"  ([A-Z]+): ", line):
            ring = drawn.setdefault(match[1].lower(), [])
        elif line.startswith("    "):
            ring += [place.rstrip("/") for place in places_of(line)]
    drawn["step"].remove("models/tiny")  # the model itself
    assert {name: sorted(places) for name, places in drawn.items()} == {
        name: sorted(places) for name, places in RINGS.items()
    }
    lines = (ast.get_docstring(ast.parse(read(PACKAGE / "__init__.py"))) or "").splitlines()
    text = " ".join(line.strip() for line in lines if line.startswith("    "))
    said = re.split(rf"\s*\b({'|'.join(RINGS)})\b  +", text)
    assert dict(zip(said[1::2], map(str.split, said[2::2]), strict=True)) == {
        name: [place.removesuffix(".py").replace("/", ".") for place in places] for name, places in RINGS.items()
    }


def test_each_file_and_folder_is_in_one_ring() -> None:
    rings = [place for places in RINGS.values() for place in places]
    assert len(rings) == len({*rings})
    entries = {path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    wanted = {name for name in entries if not name.startswith(("test_", "__"))}
    assert wanted == {place for place in rings if "/" not in place}


@pytest.mark.parametrize(
    "road", [pytest.param(name, marks=() if name == "numpy" else pytest.mark.slow) for name in ROADS]
)
def test_what_a_road_counts_is_what_is_loaded(road: str) -> None:
    if road != "numpy":
        pytest.importorskip("torch")
    modules = ", ".join(module_of(file) for file in ROADS[road])
    code = f"import sys, {modules}\nprint(*(name for name in sys.modules if name.startswith('mini_vllm')))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {file_of(name) for name in loaded.stdout.split()} == loaded_with(*ROADS[road])


def test_the_tree_has_what_is_there() -> None:
    tree = drawn_tree()
    assert all(len(line) <= 100 for line in tree)
    named: set[str] = set()
    for line in tree:
        if not re.match(r"  [A-Z]+: ", line):
            named |= {f"mini_vllm/{place}" if line.startswith("  ") else place for place in places_of(line)}
    for place in named:
        assert next(ROOT.glob(place.rstrip("/")), None) or place == "mini_vllm/test_*.py", f"{place} is not there"
    if not (ROOT / ".git").exists():
        pytest.skip("which files belong to the repository is known in a clone only")
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    folders = {re.sub(r"^phase-[^/]*/labs", "phase-*/labs", file) for file in files if not file.startswith(".")}
    wanted = {
        match[0] for file in folders if (match := re.match(r"mini_vllm/\w+/|phase-\*/labs/|(?!mini|phase)\w+/", file))
    }
    assert wanted <= named


# --- prose beside its table -----------------------------------------------------------------------------------------


def test_prose_repeats_the_table() -> None:
    """ "From A µs at N to B µs at M" stands in two rows of one table that the section shows."""
    said = 0
    for part in read(MEASURED).split("\n## "):
        shown = re.findall(r"<!-- include: .*?<!-- /include -->", part, re.DOTALL)
        prose = " ".join(re.sub(r"<!-- include: .*?<!-- /include -->", "", part, flags=re.DOTALL).split())
        for low, at, high, to in re.findall(r"from ([\d.]+) µs at ([\d,]+) to ([\d.]+) µs at ([\d,]+\d)", prose):
            tables = [{row[0]: row[1:] for row in rows(table)} for table in shown]
            assert any(low in table.get(at, ()) and high in table.get(to, ()) for table in tables), (low, high)
            said += 1
    assert said


# --- planted bugs have a place ----------------------------------------------------------------------------------------

PLANTED = {
    *((planted_bugs.PACKAGE / f"{module}.py", old) for _, module, old, _ in planted_bugs.BUGS + planted_bugs.FAULTS),
    *((planted_bugs.PACKAGE / file, old) for file, old, _ in planted_kernel_bugs.BUGS),
}


@pytest.mark.parametrize("path", sorted({path for path, _ in PLANTED}), ids=lambda path: path.stem)
def test_a_planted_bug_has_a_place(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [old for file, old in PLANTED if file == path and old not in text] == []
