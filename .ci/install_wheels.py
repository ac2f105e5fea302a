"""Build the workspace's wheels, and install a selection of them into the running Python.

    python .ci/install_wheels.py FOLDER --build-only
    python .ci/install_wheels.py FOLDER filter_tag
    python .ci/install_wheels.py FOLDER speedups --every-plugin

Core and the libraries of libs/ are always installed, with the plugins that they depend on. The compiled functions
(``speedups``) are only installed if named: they are built for the first Python that needs them, and their wheel fits
the others. A plugin is installed with the plugins that it may import.

Wheels are built if the sources have changed since the last build (a digest of every file, stored beside the wheels), so
that a single environment tests the current tree. Installed distributions of GantryMQ are removed first. In an
environment that uv made (tox-uv), uv installs them, in a second instead of ten.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import workspace
from workspace import COMPILED, ROOT, Distribution, Workspace

SOURCE_FOLDERS = ("src", "c")
SOURCE_FILES = ("pyproject.toml", "README.md", "LICENSE", "setup.py", "MANIFEST.in")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the wheels lie")
    parser.add_argument("words", nargs="*", help=f"folders of plugins, and '{COMPILED}'")
    parser.add_argument("--every-plugin", action="store_true", help="install every plugin of the tree")
    parser.add_argument("--build-only", action="store_true", help="install nothing")
    asked = parser.parse_args()
    tree = workspace.read()
    compiled_wheels = asked.folder / COMPILED
    asked.folder.mkdir(parents=True, exist_ok=True)
    with (asked.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build(asked.folder, [each.folder for each in tree.every if each.word != COMPILED])
        if COMPILED in asked.words:
            build(compiled_wheels, [tree.libs[COMPILED].folder])
    if asked.build_only:
        return 0
    words = list(tree.plugins) if asked.every_plugin else [word for word in asked.words if word != COMPILED]
    wheels = [wheel_of(asked.folder, each) for each in chosen(words, tree)]
    if COMPILED in asked.words:
        wheels.append(wheel_of(compiled_wheels, tree.libs[COMPILED]))
    install(wheels)
    return 0


def chosen(words: list[str], tree: Workspace) -> list[Distribution]:
    """Return core, the libraries in Python with their plugins, and *words* with the plugins they may import."""
    if missing := [word for word in words if word not in tree.plugins]:
        raise SystemExit(f"no such plugin in this tree: {', '.join(missing)}")
    libs = [each for each in tree.libs.values() if each.word != COMPILED]
    needed = [plugin for lib in libs for plugin in tree.needed_by(lib)]
    always = [tree.core, *libs, *needed]
    named = [tree.plugins[word] for word in words]
    brought = [other for plugin in named for other in tree.imported_by(plugin)]
    return list({each.word: each for each in [*always, *named, *brought]}.values())


def build(folder: Path, trees: list[Path]) -> None:
    """Make *folder* contain one wheel per tree, and no older ones."""
    folder.mkdir(exist_ok=True)
    digest = digest_of(trees)
    stamp = folder / "sources.sha256"
    if stamp.exists() and stamp.read_text() == digest:
        return
    stamp.unlink(missing_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    # An environment for each build takes three seconds, so the Python with the backend builds without.
    built_here = find_spec("hatchling") is not None and all(tree.name != COMPILED for tree in trees)
    isolation = ["--no-build-isolation"] if built_here else []
    pip("wheel", "--quiet", "--no-deps", *isolation, "--wheel-dir", str(folder), *map(str, trees))
    for tree in trees:
        shutil.rmtree(tree / "build", ignore_errors=True)
    stamp.write_text(digest)


def digest_of(trees: list[Path]) -> str:
    """Return a digest of the names and contents of all files of the wheels."""
    total = hashlib.sha256()
    for tree in trees:
        inside = [path for folder in SOURCE_FOLDERS for path in (tree / folder).rglob("*") if path.is_file()]
        for path in sorted([*inside, *(tree / name for name in SOURCE_FILES if (tree / name).exists())]):
            if not any(part == "__pycache__" or part.endswith((".egg-info", ".so")) for part in path.parts):
                total.update(f"{path.relative_to(ROOT)}\0".encode())
                total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def wheel_of(folder: Path, built: Distribution) -> str:
    """The wheel of a distribution."""
    (found,) = folder.glob(f"{built.package}-[0-9]*.whl")
    return str(found)


def install(wheels: Iterable[str]) -> None:
    """Replace all installed distributions of GantryMQ by *wheels* and their dependencies."""
    if ours := sorted({each.name for each in distributions() if each.name.startswith("gantrymq")}):
        installer("uninstall", *([] if made_by_uv() else ["--yes"]), *ours)
    installer("install", *wheels)
    if made_by_uv():
        compile_everything()


def installer(command: str, *words: str) -> None:
    """Run a command of uv if it made this Python's environment, of pip otherwise."""
    if made_by_uv():
        subprocess.run(["uv", "pip", command, "--quiet", "--python", sys.executable, *words], check=True)
    else:
        pip(command, "--quiet", *words)


def compile_everything() -> None:
    """Write the bytecode of all packages, as pip does and uv does not: processes of the tests write none."""
    words = ("-m", "compileall", "-qq", "-j", "0", "-x", "[/]tests[/]", sysconfig.get_path("purelib"))
    subprocess.run([sys.executable, *words], check=False)  # some packages have templates that are no Python


def made_by_uv() -> bool:
    """Return whether uv made the environment of this Python, and is there."""
    settings = Path(sys.prefix, "pyvenv.cfg")
    made = settings.exists() and any(line.startswith("uv =") for line in settings.read_text().splitlines())
    return made and shutil.which("uv") is not None


def pip(*words: str) -> None:
    """Run pip of this Python."""
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *words], check=True)


if __name__ == "__main__":
    sys.exit(main())
