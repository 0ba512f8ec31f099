"""Draw the pictures of the book: `python tools/book/pictures [--check]`.

--check writes nothing; exit status 1 if a picture is not what its function draws.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from tools.book.pictures import PICTURES  # noqa: E402
from tools.book.pictures.card import card  # noqa: E402

DOCS = ROOT / "docs"


def main() -> int:
    """The exit status."""
    drawn = {DOCS / f"{name}.svg": draw(False).svg() for name, draw in PICTURES.items()}
    drawn[DOCS / "assets" / "card.svg"] = card().svg()
    stale = [file for file, text in drawn.items() if not file.exists() or file.read_text(encoding="utf-8") != text]
    for file in stale:
        print(f"{file.relative_to(ROOT).as_posix()}: {'stale' if '--check' in sys.argv else 'written'}")
        if "--check" not in sys.argv:
            file.parent.mkdir(exist_ok=True)
            file.write_text(drawn[file], encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
