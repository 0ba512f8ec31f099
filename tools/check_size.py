"""Size is a feature: count the tokens of mini_vllm, room by room, and refuse what outgrows its limit.

A token is what Python's tokenizer gives for code: a name, a number, a string and an operator count one each. Blank
lines, comments, docstrings and tests do not count. So a limit is kept by saying less, and not by writing longer lines.
C, JavaScript and HTML count in lines that are not blank. Standard library only; CI runs it as `python
tools/check_size.py`. Exit status 1 and one line per broken limit when something is too long.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

# The files that decide a step, and nothing else: what remains when models, kernels, text and other policies go.
HEART = (
    *("request.py", "step.py", "block_hash.py", "block_pool.py", "kv_cache.py"),
    *("scheduler_interface.py", "scheduler.py", "engine/core.py", "engine/runner_view.py"),
)
MAX_HEART = 10_000
# Tokens of Python by room, which is a folder of mini_vllm/ or one in it; "." has the files beside the folders, without
# the heart.
MAX_TOKENS = {
    ".": 3_980,
    "engine": 8_980,
    "engine/ahead": 2_450,
    "engine/outside": 2_500,
    "light": 3_200,
    "worker": 12_760,
    "worker/compiled": 1_050,
    "worker/graphs": 6_850,
    "worker/tiers": 3_840,
    "worker/remote": 3_900,
    "worker/ranks": 2_220,
    "worker/verified": 700,
    "worker/products": 890,
    "parallel": 3_550,
    "parallel/experts": 1_400,
    "parallel/watch": 200,
    "worker/sampling": 4_150,
    "attention": 13_470,
    "attention/groups": 700,
    "attention/libraries": 4_550,
    "native": 1_160,
    "models": 13_800,
    "models/moe": 4_150,
    "models/hybrid": 1_190,
    "models/gpt_oss": 2_100,
    "offload": 7_570,
    "offload/hybrid/swap": 645,
    "offload/tiers": 4_460,
    "models/llama4": 1_700,
    "offload/hybrid/tiers": 1_400,
    "offload/tiers/policies": 950,
    "offload/remote": 4_900,
    "offload/transfer": 5_100,
    "policies": 9_500,
    "spec_decode": 3_500,
    "structured": 9_080,
    "structured/sandbox": 2_200,
    "structured/closing": 1_300,
    "frontend": 11_875,
    "frontend/tool_calls": 5_250,
    "serving": 13_375,
    "serving/counted": 625,
    "serving/admission": 2_000,
    "serving/openai": 11_625,
    "serving/replicas": 1_950,
    "serving/roles": 985,
    "observe": 8_100,
    "load": 6_975,
    "simulator": 5_950,
    "simulator/eviction": 2_550,
    "simulator/roles": 2_350,
    "simulator/tiers": 1_850,
    "simulator/timeline": 1_060,
    "cli": 13_800,
    "cli/server": 800,
    "cli/simulated": 1_800,
}
# Lines of other languages by room.
MAX_OTHER_LINES = {"native": 750, "observe": 533, "serving": 610}
OTHER_LANGUAGES = {".c", ".h", ".js", ".html"}
MAX_ENTRIES = 35  # files and folders that a reader sees in mini_vllm/
MAX_FUNCTION = 400
LONGER = {  # functions that may have more tokens, each with its own limit
    "attention/triton_simple.py attend_row_kernel": 590,  # all that a learner writes in lab 01.5 is one function
}
MAX_CLASS_LINES = 200
NOT_A_MODEL = (
    "models/__init__.py",
    "models/registry.py",
    "models/byte_level_bpe.py",
    "models/checkpoint.py",
    "models/layers/",
    "models/moe/",
    "models/gpt_oss/",
    "models/llama4/",
)
MAX_MODEL_TOKENS = 1_500  # of one file that makes a model
SHORT_FUNCTION = 40
MIN_SHARE_OF_SHORT_FUNCTIONS = 0.95

NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class ScopeSize(NamedTuple):
    """One function, method or class: its dotted name within the file, with all that is nested in it."""

    name: str
    num_tokens: int
    num_lines: int
    is_class: bool = False


class FileSize(NamedTuple):
    """One file: its path relative to the measured package, its size, and its functions and classes.

    num_tokens is 0 for a file in another language.
    """

    path: str
    num_tokens: int
    num_lines: int
    scopes: list[ScopeSize]

    @property
    def room(self) -> str:
        """The folder of the package that the file lies in, or one in it that has a limit of its own.

        "." for a file beside the folders.
        """
        folder = self.path.rpartition("/")[0] or "."
        while "/" in folder and folder not in MAX_TOKENS:
            folder = folder.rpartition("/")[0]
        return folder


def code_tokens(source: str, tree: ast.Module) -> Counter[int]:
    """How many tokens of code begin in each line. A bare string is documentation wherever it stands."""
    tokens: Counter[int] = Counter()
    depth = 0  # of f-strings: since Python 3.12 the tokenizer takes them apart; each counts one, as before
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        depth -= int(kind == "FSTRING_END")
        if token.type not in NOT_CODE:
            tokens[token.start[0]] += int(depth == 0 and kind != "FSTRING_END")
            for line in range(token.start[0] + 1, token.end[0] + 1):  # of a string of several lines
                tokens[line] += 0
        depth += int(kind == "FSTRING_START")
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                tokens.pop(line, None)
    return tokens


def scopes_of(node: ast.AST, tokens: Counter[int], prefix: str = "") -> Iterator[ScopeSize]:
    """Every function and class below `node`, outer before inner; a nested one counts for itself and for its parent."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            yield from scopes_of(child, tokens, prefix)
            continue
        name = f"{prefix}{child.name}"
        first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
        own = [count for line, count in tokens.items() if first <= line <= (child.end_lineno or child.lineno)]
        yield ScopeSize(name, sum(own), len(own), isinstance(child, ast.ClassDef))
        yield from scopes_of(child, tokens, f"{name}.")


