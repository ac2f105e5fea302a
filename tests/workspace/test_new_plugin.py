"""A plugin is added by adding its folder: tox, mypy, ruff, the import contracts and the count after tox all find it.

Each test uses a temporary tree: the real settings and scripts of the workspace, a core of empty modules, and
fictitious plugins.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSION = tomllib.loads((ROOT / "core/pyproject.toml").read_text())["project"]["version"]
COPIED = ("tox.ini", "toxfile.py", "pyproject.toml", "core/pyproject.toml", "libs/speedups/pyproject.toml")
INDEPENDENT = "no plugin imports another"
ONLY_PUBLIC = "a plugin imports gantrymq.plugin and gantrymq.errors, and nothing else of core"
ONLY_INTERFACES = "a plugin sees the broker only through its interfaces"
CORE_ALONE = "core runs without any plugin, and by itself"


class Tree:
    """A workspace in a folder."""

    def __init__(self, folder):
        self.folder = folder
        for name in COPIED:
            self.write(name, (ROOT / name).read_text())
        shutil.copytree(ROOT / ".ci", folder / ".ci", ignore=shutil.ignore_patterns("__pycache__"))
        for module in ("", *floors()):
            self.write(f"core/src/gantrymq/{module}/__init__.py", "")
        self.write("libs/speedups/src/gantrymq_speedups/__init__.py", "")

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def add_plugin(self, word, source="", special="", needs=()):
        """Add a plugin whose module plugin.py is *source*; *special* goes to the end of its pyproject.toml."""
        dependencies = [f"gantrymq>={VERSION}", *needs]
        project = f'[project]\nname = "gantrymq-{word}"\nversion = "{VERSION}"\ndependencies = {dependencies}\n'
        self.write(f"plugins/{word}/pyproject.toml", f"{project}\n{special}")
        self.write(f"plugins/{word}/src/gantrymq_{word}/__init__.py", "")
        self.write(f"plugins/{word}/src/gantrymq_{word}/plugin.py", source)

    def run(self, *words):
        """Run Python in the tree; return exit code and output."""
        environ = {key: value for key, value in os.environ.items() if not key.startswith("TOX_")}
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def tox(self, *words):
        """Run tox; return its output."""
        tool("tox")
        code, said = self.run("-m", "tox", *words)
        assert code == 0, said
        return said

    def contracts(self):
        """Names of the violated import contracts."""
        tool("importlinter")
        code, said = self.run(".ci/lint_imports.py", "--no-cache", "--no-logo")
        broken = {line.partition(" BROKEN")[0] for line in said.splitlines() if " BROKEN" in line}
        assert code == (1 if broken else 0), said
        return broken


def floors():
    """Modules of core listed in its layers, those of the broker included."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    found = []
    for contract in contracts:
        if contract["type"] == "layers":
            (container,) = contract["containers"]
            folder = container.replace(".", "/").removeprefix("gantrymq").lstrip("/")
            words = [word for layer in contract["layers"] for word in layer.replace("|", ":").replace(":", " ").split()]
            found += [f"{folder}/{word}".lstrip("/") for word in words]
    return found


def tool(name):
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed")


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_the_full_run_tries_it_alone(tree):
    assert "py313-fresh" not in tree.tox("list", "-m", "full", "--no-desc").split()
    tree.add_plugin("fresh")
    assert "py313-fresh" in tree.tox("list", "-m", "full", "--no-desc").split()
    assert "py313-fresh" not in tree.tox("list", "-d", "--no-desc").split()  # includes the fast tests of all together


@pytest.mark.parametrize("python", ["py311", "py313"])
def test_its_environment_installs_it_and_runs_its_tests(tree, python):
    tree.add_plugin("fresh", special='[dependency-groups]\ntest = ["pandas>=2"]\n')
    tree.add_plugin("other", special='[dependency-groups]\ntest = ["pyarrow>=15"]\n')
    said = tree.tox("config", "-e", f"{python}-fresh", "-k", "commands_pre", "commands", "deps", "description")
    assert "install_wheels.py" in said
    assert f"{tree.folder}/.tox/wheels fresh\n" in said
    assert " tests/fresh\n" in said
    assert "core and fresh alone" in said
    assert "pandas>=2" in said
    assert "pyarrow" not in said


def test_the_environments_of_all_plugins_have_what_its_tests_need(tree):
    tree.add_plugin("fresh", special='[dependency-groups]\ntest = ["pandas>=2"]\n')
    for name in ("py313-all", "py312-rest", "interop", "long", "sanitize", "slow"):
        assert "pandas>=2" in tree.tox("config", "-e", name, "-k", "deps")
    assert "pandas" not in tree.tox("config", "-e", "py313-core", "-k", "deps")


