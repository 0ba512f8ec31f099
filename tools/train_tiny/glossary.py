"""Reads docs/glossary.md and phrases questions about its terms.

The page is the only source of what the tiny model knows: a heading `### Name (alias)` and the one paragraph below it.
"""

import random
import re
from dataclasses import dataclass
from pathlib import Path

GLOSSARY = Path(__file__).resolve().parents[2] / "docs" / "glossary.md"
PROPER_NAMES = {"Gumbel", "Triton"}

ASKING = (
    "What is {}?",
    "What are {}?",
    "What's {}?",
    "What does {} mean?",
    "What is meant by {}?",
    "What do you know about {}?",
    "What exactly is {}?",
    "How does {} work?",
    "How would you define {}?",
    "Can you explain {}?",
    "Could you tell me what {} is?",
    "Do you know what {} is?",
)
TELLING = (
    "Explain {}.",
    "Define {}.",
    "Describe {}.",
    "Tell me about {}.",
    "Tell me what {} is.",
    "Please explain {}.",
    "Explain {} to me.",
    "I do not know what {} is.",
    "{}",
    "{}?",
)


@dataclass(frozen=True, slots=True)
class Term:
    """One entry: its names as they stand inside a sentence, the article of its first name, and its paragraph."""

    names: tuple[str, ...]
    article: str
    is_plural: bool
    definition: str

    @property
    def question(self) -> str:
        """The natural question, such as "What is a KV block?"."""
        return f"What {'are' if self.is_plural else 'is'} {self.article}{self.names[0]}?"


def load_glossary(path: Path = GLOSSARY) -> list[Term]:
    """All terms of the page, in its order."""
    entries = re.findall(r"^### (.+)\n\n((?:.+\n)+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return [_parse_term(heading, " ".join(paragraph.split())) for heading, paragraph in entries]


def _parse_term(heading: str, definition: str) -> Term:
    match = re.fullmatch(r"(.+?)(?: \((.+)\))?", heading.replace("`", ""))
    assert match, heading
    names = tuple(_inside_sentence(name) for name in match.groups() if name)
    opening = re.match(rf"(an? |the )?{re.escape(names[0])}\W+(are\b)?", definition.replace("`", ""), re.IGNORECASE)
    if opening is None:
        raise ValueError(f"the paragraph of {heading!r} must begin with the term, after an article at most")
    return Term(names, (opening[1] or "").lower(), bool(opening[2]), definition)


def _inside_sentence(name: str) -> str:
    first = name.split()[0]
    return name if first in PROPER_NAMES or not re.fullmatch(r"[A-Z][a-z-]*", first) else name[0].lower() + name[1:]


def subjects(term: Term) -> list[str]:
    """The names of a term with each article, without one, and with spaces for hyphens and underscores."""
    found = [term.article + term.names[0]]
    for name in term.names:
        indefinite = "an " if name[0] in "aeiouAEIOU" else "a "
        spaced = re.sub(r"[-_]", " ", name)
        plural = name if name.endswith("s") else name + "s"
        found += [name, "the " + name, indefinite + name, spaced, plural]
    return list(dict.fromkeys(found))


def random_question(rng: random.Random, term: Term) -> str:
    """One of several thousand ways to ask about a term; the natural one most often."""
    if rng.random() < 0.3:
        return term.question
    return vary(rng, rng.choice(ASKING + TELLING).format(rng.choice(subjects(term))))


def vary(rng: random.Random, question: str) -> str:
    """The same question in another case, or without its last mark, or unchanged."""
    if rng.random() < 0.2:
        question = question.rstrip("?.")
    draw = rng.random()
    if draw < 0.1:
        return question.lower()
    if draw < 0.17:
        return question.upper()
    return question[0].upper() + question[1:]


def phrasings(term: Term) -> list[str]:
    """The ways to ask that check.py tries: all templates with the natural subject, the plain ones with all."""
    natural, *others = subjects(term)
    asked = [term.question, term.question.lower(), term.question.upper(), term.question.rstrip("?")]
    asked += [template.format(natural) for template in ASKING + TELLING]
    for template in ("What is {}?", "What does {} mean?", "Explain {}.", "Define {}."):
        asked += [template.format(subject) for subject in others]
    asked = [question[0].upper() + question[1:] for question in asked]
    return list(dict.fromkeys([*asked, term.question.lower()]))
