"""What the book quotes of a proof: proof/report.md, and what learners read in proof/messages.txt."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from labkit.labs.catalog import ROOT, find_lab, labs
from labkit.labs.implementations import seeded_bugs
from labkit.prove.laws import Proof

REPORT, MESSAGES = ROOT / "proof" / "report.md", ROOT / "proof" / "messages.txt"
SHOWN = 10  # messages of a lab that proof/messages.txt has in full


def report_of(proofs: Sequence[Proof]) -> str:
    """Markdown for the book."""
    lines = [
        "# How we know our tests are good",
        "",
        "Written by `python -m labkit.prove --write`.",
        "",
        "| lab | tests | seeded bugs found | other correct ways that pass |",
        "|---|---|---|---|",
    ]
    for proof in proofs:
        row = (f"{proof.lab_id} {proof.title}", proof.num_tests, proof.note or len(proof.red), len(proof.variants))
        lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join(lines) + "\n"


def read_messages() -> dict[str, dict[str, str]]:
    """The messages of proof/messages.txt by lab and bug."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    text = MESSAGES.read_text(encoding="utf-8") if MESSAGES.exists() else ""
    for title, _, message in (part.partition("\n") for part in text.split("=== ")[1:]):
        lab_id, _, name = title.partition(" ")
        found[lab_id][name] = message.strip()
    return found


def write_messages(messages: Mapping[str, Mapping[str, str]]) -> None:
    """Write proof/messages.txt."""
    chosen = [(lab.id, name) for lab in labs() for name in sorted(messages.get(lab.id, {}))]
    text = "\n".join(f"=== {lab_id} {name}\n{messages[lab_id][name]}\n" for lab_id, name in chosen)
    MESSAGES.write_text(text, encoding="utf-8")


def messages_to_show(proof: Proof, shown: Iterable[str]) -> dict[str, str]:
    """The messages of the bugs that were shown before, and of other tests as many as there is room for."""
    told = {name: message for name, message in proof.messages.items() if name not in proof.by_chance}
    names = [name for name in shown if name in told]
    bugs = seeded_bugs(find_lab(proof.lab_id))
    seen = {bugs[name].test for name in names}
    for name in told:
        if len(names) < SHOWN and bugs[name].test not in seen:
            names.append(name)
            seen.add(bugs[name].test)
    return {name: told[name] for name in names}
