"""Write .ci/constraints.txt: the newest releases of everything that the environments of tox install, per Python.

    python .ci/constraints.py

tox installs these versions (PIP_CONSTRAINT in tox.ini), so that a fresh clone fails for faults of the tree only, not
for a release of today. Users install within the open bounds of the distributions, which `.ci/run --newest` tests. Each
installed Python of `pythons.PYTHONS` resolves its own versions; a Python that is not installed keeps its lines. Takes a
minute or two, more when pip's cache does not have Spark yet (430 MB).
"""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

import workspace
from pythons import PYTHONS, interpreters

FILE = workspace.ROOT / ".ci" / "constraints.txt"
HEAD = (
    "# Versions that tox installs, written by `python .ci/constraints.py`. Users' bounds are in the pyproject files.\n"
)
LINE = re.compile(r'(?P<name>\S+)==(?P<version>\S+?)(?: ; python_version in "(?P<pythons>[^"]+)")?')
NOT_PINNED = {"pip", "setuptools"}  # tox installs its own pip; builds take the newest setuptools


class Pin(NamedTuple):
    """One line: a version, and the Pythons that install it."""

    name: str
    version: str
    pythons: tuple[str, ...]


def main() -> int:
    kept = read(FILE.read_text()) if FILE.exists() else []
    versions = {each: {pin.name: pin.version for pin in kept if each in pin.pythons} for each in PYTHONS}
    needs = requirements(workspace.ROOT)
    for version, python in interpreters().items():
        versions[version] = resolve(python, needs)
        print(f"Python {version}: {len(versions[version])} packages", file=sys.stderr)
    FILE.write_text(HEAD + "".join(f"{line}\n" for line in lines(versions)))
    return 0


def requirements(root: Path) -> list[str]:
    """Return the requirements of the distributions, of all dependency groups and of tox.ini, without our own."""
    tree = workspace.read(root)
    tables = [tomllib.loads((root / "pyproject.toml").read_text()), *(each.settings for each in tree.every)]
    found: set[str] = set()
    for table in tables:
        project = table.get("project", {})
        groups = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values()]
        groups += table.get("dependency-groups", {}).values()
        found |= {need for group in groups for need in group if isinstance(need, str)}
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(root / "tox.ini")
    for section in tox.sections():
        for line in tox.get(section, "deps", fallback="").splitlines():
            need = re.sub(r"^[a-z0-9!,_-]+: ", "", line.strip())  # "all,slow: sqlalchemy>=2"
            found |= {need} if need and "{" not in need else set()
    return sorted(need for need in found if not workspace.is_ours(need))


def resolve(python: str, needs: list[str]) -> dict[str, str]:
    """Return the newest versions that *python* installs for *needs*, by normalized name."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--isolated", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "--upgrade", "pip"], check=True)
        report = Path(folder, "report.json")
        words = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(report), *needs]
        subprocess.run([*pip, *words], check=True)
        found = [each["metadata"] for each in json.loads(report.read_text())["install"]]
    versions = dict(normalized(each["name"], each["version"]) for each in found)
    return {name: version for name, version in sorted(versions.items()) if name not in NOT_PINNED}


def normalized(name: str, version: str) -> tuple[str, str]:
    """Return the normalized *name* of a package (PEP 503), and its version."""
    return re.sub(r"[-_.]+", "-", name).lower(), version


def lines(versions: dict[str, dict[str, str]]) -> list[str]:
    """Return the lines of the file for the *versions* of each Python: one line per package and version."""
    wanted: dict[tuple[str, str], list[str]] = {}
    for python, pins in versions.items():
        for name, version in pins.items():
            wanted.setdefault((name, version), []).append(python)
    return [
        f'{name}=={version} ; python_version in "{" ".join(pythons)}"'
        for (name, version), pythons in sorted(wanted.items())
    ]


def read(text: str) -> list[Pin]:
    """Return the pins of the file's *text*."""
    found = (LINE.fullmatch(line) for line in text.splitlines())
    return [Pin(each["name"], each["version"], tuple((each["pythons"] or "").split())) for each in found if each]


if __name__ == "__main__":
    sys.exit(main())