def measure_source(path: str, source: str) -> FileSize:
    """Measure one file given as text; raises SyntaxError when it is not Python."""
    tree = ast.parse(source, filename=path)
    tokens = code_tokens(source, tree)
    return FileSize(path, sum(tokens.values()), len(tokens), list(scopes_of(tree, tokens)))


def measure_package(package: Path) -> list[FileSize]:
    """Measure every Python file of a package but its tests, in the order of their paths."""
    files = []
    for path in sorted(package.rglob("*.py")):
        if path.name.startswith("test_") or path.name == "conftest.py":
            continue
        files.append(measure_source(path.relative_to(package).as_posix(), path.read_text(encoding="utf-8")))
    return files


def measure_others(package: Path) -> list[FileSize]:
    """Measure the files in other languages, in the order of their paths."""
    return [
        FileSize(path.relative_to(package).as_posix(), 0, sum(map(bool, map(str.strip, path.open()))), [])
        for path in sorted(package.rglob("*"))
        if path.suffix in OTHER_LANGUAGES
    ]


def heart_tokens(files: list[FileSize]) -> int:
    """Tokens of the files that decide a step."""
    return sum(file.num_tokens for file in files if file.path in HEART)


def tokens_by_room(files: list[FileSize]) -> Counter[str]:
    """Tokens of Python in each room. What lies beside the folders counts for the heart or for ".", not for both."""
    tokens: Counter[str] = Counter()
    for file in files:
        if file.room != "." or file.path not in HEART:
            tokens[file.room] += file.num_tokens
    return tokens


def other_lines_by_room(files: list[FileSize]) -> Counter[str]:
    """Lines of other languages in each room."""
    lines: Counter[str] = Counter()
    for file in files:
        lines[file.room] += file.num_lines if Path(file.path).suffix in OTHER_LANGUAGES else 0
    return +lines


def entries_of(package: Path) -> list[str]:
    """The files and folders of the package, tests among them; what Python leaves behind does not count."""
    return sorted(path.name for path in package.iterdir() if not path.name.startswith((".", "__pycache__")))


