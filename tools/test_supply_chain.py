"""What comes from elsewhere is named by its bytes: packages by hash."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def requirements(name: str) -> dict[str, tuple[str, str, int]]:
    """Version, marker and number of hashes of each package that a requirements file pins."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        pin = re.fullmatch(r"([\w.-]+)==([\w.]+)(?:\s*;\s*(.+?))?((?:\s+--hash=sha256:[0-9a-f]{64})*)\s*", line)
        assert pin, f"{name}: {line[:80]!r} is not a pin"
        package, version, marker, hashes = pin.groups(default="")
        key = re.sub(r"[-_.]+", "-", package).lower()
        assert key not in found, f"{name}: {package} twice"
        marker = marker.replace('platform_system == "Linux"', "sys_platform == 'linux'")
        found[key] = (version, marker, len(hashes.split()))
    return found


def test_every_pinned_package_but_torch_has_a_hash() -> None:
    pinned, hashed = requirements("constraints.txt"), requirements("requirements-hashed.txt")
    del pinned["torch"]
    assert {name: pin[:2] for name, pin in hashed.items()} == {name: pin[:2] for name, pin in pinned.items()}
    assert not [name for name, (_, _, hashes) in hashed.items() if not hashes]


def test_the_book_s_packages_have_hashes() -> None:
    lock = json.loads((ROOT / "book" / "web" / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert not [name for name, package in packages.items() if not package["integrity"].startswith("sha512-")]


def test_what_is_locked_names_no_host() -> None:
    for name in ("constraints.txt", "requirements-hashed.txt", "book/web/package-lock.json"):
        assert "://" not in (ROOT / name).read_text(encoding="utf-8"), name
