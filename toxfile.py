"""Show tox the Pythons that pyenv has installed but not switched on, so that the matrix uses each one that is here."""

import os
import shutil
from pathlib import Path

WANTED = ("3.11", "3.12", "3.13")


def installed() -> list[str]:
    """Newest interpreter of each wanted version below pyenv's root."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = []
    for version in WANTED:
        homes = sorted(
            root.glob(f"{version}.*"), key=lambda home: [int(part) for part in home.name.split(".") if part.isdigit()]
        )
        found += [str(homes[-1] / "bin" / "python")] if homes and (homes[-1] / "bin" / "python").exists() else []
    return found


if shutil.which("pyenv") and "TOX_DISCOVER" not in os.environ:
    os.environ["TOX_DISCOVER"] = "\n".join(installed())
