"""Lists of plugins that people keep by hand agree with the plugins' own pyproject files."""

import configparser
import importlib
import itertools
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))
COMPILED = "speedups"
TESTING = "testing"
FOR_TESTS = ("storage_faults",)  # plugins that no broker in service has


def toml(*parts):
    return tomllib.loads(ROOT.joinpath(*parts).read_text())


def project(*parts):
    return toml(*parts, "pyproject.toml")["project"]


def distribution(word):
    return f"gantrymq-{word.replace('_', '-')}"


def standard():
    """Words of the plugins that the extra "standard" brings, beside the compiled functions."""
    listed = [need for need in project("core")["optional-dependencies"]["standard"] if "[" not in need]
    words = sorted(re.match(r"gantrymq-([a-z0-9-]+)", requirement)[1].replace("-", "_") for requirement in listed)
    words.remove(COMPILED)
    return words


@pytest.mark.parametrize("word", PLUGINS)
def test_one_word_makes_all_names_of_a_plugin(word):
    found = project("plugins", word)
    assert found["name"] == distribution(word)
    assert found["entry-points"]["gantrymq"] == {word: f"gantrymq_{word}.plugin"}
    folder = ROOT / "plugins" / word
    assert (folder / "src" / f"gantrymq_{word}" / "plugin.py").is_file()
    assert (folder / "src" / f"gantrymq_{word}" / "py.typed").is_file()
    assert any((ROOT / "tests" / word).glob("test_*.py"))


@pytest.mark.parametrize("folder", ["core", COMPILED, TESTING, *(f"plugins/{word}" for word in PLUGINS)])
def test_every_distribution_has_readme_licence_and_the_workspace_s_version(folder):
    found = project(folder)
    assert found["version"] == project("core")["version"]
    assert found["license"] == "Apache-2.0"
    assert (ROOT / folder / "README.md").read_text().startswith(f"# {found['name']}\n")
    assert (ROOT / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("word", PLUGINS)
def test_a_plugin_depends_on_core_and_on_no_other_plugin(word):
    ours = [need for need in project("plugins", word)["dependencies"] if need.startswith("gantrymq")]
    for_tests = [f"{distribution(TESTING)}>=0.1,<0.2"] if word in FOR_TESTS else []
    assert ours == ["gantrymq>=0.1,<0.2", *for_tests]


def test_the_package_says_the_version_of_its_distribution():
    source = (ROOT / "core/src/gantrymq/__init__.py").read_text()
    assert f'__version__ = "{project("core")["version"]}"' in source


def test_the_default_install_is_core_and_the_standard_plugins():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    listed = [line for line in lines if line and not line.startswith("#")]
    assert listed == ["./core[tls]", *(f"./plugins/{word}" for word in standard()), f"./{COMPILED}"]
    assert set(standard()) <= set(PLUGINS)


def test_tox_has_an_environment_for_each_plugin():
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini")
    listed = parser["tox"]["env_list"]
    assert "py{311,312,313}-{core,all}" in listed
    words = re.search(r"py311-\{(.*)\}", listed)[1].split(",")
    assert sorted(words) == PLUGINS
    commands = parser["testenv"]["commands"]
    installs = parser["testenv"]["commands_pre"]
    for word in PLUGINS:
        assert f"tests/{word}}}" in commands
        assert re.search(rf"^{word}: .* core {TESTING} {word}$", installs, re.MULTILINE)
        assert f"plugins/{word}/src" in parser["testenv:lint"]["set_env"]


def test_the_check_after_tox_expects_the_default_environments(monkeypatch):
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini")
    listed = set()
    for line in parser["tox"]["env_list"].split():
        choices = [part.strip("{}").split(",") for part in re.findall(r"\{[^}]*\}|[^{}]+", line)]
        listed |= {"".join(chosen) for chosen in itertools.product(*choices)}
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    check = importlib.import_module("check_groups")
    for present in ("runs", "java_is_here", "node_is_here", "libraries"):
        monkeypatch.setattr(check, present, lambda *_: True)
    assert set(check.expected_environments()) == listed


def test_the_readme_lists_every_distribution():
    listed = re.findall(r"^\| `(gantrymq[a-z0-9-]*)` \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert listed == ["gantrymq", *map(distribution, sorted([*PLUGINS, COMPILED, TESTING]))]


def test_the_tools_know_every_package():
    tools = toml("pyproject.toml")["tool"]
    packages = [f"gantrymq_{word}" for word in PLUGINS]
    known = tools["ruff"]["lint"]["isort"]["known-first-party"]
    assert known == ["gantrymq", *sorted([*packages, f"gantrymq_{COMPILED}", f"gantrymq_{TESTING}"])]
    assert [Path(path).parts[-2] for path in tools["mypy"]["mypy_path"]] == ["core", *PLUGINS, COMPILED, TESTING]
    linter = tools["importlinter"]
    assert linter["root_packages"] == ["gantrymq", *packages, f"gantrymq_{TESTING}"]
    by_name = {contract["name"]: contract for contract in linter["contracts"]}
    assert by_name["no plugin imports another"]["modules"] == packages
    assert by_name["core runs without any plugin"]["forbidden_modules"] == packages
    assert by_name["a plugin sees the broker only through gantrymq.interfaces"]["source_modules"] == packages
    serving = [f"gantrymq_{word}" for word in PLUGINS if word not in FOR_TESTS]
    assert by_name["what serves runs without what tests"]["source_modules"] == ["gantrymq", *serving]


def test_news_fragments_have_a_known_kind():
    kinds = {kind["directory"] for kind in toml("pyproject.toml")["tool"]["towncrier"]["type"]}
    for path in (ROOT / "changelog.d").glob("*.md"):
        if path.name != "README.md":
            assert path.name.split(".")[-2] in kinds, path.name
            assert path.read_text().startswith("gantrymq"), path.name
