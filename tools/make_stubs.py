"""Write what is made from the reference into every lab: `python tools/make_stubs.py [--check] [lab ids]`.

That is stub.py, versions.txt in a break-it lab, and evidence/ in a lab of debugging. --check writes nothing; exit
status 1 if something committed is not what the reference gives.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from labkit.grade.breaking import pack, unpack, versions_of
from labkit.labs import catalog, source
from labkit.labs.evidence import is_current, make


def stale_files(lab: catalog.Lab) -> Iterator[tuple[Path, str]]:
    """The files that are not what the reference gives, and what it gives."""
    stub = source.render_stub(lab)
    if not lab.stub.exists() or lab.stub.read_text(encoding="utf-8") != stub:
        yield lab.stub, stub
    if lab.is_break_it:
        packed = lab.versions.read_text(encoding="utf-8") if lab.versions.exists() else ""
        if not packed or list(unpack(packed).values()) != list(versions_of(lab)):
            yield lab.versions, pack(versions_of(lab))
    for case in lab.cases:
        if not is_current(lab, case):
            yield make(lab, case)


def main() -> int:
    """The exit status."""
    checks = "--check" in sys.argv
    named = [argument for argument in sys.argv[1:] if argument != "--check"]
    stale = [each for lab in catalog.labs() if not named or lab.id in named for each in stale_files(lab)]
    for file, text in stale:
        print(f"{'stale' if checks else 'written'}: {file.relative_to(catalog.ROOT).as_posix()}")
        if not checks:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return 1 if stale and checks else 0


if __name__ == "__main__":
    sys.exit(main())
