"""Write the stub of every lab from the reference: `python tools/make_stubs.py [--check]`.

--check writes nothing; exit status 1 if a committed stub is not what the reference gives.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from labkit import catalog, source


def main() -> int:
    """The exit status."""
    stale = 0
    for lab in catalog.labs():
        stub = source.render_stub(lab)
        if not lab.stub.exists() or lab.stub.read_text(encoding="utf-8") != stub:
            stale += 1
            print(f"{'stale' if '--check' in sys.argv else 'written'}: {lab.stub.relative_to(catalog.ROOT).as_posix()}")
            if "--check" not in sys.argv:
                lab.stub.write_text(stub, encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
