"""pip refuses a plugin beside a core of an older release, and replaces a release by a development version.

With the oldest pip that we support, which comes with Python 3.11.7, and with the newest. The wheels are built from
copies of core and of one plugin, as release 0.3.0 and as development version 0.4.0.dev0.
"""

import shutil
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))

import set_version
import workspace

pytestmark = pytest.mark.kit

ROOT = workspace.ROOT
RELEASE, DEVELOPMENT = "0.3.0", "0.4.0.dev0"
DISTRIBUTIONS = ("core", "plugins/filter_tag")
NAMES = ("gantrymq", "gantrymq-filter-tag")


def versions(environment):
    """Return the versions of our distributions by name."""
    found = distributions(path=[str(folder) for folder in environment.folder.glob("lib/python*/site-packages")])
    return {each.name: each.version for each in found if each.name in NAMES}


@pytest.fixture(scope="module")
def trees(newest_pip, tmp_path_factory):
    """Folders of core and the plugin by version, with `wheels` in each."""
    made = {}
    for version in (RELEASE, DEVELOPMENT):
        folder = made[version] = tmp_path_factory.mktemp("tree")
        for each in DISTRIBUTIONS:
            shutil.copytree(ROOT / each, folder / each, ignore=shutil.ignore_patterns("__pycache__"))
        for path, text in set_version.with_version(ROOT, version).items():
            if (copy := folder / path.relative_to(ROOT)).is_file():
                copy.write_text(text, encoding="utf-8")
        words = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder / "wheels")
        code, said = newest_pip.pip("wheel", *words, *(folder / each for each in DISTRIBUTIONS))
        assert code == 0, said
    return made


@pytest.fixture(params=["old_pip", "newest_pip"])
def environment(request, trees):
    """A virtual environment with that pip and the release of core."""
    made = request.getfixturevalue(request.param)
    if versions(made) != {"gantrymq": RELEASE}:
        made.pip("uninstall", "--yes", *NAMES)
        made.install("--find-links", trees[RELEASE] / "wheels", f"gantrymq=={RELEASE}")
    return made


def test_a_new_plugin_is_refused_beside_an_older_core(environment, trees):
    (wheel,) = (trees[DEVELOPMENT] / "wheels").glob("gantrymq_filter_tag-*")
    for plugin in (wheel, trees[DEVELOPMENT] / "plugins/filter_tag"):
        code, said = environment.pip("install", "--no-build-isolation", plugin)
        assert code == 1
        assert "gantrymq<0.5,>=0.4.0.dev0" in said
        assert versions(environment) == {"gantrymq": RELEASE}


def test_an_upgrade_from_newer_wheels_replaces_the_release(environment, trees):
    environment.install("--find-links", trees[RELEASE] / "wheels", "gantrymq-filter-tag")
    environment.install("--upgrade", "--find-links", trees[DEVELOPMENT] / "wheels", "gantrymq-filter-tag")
    assert versions(environment) == dict.fromkeys(NAMES, DEVELOPMENT)


def test_folders_of_a_clone_replace_the_release_also_as_editable_installs(environment, trees):
    folders = [trees[DEVELOPMENT] / each for each in DISTRIBUTIONS]
    environment.install("--no-build-isolation", *folders)
    assert versions(environment) == dict.fromkeys(NAMES, DEVELOPMENT)
    environment.install("--no-build-isolation", *(word for each in folders for word in ("-e", each)))
    assert versions(environment) == dict.fromkeys(NAMES, DEVELOPMENT)