def test_the_rest_of_the_tests_runs_after_core_and_each_plugin_alone(tree):
    tree.add_plugin("fresh")
    said = tree.tox("config", "-e", "py312-rest", "-k", "depends", "commands")
    assert "depends =\n  wheels\n  py312-core\n  py313-fresh\n" in said
    assert said.rstrip().endswith(f" --ran-in {tree.folder}/.tox/reports tests")


@pytest.mark.parametrize(
    ("quick", "others"),
    [
        ("py311-all", ["py312-core"]),
        ("py312-all", ["py311-all", "py312-core"]),
        ("py313-all", ["py311-all", "py312-core"]),
    ],
)
def test_the_full_run_leaves_out_what_the_plain_run_of_another_python_ran(tree, quick, others):
    code, said = tree.run(
        "-c",
        "import sys; sys.path[0] = '.ci'; import environments as e, workspace;"
        f"e.quick = lambda: ['{quick}']; print(*[each for each in e.full(workspace.read()) if each[:2] == 'py'])",
    )
    assert (code, said.split()) == (0, others)


def test_uv_and_pip_install_the_same_versions(tree, monkeypatch):
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
    monkeypatch.delenv("UV_CONSTRAINT", raising=False)
    for chosen in (f"{tree.folder}/.ci/constraints.txt", "/dev/null"):
        said = tree.tox("config", "-e", "py313-core", "-k", "set_env")
        assert {f"  PIP_CONSTRAINT={chosen}", f"  UV_CONSTRAINT={chosen}"} <= set(said.splitlines())
        monkeypatch.setenv("PIP_CONSTRAINT", "/dev/null")


def test_the_environment_of_types_has_what_it_depends_on(tree):
    tree.add_plugin("fresh", needs=["prometheus_client>=0.20"], special='[dependency-groups]\ntypes = ["types-six"]\n')
    said = tree.tox("config", "-e", "types", "-k", "deps").split()
    assert {"prometheus_client>=0.20", "types-six"} <= set(said)
    assert not [word for word in said if word.startswith("gantrymq")]


def test_the_count_after_tox_expects_its_environment(tree):
    tree.add_plugin("fresh")
    code, said = tree.run(
        "-c",
        "import sys; sys.path[0] = '.ci'; import check_groups as c, pythons;"
        "print('3.13' in pythons.interpreters(), 'py313-fresh' in c.expected_environments())",
    )
    assert code == 0, said
    assert said.split() in (["True", "True"], ["False", "False"])


def test_types_are_checked_in_it_and_against_the_core_of_the_tree(tree):
    tool("mypy")
    tree.write("core/src/gantrymq/interfaces/__init__.py", "ANSWER = 42\n")
    tree.add_plugin("fresh", "from gantrymq.interfaces import ANSWER\n\nWRONG: str = ANSWER\n")
    code, said = tree.run("-m", "mypy")
    assert code == 1
    assert "plugins/fresh/src/gantrymq_fresh/plugin.py:3: error: Incompatible types" in said
    assert "Found 1 error" in said


def test_its_package_is_one_of_ours_where_imports_are_sorted(tree):
    tool("ruff")
    tree.add_plugin("fresh", "import attrs\n\nimport gantrymq_fresh\n\n__all__ = ['attrs', 'gantrymq_fresh']\n")
    assert tree.run("-m", "ruff", "check", "--select", "I", "--no-cache") == (0, "All checks passed!\n")


def test_a_plugin_that_imports_what_it_may_breaks_no_contract(tree):
    tree.add_plugin("fresh", "import gantrymq.plugin\nimport gantrymq.errors\n")
    tree.add_plugin("other")
    assert tree.contracts() == set()


@pytest.mark.parametrize(
    ("source", "broken"),
    [
        ("import gantrymq_other.plugin", {INDEPENDENT}),
        ("import gantrymq.broker", {ONLY_INTERFACES, ONLY_PUBLIC}),
        ("import gantrymq.client", {ONLY_INTERFACES, ONLY_PUBLIC}),
        ("import gantrymq.interfaces", {ONLY_PUBLIC}),
        ("from gantrymq.model import names", {ONLY_PUBLIC}),
        ("import gantrymq_speedups", {ONLY_INTERFACES}),
    ],
)
def test_an_import_that_a_plugin_may_not_make_is_caught_in_it(tree, source, broken):
    tree.add_plugin("other")
    tree.add_plugin("fresh", f"{source}\n")
    assert tree.contracts() == broken


def test_core_may_not_import_it(tree):
    tree.add_plugin("fresh")
    tree.write("core/src/gantrymq/model/__init__.py", "import gantrymq_fresh.plugin\n")
    assert tree.contracts() == {CORE_ALONE}


