"""pip refuses a plugin beside a core of an older release, and replaces a release by a development version.

With the oldest pip that we support, which comes with Python 3.11.7, and with the newest. The wheels are built from
copies of core and of one plugin, as release 0.3.0 and as development version 0.4.0.dev0.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))

import set_version
import workspace

pytestmark = pytest.mark.kit

ROOT = workspace.ROOT
RELEASE, DEVELOPMENT = "0.3.0", "0.4.0.dev0"
PIPS = ("pip==23.2.1", "pip")
DISTRIBUTIONS = ("core", "plugins/filter_tag")
NAMES = ("gantrymq", "gantrymq-filter-tag")
DEADLINE_S = 300


class Environment:
    """A virtual environment with a pip of its own."""

    def __init__(self, folder):
        self.python = folder / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=DEADLINE_S)

    def pip(self, *words):
        """Return exit code and output of pip."""
        done = subprocess.run(
            [self.python, "-m", "pip", "--disable-pip-version-check", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        return done.returncode, done.stdout + done.stderr

    def install(self, *words):
        """Install without an error."""
        code, said = self.pip("install", "--quiet", *words)
        assert code == 0, said

    def versions(self):
        """Return the versions of our distributions by name."""
        code, said = self.pip("list", "--format", "json")
        assert code == 0, said
        listed = json.loads(said.splitlines()[0])
        return {each["name"]: each["version"] for each in listed if each["name"] in NAMES}


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    """Folders of core and the plugin by version, with `wheels` in each."""
    made = {}
    for version in (RELEASE, DEVELOPMENT):
        folder = made[version] = tmp_path_factory.mktemp("tree")
        for each in DISTRIBUTIONS:
            shutil.copytree(ROOT / each, folder / each, ignore=shutil.ignore_patterns("__pycache__"))
        for path, text in set_version.with_version(ROOT, version).items():
            if (copy := folder / path.relative_to(ROOT)).is_file():
                copy.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "wheels"]
        subprocess.run([*command, *(folder / each for each in DISTRIBUTIONS)], check=True, timeout=DEADLINE_S)
    return made


@pytest.fixture(scope="module", params=PIPS)
def empty(request, tmp_path_factory):
    """A virtual environment with that pip and what builds our distributions."""
    made = Environment(tmp_path_factory.mktemp("venv"))
    made.install("--upgrade", request.param, "hatchling>=1.24", "editables")
    return made


@pytest.fixture
def environment(empty, trees):
    """The same environment with the release of core."""
    empty.pip("uninstall", "--yes", *NAMES)
    empty.install("--find-links", trees[RELEASE] / "wheels", f"gantrymq=={RELEASE}")
    return empty


def test_a_new_plugin_is_refused_beside_an_older_core(environment, trees):
    (wheel,) = (trees[DEVELOPMENT] / "wheels").glob("gantrymq_filter_tag-*")
    for plugin in (wheel, trees[DEVELOPMENT] / "plugins/filter_tag"):
        code, said = environment.pip("install", "--no-build-isolation", plugin)
        assert code == 1
        assert "gantrymq<0.5,>=0.4.0.dev0" in said
        assert environment.versions() == {"gantrymq": RELEASE}


def test_an_upgrade_from_newer_wheels_replaces_the_release(environment, trees):
    environment.install("--find-links", trees[RELEASE] / "wheels", "gantrymq-filter-tag")
    environment.install("--upgrade", "--find-links", trees[DEVELOPMENT] / "wheels", "gantrymq-filter-tag")
    assert environment.versions() == dict.fromkeys(NAMES, DEVELOPMENT)


def test_folders_of_a_clone_replace_the_release_also_as_editable_installs(environment, trees):
    folders = [trees[DEVELOPMENT] / each for each in DISTRIBUTIONS]
    environment.install("--no-build-isolation", *folders)
    assert environment.versions() == dict.fromkeys(NAMES, DEVELOPMENT)
    environment.install("--no-build-isolation", *(word for each in folders for word in ("-e", each)))
    assert environment.versions() == dict.fromkeys(NAMES, DEVELOPMENT)
