"""Write .ci/requirements-hashed.txt: each pinned package, with the hashes of the wheels that CI's jobs can install.

Reads a pylock.toml (packaging.python.org/specifications/pylock-toml) from standard input, which names every file of a
package. What a job can install is what packaging.tags lists for its Python on Linux x86_64.
"""

import sys
import tomllib
from pathlib import Path
from posixpath import basename

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

OUT = Path(__file__).with_name("requirements-hashed.txt")
PYTHONS = (3, 11), (3, 12)
GLIBC = 39  # 2.39 is that of Ubuntu 24.04; an older system skips wheels that need a newer one
PLATFORMS = [
    *(f"manylinux_2_{minor}_x86_64" for minor in range(GLIBC, 4, -1)),
    *("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"),
]


def installable() -> set[Tag]:
    """The tags of a wheel that one of the jobs can install."""
    found: set[Tag] = set()
    for version in PYTHONS:
        interpreter = f"cp{version[0]}{version[1]}"
        found |= {*cpython_tags(version, platforms=PLATFORMS), *compatible_tags(version, interpreter, PLATFORMS)}
    return found


def main() -> None:
    """Read the lock, and write the file. Ends with a message if a package has no wheel."""
    tags, lines = installable(), ["# Written by `make hashes`."]
    for package in tomllib.load(sys.stdin.buffer)["packages"]:
        hashes = sorted(
            wheel["hashes"]["sha256"]
            for wheel in package.get("wheels", [])
            if parse_wheel_filename(basename(wheel["url"]))[3] & tags
        )
        if not hashes:
            sys.exit(f"{package['name']} {package['version']} has no wheel for Linux x86_64 and Python 3.11 or 3.12")
        pin = f"{package['name']}=={package['version']}"
        lines.append(" \\\n    ".join([pin, *(f"--hash=sha256:{digest}" for digest in hashes)]))
    OUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
