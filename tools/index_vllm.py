"""Index what the course says about vLLM: `python tools/index_vllm.py vllm-0.33.0-*.whl`.

Reads the wheel's Python files, runs none of them, and writes two files beside the traces of that version.

symbols.json has, for every module that labs, chapters or docstrings cite, the line of each function, class and method.
labkit.prove compares the labs' citations with it, and tools/book/check.py those of the chapters and docstrings.

defaults.json has what runs by default: which model runner, which attention back ends in which order, what drafts and
verifies, in which order a stop is looked for, and the defaults of options. A paragraph of the book that says such a
thing ends with its name, as in `<!-- vllm: check_stop -->`, and tools/book/check.py compares it with the value.
Where the source no longer has the form that is read here, this script stops and names what it looked for: then the
source has to be read again, and the paragraphs of that name.
"""

import ast
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T", bound=ast.AST)
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from labkit.labs.catalog import DEFAULTS, SYMBOLS, labs  # noqa: E402
from tools.book.check import Citation, citations, cited_files, module_of, pages  # noqa: E402

# --- symbols ------------------------------------------------------------------------------------------------------


def symbols(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Qualified names and their lines."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + node.name, node.lineno
            if isinstance(node, ast.ClassDef):
                yield from symbols(node, f"{prefix}{node.name}.")


def cited_modules() -> set[str]:
    """Those of labs.toml, those that the pages link to, and those that docstrings name."""
    found = {text.partition(":")[0] for lab in labs() for text in lab.vllm}
    for page in pages():
        links = citations(page.read_text(encoding="utf-8"))
        found |= {link.module for link in links if isinstance(link, Citation)}
    return found | {module_of(match["path"]) for _, match in cited_files()}


# --- what runs by default -----------------------------------------------------------------------------------------


class ChangedError(Exception):
    """The source of vLLM no longer has the form that is read here."""


class Source:
    """One file of the wheel."""

    def __init__(self, wheel: zipfile.ZipFile, path: str) -> None:
        self.path = path
        self.tree = ast.parse(wheel.read(path))

    def find(self, name: str) -> ast.AST:
        """A definition, by its qualified name."""
        found: ast.AST = self.tree
        for part in name.split("."):
            children = [child for child in ast.iter_child_nodes(found) if getattr(child, "name", None) == part]
            if len(children) != 1:
                raise ChangedError(f"{self.path} has {len(children)} definitions of {name}, not 1")
            [found] = children
        return found

    def of(self, kind: type[T], name: str) -> list[T]:
        """All nodes of a kind in a definition, in the order of the text."""
        nodes = [node for node in ast.walk(self.find(name)) if isinstance(node, kind)]
        return sorted(nodes, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))

    def the(self, kind: type[T], name: str, holds: Callable[[T], bool]) -> T:
        """The one node of a kind in a definition for which something holds."""
        found = [node for node in self.of(kind, name) if holds(node)]
        if len(found) != 1:
            raise ChangedError(f"{name} of {self.path} has {len(found)} {kind.__name__} of the kind looked for, not 1")
        return found[0]

    def field(self, owner: str, name: str) -> object:
        """The default of a field, which may be a Field(default=...), or a constant of the class."""
        values = {
            node.target.id: node.value for node in self.of(ast.AnnAssign, owner) if isinstance(node.target, ast.Name)
        }
        value = values.get(name)
        if isinstance(value, ast.Call):
            value = next((each.value for each in value.keywords if each.arg == "default"), None)
        if isinstance(value, ast.Name):
            value = values.get(value.id)
        if not isinstance(value, ast.Constant):
            raise ChangedError(f"{owner} of {self.path} has no constant default of {name}")
        return value.value


def model_runner(config: Source) -> object:
    """The version of the model runner where nothing speaks against the second one."""
    last = config.of(ast.Return, "VllmConfig.use_v2_model_runner")[-1].value
    return "V2" if isinstance(last, ast.Constant) and last.value is True else "V1"


def methods_of_the_first_runner(config: Source) -> object:
    """The methods of drafting that the second model runner lacks."""
    name = "VllmConfig._get_v2_model_runner_unsupported_features"
    compared = config.the(ast.Compare, name, lambda node: ast.unparse(node).startswith("speculative_config.method in"))
    return ast.literal_eval(compared.comparators[0])


def attention_backends(cuda: Source, number: int) -> object:
    """In order of preference, without MLA; the last list but one is of sm_100, the last one of every other GPU."""
    lists = [node.value for node in cuda.of(ast.Return, "_get_backend_priorities") if isinstance(node.value, ast.List)]
    return [each.attr for each in lists[number].elts if isinstance(each, ast.Attribute)]


