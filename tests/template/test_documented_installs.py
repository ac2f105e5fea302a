"""Every documented `pip install` names the folders of this clone that it needs; typical ones resolve with pip.

The old pip is 23.2.1, which comes with Python 3.11.7 and 3.12.1. It takes an extra of a local folder for another
distribution (`./core[tls]` is no `gantrymq` to it), so a line that newer versions resolve may fail there.
"""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.kit

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("*/README.md"),
    *ROOT.glob("libs/*/README.md"),
    *ROOT.glob("plugins/*/README.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("examples/**/*.py"),
    *ROOT.glob("plugins/*/src/**/*.py"),
    ROOT / "Dockerfile",
]
COMMAND = re.compile(r"pip install ((?:[^`\n#&|;()]|\\\n)*)")
FOLDER = re.compile(r"\./[\w/]+")
STANDARD = (ROOT / "requirements.txt").read_text().splitlines()
DEFAULT = ("-r", "requirements.txt")
LEFT_OUT = {"--no-cache-dir", "--quiet", "-q"}


def documented():
    """Return the arguments of each documented command that installs folders of a clone, without repetitions.

    A command on a separate line works in an empty environment; one within a sentence adds to the default install.
    """
    found = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in COMMAND.finditer(text):
            words = match[1].replace("\\\n", " ").replace('"""', "").rstrip(".")
            if ("./" not in words and "-r requirements.txt" not in words) or "{" in words or "..." in words:
                continue
            arguments = tuple(word for word in shlex.split(words) if word not in LEFT_OUT)
            within = text[: match.start()].rsplit("\n", 1)[-1].count("`") % 2 or page.suffix == ".py"
            if within and not {"./core", *DEFAULT} & {*arguments}:
                arguments = (*DEFAULT, *(word for word in arguments if word not in STANDARD))
            found.add(arguments)
    return sorted(found)


def test_the_pages_have_such_commands():
    lines = [" ".join(words) for words in documented()]
    assert "-r requirements.txt" in lines
    assert "-r requirements.txt ./plugins/faststream" in lines
    assert "-r requirements.txt ./plugins/spark[spark]" in lines
    for words in documented():
        for word in words:
            if folder := FOLDER.match(word.removeprefix("-e")):
                assert (ROOT / folder[0]).is_dir(), f"{word} of {' '.join(words)!r} is no folder"


def needed(folder, extras):
    """Names of this project's distributions that a folder requires with *extras*."""
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    optional = project.get("optional-dependencies", {})
    named = [*project.get("dependencies", ()), *(each for extra in extras for each in optional[extra])]
    return {found[0] for each in named if (found := re.match(r"gantrymq[\w-]*", each))}


def folders_of(words):
    """Folder to extras, of those that a command names, by itself or in requirements.txt."""
    lines = [*words, *(STANDARD if "requirements.txt" in words else ())]
    found = [re.match(r"(?:-e)?(\./[\w/]+)(?:\[([\w,]+)\])?", line) for line in lines]
    return [(each[1], each[2].split(",") if each[2] else []) for each in found if each]


@pytest.mark.parametrize("words", documented(), ids=" ".join)
def test_a_documented_install_names_all_folders_that_it_needs(words):
    folders = folders_of(words)
    # an old pip takes `./core[tls]` for a distribution of that name, which satisfies no other's need
    given = {
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]["name"]
        for folder, extras in folders
        if not extras
    }
    for folder, extras in folders:
        missing = needed(folder, extras) - given
        assert not missing, f"{folder} needs {sorted(missing)}"


def typical():
    """The default install with the extras of folders, and the longest line without the default install.

    Without the extra `spark`: to resolve its name, pip would download and unpack 400 MB of pyspark.
    """
    plain = [words for words in documented() if "requirements.txt" not in words]
    by_extra = {extra: words for words in reversed(documented()) for _, extras in folders_of(words) for extra in extras}
    del by_extra["spark"]
    assert all(words[: len(DEFAULT)] == DEFAULT for words in by_extra.values())
    added = [word for words in by_extra.values() for word in words[len(DEFAULT) :]]
    return [(*DEFAULT, *dict.fromkeys(added)), max(plain, key=len)]


@pytest.mark.parametrize("words", typical(), ids=" ".join)
def test_a_documented_install_resolves_with_an_old_pip(old_pip, words):
    old_pip.install("--dry-run", "--no-build-isolation", *words)


def test_the_largest_documented_install_resolves_with_the_newest_pip(newest_pip):
    newest_pip.install("--dry-run", "--no-build-isolation", *max(documented(), key=len))
