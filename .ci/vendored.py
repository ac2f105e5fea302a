"""Compare the files of others in the console with their packages at npm.

    python .ci/vendored.py

Fetches each package of ``static/vendor/VENDORED.toml`` by ``npm pack`` and fails if a file or its digest differs.
Run it by hand after an update; no build and no test needs npm.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

VENDOR = Path(__file__).parents[1] / "plugins/console/src/gantrymq_console/static/vendor"


def main() -> int:
    files = tomllib.loads((VENDOR / "VENDORED.toml").read_text())["file"]
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        packages = {f"{each['package']}@{each['version']}" for each in files}
        archives = {package: fetch(package, folder) for package in sorted(packages)}
        for each in files:
            published = member(archives[f"{each['package']}@{each['version']}"], f"package/{each['path']}")
            for what, data in (("published", published), ("vendored", (VENDOR / each["name"]).read_bytes())):
                if hashlib.sha256(data).hexdigest() != each["sha256"]:
                    problems.append(f"the {what} {each['name']} has another digest than VENDORED.toml says")
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{len(files)} files are those of {', '.join(sorted(packages))}")
    return 1 if problems else 0


def fetch(package: str, folder: str) -> Path:
    """Return the archive of *package*."""
    packed = subprocess.run(
        ["npm", "pack", "--silent", package], cwd=folder, check=True, capture_output=True, text=True
    )
    return Path(folder, packed.stdout.split()[-1])


def member(archive: Path, name: str) -> bytes:
    """Return the content of one file of *archive*."""
    with tarfile.open(archive) as found:
        file = found.extractfile(name)
        assert file is not None, f"{archive} has no {name}"
        return file.read()


if __name__ == "__main__":
    sys.exit(main())
