"""Projects of `gantrymq plugin new`, and the plugins of docs/plugins/README.md: pip installs them, their tests pass."""

import json
import sys
from importlib.util import find_spec

import pytest
from own_plugins import complete, shown

pytestmark = [
    pytest.mark.kit,
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
]

PLUGINS = {
    **shown(),
    "plain": ("filter", {}),
    "dealt": ("allocation", {}),
    "guarded": ("authorizer", {}),
    "timed": ("store", {}),
}
TOOLS = ("mypy>=1.10", "regex>=2023.6", "types-regex>=2023.6")


@pytest.fixture(scope="module")
def tools(kit):
    problem = kit.pip("install", *TOOLS)
    if problem:
        pytest.skip(f"pip cannot get {', '.join(TOOLS)}: {problem}")


def test_the_page_shows_three_whole_plugins():
    assert sorted(shown()) == ["canary", "json_body", "regex"]
    assert all(len(files) > 1 for _, files in shown().values())


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_it_is_installed_by_pip_and_its_tests_and_types_are_right(kit, tools, tmp_path, name):
    kind, files = PLUGINS[name]
    said = kit.run("gantrymq", "plugin", "new", kind, name, "--output", "json", cwd=tmp_path)
    project = tmp_path / json.loads(said)["folder"]
    complete(project, files)
    built_here = ["--no-build-isolation"] if find_spec("hatchling") is not None else []
    if built_here:
        assert not kit.pip("install", "hatchling", "editables")
    assert not kit.pip("install", "--no-deps", *built_here, "-e", project)
    assert " passed" in kit.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project)
    assert kit.run("python", "-m", "mypy", cwd=project).startswith("Success")
    plugins = json.loads(kit.run("gantrymq", "plugins", "--output", "json"))["plugins"]
    (registers,) = [each["registers"] for each in plugins if each["name"] == name]
    own = {
        "authorizer": ["setting guarded.userFile", "authorizer guarded"],
        "store": ["setting timed.slowMs", "store timed"],
    }
    assert registers == own.get(kind, [f"{kind} {name.upper()}"])
    assert not kit.pip("uninstall", "-y", project.name)