def ngram_speculator(package: Source) -> object:
    """The class that drafts for "ngram" in the second model runner."""
    branch = package.the(
        ast.If, "init_speculator", lambda node: ast.unparse(node.test) == "speculative_config.use_ngram()"
    )
    [call] = [node.value for node in branch.body if isinstance(node, ast.Return)]
    return ast.unparse(call).partition("(")[0]


def assigned(source: Source, function: str, name: str) -> str:
    """What a variable of a function is set to."""
    return ast.unparse(
        source.the(ast.Assign, function, lambda node: ast.unparse(node.targets[0]) == name).value,
    )


def launched(source: Source, function: str) -> list[str]:
    """The kernels that a function launches, in order."""
    calls = [node.func for node in source.of(ast.Call, function)]
    return [ast.unparse(call.value) for call in calls if isinstance(call, ast.Subscript)]


def imported_from(source: Source, name: str) -> object:
    """The module that a name of a file comes from."""
    found = [
        node.module
        for node in source.tree.body
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]
    ]
    if len(found) != 1:
        raise ChangedError(f"{source.path} imports {name} {len(found)} times")
    return found[0]


def check_stop(utils: Source) -> object:
    """What check_stop looks at, in the order of its conditions."""
    found: list[str] = []
    looked_at = ("eos_token_id", "stop_token_ids", "max_model_len", "max_tokens", "min_tokens", "repetition_detection")
    for branch in utils.of(ast.If, "check_stop"):
        names = [getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(branch.test)]
        found += [name for name in looked_at if name in names and name not in found]
    return found


def defaults(wheel: zipfile.ZipFile) -> dict[str, object]:
    """What paragraphs may rely on, by name. Raises ChangedError."""
    config, scheduler, cache, cuda, package, speculator, runner, rejection, gumbel, utils = (
        Source(wheel, f"vllm/{path}.py")
        for path in (
            *("config/vllm", "config/scheduler", "config/cache", "platforms/cuda"),
            *("v1/worker/gpu/spec_decode/__init__", "v1/worker/gpu/spec_decode/ngram/speculator"),
            *("v1/worker/gpu/model_runner", "v1/worker/gpu/spec_decode/rejection_sampler_utils"),
            *("v1/worker/gpu/sample/gumbel", "v1/core/sched/utils"),
        )
    )
    found = {
        "model_runner": model_runner(config),
        "methods_of_the_first_runner": methods_of_the_first_runner(config),
        "attention_backends": attention_backends(cuda, -1),
        "attention_backends_sm_100": attention_backends(cuda, -2),
        "ngram_speculator": ngram_speculator(package),
        "ngram_score": assigned(speculator, "_ngram_scan_kernel", "cand"),
        "ngram_padding": assigned(speculator, "_ngram_finalize_kernel", "out"),
        "rejection_sampler": imported_from(runner, "RejectionSampler"),
        "rejection_kernels": launched(rejection, "rejection_sample")[-3:],
        "acceptance": assigned(rejection, "_rejection_kernel", "u"),
        "noise": [each.arg for each in gumbel.of(ast.arg, "murmur3_uniform32")],
        "check_stop": check_stop(utils),
    }
    for source, owner, names in (
        (scheduler, "SchedulerConfig", ("max_num_seqs", "max_num_batched_tokens", "long_prefill_token_threshold")),
        (scheduler, "SchedulerConfig", ("enable_chunked_prefill", "policy", "scheduler_reserve_full_isl", "watermark")),
        (cache, "CacheConfig", ("gpu_memory_utilization", "enable_prefix_caching", "prefix_caching_hash_algo")),
        (cache, "CacheConfig", ("DEFAULT_BLOCK_SIZE",)),
    ):
        found |= {name: source.field(owner, name) for name in names}
    return found


def main() -> None:
    """Write both files."""
    index: dict[str, dict[str, int]] = {}
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        for module in sorted(cited_modules()):
            path = module.replace(".", "/")
            name = next((n for n in (f"{path}.py", f"{path}/__init__.py") if n in wheel.namelist()), None)
            if name is None:
                print(f"vLLM has no module {module}")
                continue
            index[module] = dict(symbols(ast.parse(wheel.read(name))))
        found = defaults(wheel)
    SYMBOLS.write_text(json.dumps(index, indent=0, sort_keys=True) + "\n")
    DEFAULTS.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