def test_core_may_not_import_a_new_library(tree):
    tree.add_plugin("fresh", "import gantrymq_proving\n")
    tree.write("libs/proving/pyproject.toml", '[project]\nname = "gantrymq-proving"\n')
    tree.write("libs/proving/src/gantrymq_proving/__init__.py", "")
    tree.write("core/src/gantrymq/model/__init__.py", "import gantrymq_proving\n")
    assert tree.contracts() == {CORE_ALONE, ONLY_INTERFACES}


def test_what_a_plugin_says_that_it_may_import_it_alone_may(tree):
    source = "import gantrymq.client\nimport gantrymq_library.plugin\n"
    special = '[tool.gantrymq]\nmay-import = ["gantrymq.client", "gantrymq_library"]\n'
    tree.add_plugin("library")
    tree.add_plugin("fresh", source, special)
    assert tree.contracts() == set()
    tree.add_plugin("other", source)
    assert tree.contracts() == {INDEPENDENT, ONLY_INTERFACES, ONLY_PUBLIC}


def test_a_plugin_that_may_import_the_client_may_not_import_the_modules_below_it(tree):
    tree.write("core/src/gantrymq/client/calls/__init__.py", "")
    tree.add_plugin("fresh", "import gantrymq.client.calls\n", '[tool.gantrymq]\nmay-import = ["gantrymq.client"]\n')
    assert tree.contracts() == {ONLY_INTERFACES, ONLY_PUBLIC}


def test_a_plugin_may_not_import_another_for_what_that_one_may(tree):
    tree.add_plugin("library", "import gantrymq.client\n", '[tool.gantrymq]\nmay-import = ["gantrymq.client"]\n')
    tree.add_plugin("fresh", "import gantrymq_library.plugin\n")
    assert tree.contracts() == {INDEPENDENT}


def test_more_folders_of_tests_run_with_a_plugin_alone(tree):
    tree.add_plugin("fresh", special='[tool.gantrymq]\nmore-tests = ["other"]\n')
    assert tree.tox("config", "-e", "py311-fresh", "-k", "commands").rstrip().endswith(" tests/fresh tests/other")


def installed(tree, word):
    """The packages that an environment with core and plugin *word* installs."""
    ask = "import sys; sys.path[0] = '.ci'; import install_wheels as i; "
    ask += "print(*[each.name for each in i.chosen(sys.argv[1:], i.workspace.read())])"
    code, said = tree.run("-c", ask, word)
    return said.split() if code == 0 else said


def test_with_a_plugin_come_those_that_it_may_import(tree):
    tree.add_plugin("ground")
    tree.add_plugin("library", special='[tool.gantrymq]\nmay-import = ["gantrymq_ground"]\n')
    tree.add_plugin("fresh", special='[tool.gantrymq]\nmay-import = ["gantrymq_library.extract"]\n')
    assert installed(tree, "ground") == ["gantrymq", "gantrymq-ground"]
    assert installed(tree, "fresh") == ["gantrymq", "gantrymq-fresh", "gantrymq-ground", "gantrymq-library"]
    assert "no such plugin in this tree: missing" in installed(tree, "missing")


def test_a_library_comes_with_every_plugin(tree):
    tree.add_plugin("fresh")
    tree.write("libs/proving/pyproject.toml", '[project]\nname = "gantrymq-proving"\n')
    assert installed(tree, "fresh") == ["gantrymq", "gantrymq-proving", "gantrymq-fresh"]


def test_with_a_library_come_the_plugins_it_depends_on(tree):
    tree.add_plugin("fresh")
    tree.add_plugin("ground")
    tree.add_plugin("ground_floor")
    needs = ["gantrymq>=0.2", "gantrymq-ground>=0.2"]
    tree.write("libs/proving/pyproject.toml", f'[project]\nname = "gantrymq-proving"\ndependencies = {needs}\n')
    assert installed(tree, "fresh") == ["gantrymq", "gantrymq-proving", "gantrymq-ground", "gantrymq-fresh"]


def test_a_library_keeps_the_contracts_of_plugins(tree):
    tree.add_plugin("fresh", "import gantrymq.broker\n", "[tool.gantrymq]\nlibrary = true\n")
    assert tree.contracts() == {ONLY_INTERFACES, ONLY_PUBLIC}


def test_a_misspelt_key_of_a_plugin_is_named(tree):
    tree.add_plugin("fresh", special='[tool.gantrymq]\nmay_import = ["gantrymq.client"]\n')
    code, said = tree.run(".ci/lint_imports.py")
    assert code != 0
    assert (
        "plugins/fresh/pyproject.toml: [tool.gantrymq] has may_import, known are library, may-import, more-tests, "
        "standard" in said
    )
