"""What `lab diff` prints of a learner's file and the reference: the definitions that the contract names, or all."""

import ast
import difflib
from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from labkit.labs import source
from labkit.labs.catalog import Lab, LabkitError


def of_contract(lab: Lab, text: str) -> tuple[str, list[str]]:
    """Of a file the definitions that the lab's stub has, in the stub's order and without docstrings; then the names of
    the other functions. All of a file of tests, whose names are the learner's, and of one that Python cannot read.
    """
    try:
        found = {} if lab.is_break_it else dict(source.functions_of(source.parse(lab.mine, text)))
    except LabkitError:
        found = {}
    named = [name for name, _ in source.functions_of(source.tree_of(source.render_stub(lab)))]
    if not found:
        return text, []
    lines, shown, owner = text.splitlines(), [], ""
    for name in named:
        if name not in found:
            continue
        if (before := owner) != (owner := name.rpartition(".")[0]):
            shown += ["", f"class {owner}:"] if owner else [""]
        elif before or shown:
            shown.append("")
        shown += lines_of(found[name], lines)
    return "\n".join(shown).strip("\n"), [name for name in found if name not in named]


def lines_of(node: ast.FunctionDef, lines: list[str]) -> Iterator[str]:
    """A definition without its docstring."""
    docstring = node.body[0] if ast.get_docstring(node) is not None else None
    for number in range(source.first_line(node), (node.end_lineno or node.lineno) + 1):
        if docstring is None or not docstring.lineno <= number <= (docstring.end_lineno or 0):
            yield lines[number - 1]


def unified(mine: str, reference: str, what: str) -> str:
    """The lines that differ, and a few around them."""
    return "\n".join(difflib.unified_diff(mine.splitlines(), reference.splitlines(), "mine.py", what, lineterm=""))


def side_by_side(mine: str, reference: str, what: str) -> Table:
    """Two columns, as wide as the terminal: between them < and > for a line of one file, | for one that differs."""
    left, right = mine.splitlines(), reference.splitlines()
    table = Table.grid(padding=(0, 1), expand=True)
    for ratio in (1, None, 1):
        table.add_column(ratio=ratio, overflow="fold")
    table.add_row("mine.py", "", what, style="bold")
    for tag, *ranges in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        a, b = left[ranges[0] : ranges[1]], right[ranges[2] : ranges[3]]
        for number in range(max(len(a), len(b))):
            ours, theirs = (lines[number] if number < len(lines) else None for lines in (a, b))
            mark = " " if tag == "equal" else "<" if theirs is None else ">" if ours is None else "|"
            table.add_row(Text(ours or ""), Text(mark), Text(theirs or ""), style="" if tag == "equal" else "yellow")
    return table