def broken_limits(files: list[FileSize], num_entries: int = 0) -> list[str]:
    """One sentence per broken limit, with the value and the limit; empty when all hold."""
    broken = []
    if (total := heart_tokens(files)) > MAX_HEART:
        broken.append(f"the heart has {total} tokens, the limit is {MAX_HEART}")
    for room, num_tokens in tokens_by_room(files).items():
        if num_tokens > MAX_TOKENS.get(room, 0):
            broken.append(f"the room {room} has {num_tokens} tokens, the limit is {MAX_TOKENS.get(room, 0)}")
    for room, num_lines in other_lines_by_room(files).items():
        if num_lines > MAX_OTHER_LINES.get(room, 0):
            limit = MAX_OTHER_LINES.get(room, 0)
            broken.append(f"the room {room} has {num_lines} lines of other languages, the limit is {limit}")
    if num_entries > MAX_ENTRIES:
        broken.append(f"the package has {num_entries} entries, the limit is {MAX_ENTRIES}")
    if (share := share_of_short_functions(files)) < MIN_SHARE_OF_SHORT_FUNCTIONS:
        broken.append(
            f"{share:.1%} of the functions have at most {SHORT_FUNCTION} lines, {MIN_SHARE_OF_SHORT_FUNCTIONS:.0%} must"
        )
    for file in files:
        is_model = file.path.startswith("models/") and not file.path.startswith(NOT_A_MODEL)
        if is_model and file.num_tokens > MAX_MODEL_TOKENS:
            broken.append(f"{file.path} has {file.num_tokens} tokens, the limit of a model is {MAX_MODEL_TOKENS}")
        for scope in file.scopes:
            limit = LONGER.get(f"{file.path} {scope.name}", MAX_FUNCTION)
            if not scope.is_class and scope.num_tokens > limit:
                broken.append(f"{file.path}: {scope.name} has {scope.num_tokens} tokens, the limit is {limit}")
            if scope.is_class and scope.num_lines > MAX_CLASS_LINES:
                broken.append(f"{file.path}: {scope.name} has {scope.num_lines} lines, the limit is {MAX_CLASS_LINES}")
    return broken


def share_of_short_functions(files: list[FileSize]) -> float:
    """The share of functions that are at most SHORT_FUNCTION lines long; 1.0 when there is none."""
    sizes = [scope.num_lines for file in files for scope in file.scopes if not scope.is_class]
    return sum(size <= SHORT_FUNCTION for size in sizes) / len(sizes) if sizes else 1.0


def print_table(files: list[FileSize], num_entries: int) -> None:
    """Print one row per file with its largest function, then each room beside its limit."""
    print(f"{'tokens':>7} {'lines':>6} {'largest':>8}  file")
    for file in files:
        if file.num_lines:
            functions = [scope for scope in file.scopes if not scope.is_class]
            largest = max(functions, key=lambda scope: scope.num_tokens, default=ScopeSize("", 0, 0))
            print(f"{file.num_tokens:>7} {file.num_lines:>6} {largest.num_tokens:>8}  {file.path}  {largest.name}")
    print(f"\n{'tokens':>7} {'limit':>7}  room")
    for room, num_tokens in sorted(tokens_by_room(files).items()):
        print(f"{num_tokens:>7} {MAX_TOKENS.get(room, 0):>7}  {room}")
    for room, num_lines in sorted(other_lines_by_room(files).items()):
        print(f"{num_lines:>7} {MAX_OTHER_LINES.get(room, 0):>7}  {room}: lines of C, JavaScript and HTML")
    print(f"{heart_tokens(files):>7} {MAX_HEART:>7}  the heart: {', '.join(HEART)}")
    print(f"{num_entries:>7} {MAX_ENTRIES:>7}  entries: files and folders of mini_vllm/")
    print(f"{sum(file.num_tokens for file in files):>7} tokens of Python in all")


def main() -> int:
    """Measure mini_vllm, print the table and what is too long; the exit status."""
    package = ROOT / "mini_vllm"
    files, num_entries = measure_package(package) + measure_others(package), len(entries_of(package))
    print_table(files, num_entries)
    broken = broken_limits(files, num_entries)
    for sentence in broken:
        print(f"TOO LONG: {sentence}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
