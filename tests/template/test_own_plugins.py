"""Projects of `gantrymq plugin new`, and the plugins of docs/plugins/README.md: pip installs them, their tests pass."""

import json
import sys

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
    "counted": ("dispatcher", {}),
    "guarded": ("authorizer", {}),
    "timed": ("store", {}),
}
TOOLS = ("mypy>=1.10", "regex>=2023.6", "types-regex>=2023.6")


@pytest.fixture(scope="module")
def tools(kit):
    problem = kit.pip("install", "--no-compile", *TOOLS)
    if problem:
        pytest.skip(f"pip cannot get {', '.join(TOOLS)}: {problem}")


def test_the_page_shows_three_whole_plugins():
    assert sorted(shown()) == ["canary", "json_body", "regex"]
    assert all(len(files) > 1 for _, files in shown().values())


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_it_is_installed_by_pip_and_its_tests_and_types_are_right(kit, tools, tmp_path, name):
    kind, files = PLUGINS[name]
    project = kit.new_project(kind, name, tmp_path)
    complete(project, files)
    kit.install(project)
    assert " passed" in kit.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project)
    assert kit.run("python", "-m", "mypy", cwd=project).startswith("Success")
    plugins = json.loads(kit.run("gantrymq", "plugins", "--output", "json"))["plugins"]
    (registers,) = [each["registers"] for each in plugins if each["name"] == name]
    own = {
        "authorizer": ["setting guarded.userFile", "authorizer guarded"],
        "dispatcher": ["dispatcher counted"],
        "store": ["setting timed.slowMs", "store timed"],
    }
    assert registers == own.get(kind, [f"{kind} {name.upper()}"])
    assert not kit.pip("uninstall", "-y", project.name)
