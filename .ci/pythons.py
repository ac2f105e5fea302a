"""The Python versions for tests, and those installed: on the path, or by pyenv but not activated."""

from __future__ import annotations

import os
import shutil
import subprocess
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


def interpreters() -> dict[str, str]:
    """Return the interpreter of each installed version, on the path or of pyenv."""
    pyenv = {Path(program).parent.parent.name.rpartition(".")[0]: program for program in installed()}
    on_path = {version: f"python{version}" for version in PYTHONS if _runs(f"python{version}")}
    return {version: here for version in PYTHONS if (here := pyenv.get(version) or on_path.get(version))}


def _runs(program: str) -> bool:
    """Return whether *program* starts; pyenv leaves names on the path that do not."""
    return (
        shutil.which(program) is not None and subprocess.run([program, "-c", ""], capture_output=True).returncode == 0
    )
