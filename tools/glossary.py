"""What the bundled model was taught: the questions about docs/glossary.md, and the answers."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def ask(question: str) -> list[dict[str, str]]:
    """A chat with one message."""
    return [{"role": "user", "content": question}]


def glossary() -> dict[str, str]:
    """The natural question about each term of docs/glossary.md ("What is a KV block?") -> its paragraph."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    questions = {}
    for heading, paragraph in re.findall(r"^### (.+)\n\n((?:.+\n)+)", text, re.MULTILINE):
        definition = " ".join(paragraph.split())
        name = heading.split(" (")[0].replace("`", "")
        opening = re.match(rf"(an? |the )?({re.escape(name)})\W+(are\b)?", definition.replace("`", ""), re.IGNORECASE)
        assert opening, f"the paragraph of {heading!r} must begin with the term"
        inside = opening[2] if opening[1] else name[0].lower() + name[1:] if name[1:].islower() else name
        questions[f"What {'are' if opening[3] else 'is'} {(opening[1] or '').lower()}{inside}?"] = definition
    return questions
