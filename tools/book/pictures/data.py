"""What pictures show: figures of docs/figures/, and tables of benchmarks/results/."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
Cells = list[dict[str, str]]


def read_figure(name: str) -> Any:
    """One of docs/figures/."""
    return json.loads((ROOT / "docs" / "figures" / f"{name}.json").read_text(encoding="utf-8"))


def read_table(report: str, words: str, heading: str = "") -> Cells:
    """The one table of benchmarks/results/REPORT.md whose first line has these words, below a heading that begins so:
    a dict for each row.
    """
    text = (ROOT / "benchmarks" / "results" / f"{report}.md").read_text(encoding="utf-8")
    if heading:
        text = text.partition(f"\n## {heading}")[2].partition("\n## ")[0]
    paragraphs = text.split("\n\n")
    (found,) = [paragraph for paragraph in paragraphs if words in paragraph.partition("\n")[0]]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in found.strip().splitlines()]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


def value(cell: str) -> float:
    """1,234 and 12.3 ± 4 as numbers."""
    return float(cell.partition("±")[0].replace(",", "").strip())


def spread(cell: str) -> float:
    return float(cell.partition("±")[2] or 0)
