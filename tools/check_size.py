"""Size is a feature: count the source lines of mini_vllm and refuse what outgrows its limit.

A source line carries code: blank lines, comments, docstrings and tests do not count, and functions are measured the
same way, from their first decorator to their last line. Standard library only; CI runs it as `python
tools/check_size.py`. Exit status 1 and one line per broken limit when something is too long.
"""

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

IRREDUCIBLE_CORE = (
    *("request.py", "step.py", "block_hash.py", "block_pool.py", "kv_cache.py"),
    *("scheduler_interface.py", "scheduler.py", "engine/core.py", "engine/runner_view.py"),
)
MAX_IRREDUCIBLE_CORE = 1_150
MAX_PACKAGE = 14_000
MAX_ENTRIES = 34  # files and folders that a reader sees in mini_vllm/
NOT_A_MODEL = (
    "models/__init__.py",
    "models/registry.py",
    "models/byte_level_bpe.py",
    "models/checkpoint.py",
    "models/layers/",
)
MAX_MODEL_FILE = 150
MAX_FUNCTION = 80
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
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class FunctionSize(NamedTuple):
    """One function or method: its dotted name within the file and its source lines, nested functions included."""

    name: str
    num_lines: int


class FileSize(NamedTuple):
    """One file: its path relative to the measured package, its source lines and its functions."""

    path: str
    num_lines: int
    functions: list[FunctionSize]


def source_lines(source: str, tree: ast.Module) -> set[int]:
    """The numbers of the lines that carry code. A bare string statement is documentation wherever it stands."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def functions_of(node: ast.AST, lines: set[int], prefix: str = "") -> Iterator[FunctionSize]:
    """Every function below `node`, outer before inner; a nested one counts in its own right and in its parent."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, SCOPES):
            yield from functions_of(child, lines, prefix)
            continue
        name = f"{prefix}{child.name}"
        if not isinstance(child, ast.ClassDef):
            first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            last = child.end_lineno or child.lineno
            yield FunctionSize(name, sum(first <= line <= last for line in lines))
        yield from functions_of(child, lines, f"{name}.")


def measure_source(path: str, source: str) -> FileSize:
    """Measure one file given as text; raises SyntaxError when it is not Python."""
    tree = ast.parse(source, filename=path)
    lines = source_lines(source, tree)
    return FileSize(path, len(lines), list(functions_of(tree, lines)))


def measure_package(package: Path) -> list[FileSize]:
    """Measure every file of a package but its tests, in the order of their paths."""
    files = []
    for path in sorted(package.rglob("*.py")):
        if path.name.startswith("test_") or path.name == "conftest.py":
            continue
        files.append(measure_source(path.relative_to(package).as_posix(), path.read_text(encoding="utf-8")))
    return files


def core_lines(files: list[FileSize]) -> int:
    """Source lines of the irreducible core: what remains when models, kernels, text and other policies go."""
    return sum(file.num_lines for file in files if file.path in IRREDUCIBLE_CORE)


def entries_of(package: Path) -> list[str]:
    """The files and folders of the package, tests among them; what Python leaves behind does not count."""
    return sorted(path.name for path in package.iterdir() if not path.name.startswith((".", "__pycache__")))


def share_of_short_functions(files: list[FileSize]) -> float:
    """The share of functions that are at most SHORT_FUNCTION lines long; 1.0 when there is none."""
    sizes = [function.num_lines for file in files for function in file.functions]
    return sum(size <= SHORT_FUNCTION for size in sizes) / len(sizes) if sizes else 1.0


def broken_limits(files: list[FileSize], num_entries: int = 0) -> list[str]:
    """One sentence per broken limit, with the value and the limit; empty when all hold."""
    broken = []
    if (total := core_lines(files)) > MAX_IRREDUCIBLE_CORE:
        broken.append(f"the irreducible core has {total} source lines, the limit is {MAX_IRREDUCIBLE_CORE}")
    if num_entries > MAX_ENTRIES:
        broken.append(f"the package has {num_entries} entries, the limit is {MAX_ENTRIES}")
    if (total := sum(file.num_lines for file in files)) > MAX_PACKAGE:
        broken.append(f"the package has {total} source lines, the limit is {MAX_PACKAGE}")
    for file in files:
        is_model = file.path.startswith("models/") and not file.path.startswith(NOT_A_MODEL)
        if is_model and file.num_lines > MAX_MODEL_FILE:
            broken.append(f"{file.path} has {file.num_lines} source lines, the limit of a model is {MAX_MODEL_FILE}")
        for function in file.functions:
            if function.num_lines > MAX_FUNCTION:
                broken.append(
                    f"{file.path}: {function.name} has {function.num_lines} lines, the limit is {MAX_FUNCTION}"
                )
    if (share := share_of_short_functions(files)) < MIN_SHARE_OF_SHORT_FUNCTIONS:
        broken.append(
            f"{share:.1%} of the functions have at most {SHORT_FUNCTION} lines, {MIN_SHARE_OF_SHORT_FUNCTIONS:.0%} must"
        )
    return broken


def print_table(files: list[FileSize], num_entries: int) -> None:
    """Print one row per file (lines, functions, the longest of them) and the totals beside their limits."""
    print(f"{'lines':>6} {'functions':>10} {'longest':>8}  file")
    for file in files:
        if file.num_lines:
            longest = max(file.functions, key=lambda function: function.num_lines, default=FunctionSize("", 0))
            name = f"  ({longest.name})" if longest.num_lines > SHORT_FUNCTION else ""
            print(f"{file.num_lines:>6} {len(file.functions):>10} {longest.num_lines:>8}  {file.path}{name}")
    print(
        f"{core_lines(files):>6} of {MAX_IRREDUCIBLE_CORE} source lines: the irreducible core, which is "
        f"{', '.join(IRREDUCIBLE_CORE)}"
    )
    print(f"{sum(file.num_lines for file in files):>6} of {MAX_PACKAGE} source lines: the package, every file above")
    print(f"{num_entries:>6} of {MAX_ENTRIES} entries: files and folders of mini_vllm/")
    print(f"{share_of_short_functions(files):>6.1%} of the functions have at most {SHORT_FUNCTION} lines")


def main() -> int:
    """Measure mini_vllm, print the table and what is too long; the exit status."""
    package = ROOT / "mini_vllm"
    files, num_entries = measure_package(package), len(entries_of(package))
    print_table(files, num_entries)
    broken = broken_limits(files, num_entries)
    for sentence in broken:
        print(f"TOO LONG: {sentence}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
