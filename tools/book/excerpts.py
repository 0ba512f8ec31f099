"""Code in the chapters is cut from the source by name: `python tools/book/excerpts.py [--check]`.

In a chapter:

    <!-- excerpt: mini_vllm/scheduler.py Scheduler.schedule -->
    (a python fence, written by this script)
    <!-- /excerpt -->

The name is a function, a class or a method; NAME:head is its signature and docstring, NAME:body what follows them;
several names may follow one file. Without --check the chapters are rewritten. With it nothing is written, and the exit
status is 1 if an excerpt is not what the source says, or if a chapter types Python outside of excerpts and cells.
"""

import ast
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXCERPT = re.compile(r"<!-- excerpt: (?P<what>[^>]*?) -->\n(?P<text>.*?)<!-- /excerpt -->", re.DOTALL)
PYTHON = re.compile(r"^```(python|py|pycon)\b(?P<info>.*)$", re.MULTILINE)


def chapters() -> list[Path]:
    return sorted((ROOT / "docs").rglob("*.md"))


def cut(file: str, name: str) -> str:
    """The text of a definition, or of a part of it. Raises KeyError if the file has none of that name."""
    qualname, _, part = name.partition(":")
    text = (ROOT / file).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for each in qualname.split("."):
        found = [child for child in getattr(node, "body", []) if getattr(child, "name", None) == each]
        if not found:
            raise KeyError(f"{file} has no {qualname}")
        node = found[-1]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    has_docstring = ast.get_docstring(node) is not None
    end_of_head = (node.body[0].end_lineno or 0) if has_docstring else node.body[0].lineno - 1
    last = node.end_lineno or first
    lines = text.splitlines()
    chosen = {"": (first, last), "head": (first, end_of_head), "body": (end_of_head + 1, last)}[part]
    return textwrap.dedent("\n".join(lines[chosen[0] - 1 : chosen[1]])).strip("\n")


def render(what: str) -> str:
    """The fence of an excerpt."""
    file, *names = what.split()
    return "```python\n" + "\n\n".join(cut(file, name) for name in names) + "\n```\n"


def mend(text: str) -> str:
    """A chapter with every excerpt as the source has it."""
    return EXCERPT.sub(lambda m: f"<!-- excerpt: {m['what']} -->\n{render(m['what'])}<!-- /excerpt -->", text)


def typed_code(text: str) -> list[str]:
    """Fences of Python that are neither an excerpt nor a cell."""
    return [m.group(0) for m in PYTHON.finditer(EXCERPT.sub("", text)) if 'cell="' not in m["info"]]


def main() -> int:
    """The exit status."""
    status = 0
    for file in chapters():
        text = file.read_text(encoding="utf-8")
        name = file.relative_to(ROOT).as_posix()
        for fence in typed_code(text):
            print(f"{name}: {fence}: code is cut from the source; see tools/book/excerpts.py")
            status = 1
        mended = mend(text)
        if mended != text:
            print(f"{name}: {'is not what the source says' if '--check' in sys.argv else 'written'}")
            if "--check" in sys.argv:
                status = 1
            else:
                file.write_text(mended, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
