"""Build every distribution for a release, check the files, and try them in a fresh environment.

    python .ci/release.py FOLDER

FOLDER gets an sdist and a wheel of each distribution (``python -m build``; ``twine check --strict``). The compiled
functions get one wheel for every Python from 3.11 on, for all Linuxes (manylinux) if auditwheel and patchelf are
installed, else for those like this one. Each wheel must contain the files of its package, its licences and its entry
points, and the wheel of the compiled functions its module. Then a new virtual environment installs
``gantrymq[standard]``, GantryMQ's distributions from FOLDER only, and runs ``gantrymq quickstart``.
Nothing is uploaded.

Needs build, twine, hatchling and setuptools in the Python that runs this (``pip install --group release``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import wheel_contents
import workspace
from workspace import COMPILED, Workspace

ABI3 = "-cp311-abi3-"
LEFT_OUT = ("PYTHONPATH", "VIRTUAL_ENV", "NAMESRV_ADDR")


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder, tree = Path(sys.argv[1]).resolve(), workspace.read()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for each in tree.every:
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, each.folder, quiet=True)
        shutil.rmtree(each.folder / "build", ignore_errors=True)
    print(for_all_linuxes(folder, tree))
    if problems := missing(folder, tree):
        print("\n".join(problems), file=sys.stderr)
        return 1
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(folder.iterdir()), quiet=True)
    print(f"{len(tree.every)} distributions are in {folder}")
    with tempfile.TemporaryDirectory() as home:
        try_it(folder, Path(home), tree)
    print("gantrymq[standard], installed from there, runs the quickstart")
    return 0


def for_all_linuxes(folder: Path, tree: Workspace) -> str:
    """Replace the wheel of the compiled functions by one for manylinux, if that is possible; return what was done."""
    wheels = list(folder.glob(f"{tree.libs[COMPILED].package}-*-linux_*.whl"))
    lacking = [program for program in ("auditwheel", "patchelf") if shutil.which(program) is None]
    if not wheels:
        return "the compiled functions have no wheel for Linux"
    if lacking:
        return f"{wheels[0].name} is for Linuxes like this one; for manylinux: pip install {' '.join(lacking)}"
    run("auditwheel", "repair", "--wheel-dir", folder, wheels[0], quiet=True)
    wheels[0].unlink()
    return f"the compiled functions are in {', '.join(each.name for each in folder.glob('*manylinux*.whl'))}"


def missing(folder: Path, tree: Workspace) -> list[str]:
    """Return a sentence for each distribution without one sdist and one complete wheel in *folder*."""
    problems = []
    for each in tree.every:
        stem = f"{each.package}-{tree.version}"
        wheels = list(folder.glob(f"{stem}-*.whl"))
        if not (folder / f"{stem}.tar.gz").is_file() or len(wheels) != 1:
            problems.append(
                f"{each.name}: expected {stem}.tar.gz and one wheel, found {[path.name for path in wheels]}"
            )
        elif each.word == COMPILED and ABI3 not in wheels[0].name:
            problems.append(f"{each.name}: expected a wheel with compiled functions ({ABI3}), found {wheels[0].name}")
        else:
            problems += wheel_contents.problems(wheels[0], each)
    return problems


def try_it(folder: Path, home: Path, tree: Workspace) -> None:
    """Install the default set from *folder* into a virtual environment below *home*, and run the quickstart."""
    run(sys.executable, "-m", "venv", "--without-pip", home / "venv")
    python = home / "venv/bin/python"
    packages = ("--find-links", folder, f"gantrymq[standard]=={tree.version}")
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--quiet", *packages)
    said = run(home / "venv/bin/gantrymq", "quickstart", "--exit", quiet=True, cwd=home)
    if "consumed with a subscription to TagA: 3 of 6 messages" not in said:
        raise SystemExit(f"the quickstart printed:\n{said}")


def run(*words: object, quiet: bool = False, cwd: Path | None = None) -> str:
    """Run a program and return its output. Exits with its output if it fails."""
    environ = {key: value for key, value in os.environ.items() if key not in LEFT_OUT}
    output = subprocess.PIPE if quiet else None
    done = subprocess.run(
        list(map(str, words)),
        stdout=output,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        env=environ,
        cwd=cwd,
    )
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout or ''}\n{' '.join(map(str, words))} ended with {done.returncode}")
    return done.stdout or ""


if __name__ == "__main__":
    sys.exit(main())
