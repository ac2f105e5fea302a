"""The Python versions for tests, and those installed by pyenv but not activated."""

from __future__ import annotations

import os
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13")


def installed() -> list[str]:
    """Newest interpreter of each version below pyenv's root."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = []
    for version in PYTHONS:
        homes = sorted(
            root.glob(f"{version}.*"), key=lambda home: [int(part) for part in home.name.split(".") if part.isdigit()]
        )
        found += [str(homes[-1] / "bin" / "python")] if homes and (homes[-1] / "bin" / "python").exists() else []
    return found
