"""Index the symbols of vLLM that the course cites: `python tools/index_vllm.py vllm-0.33.0-*.whl`.

Reads the wheel's Python files, runs none of them, and writes traces/vllm-0.33.0/symbols.json: for every module that
labs or chapters cite, the line of each function, class and method. labkit.prove compares the labs' citations with it,
and tools/book/check.py those of the chapters.
"""

import ast
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from labkit.labs.catalog import SYMBOLS, labs  # noqa: E402
from tools.book.check import Citation, citations, pages  # noqa: E402


def symbols(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Qualified names and their lines."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + node.name, node.lineno
            if isinstance(node, ast.ClassDef):
                yield from symbols(node, f"{prefix}{node.name}.")


def cited_modules() -> set[str]:
    """Those of labs.toml, and those that the pages link to."""
    found = {text.partition(":")[0] for lab in labs() for text in lab.vllm}
    for page in pages():
        links = citations(page.read_text(encoding="utf-8"))
        found |= {link.module for link in links if isinstance(link, Citation)}
    return found


def main() -> None:
    """Write the index."""
    index: dict[str, dict[str, int]] = {}
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        for module in sorted(cited_modules()):
            path = module.replace(".", "/")
            name = next((n for n in (f"{path}.py", f"{path}/__init__.py") if n in wheel.namelist()), None)
            if name is None:
                print(f"vLLM has no module {module}")
                continue
            index[module] = dict(symbols(ast.parse(wheel.read(name))))
    SYMBOLS.write_text(json.dumps(index, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
