"""`gantrymq plugin new` creates a project; tests/template installs such projects and runs their tests."""

import ast
import json
import os
import subprocess
import sys
import tomllib

import pytest
from click.testing import CliRunner

from gantrymq.errors import ConfigError, InvalidParameter
from gantrymq_kit.projects.command import plugin
from gantrymq_kit.projects.generate import KINDS, project, word_of


def new(*words):
    return CliRunner().invoke(plugin, ["new", *map(str, words)], catch_exceptions=True)


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_is_filled_in_and_reads(kind):
    made = project(kind, "Json-Body")
    assert not [
        path for path, text in made.items() if "@" in path or "@word" in text.lower() or "@class" in text.lower()
    ]
    for path, text in made.items():
        if path.endswith(".py"):
            ast.parse(text)
    described = tomllib.loads(made["pyproject.toml"])
    assert described["project"]["name"] == "gantrymq-json-body"
    assert described["project"]["entry-points"]["gantrymq"] == {"json_body": "gantrymq_json_body.plugin"}
    assert made["src/gantrymq_json_body/py.typed"] == ""
    assert {"README.md", "src/gantrymq_json_body/__init__.py", "src/gantrymq_json_body/plugin.py"} < set(made)


@pytest.mark.parametrize("kind", KINDS)
def test_a_project_imports_public_names_only(kind):
    allowed = ("gantrymq.plugin", "gantrymq.errors", "gantrymq_colour", "gantrymq_testing", "gantrymq_storage_mmap")
    for path, text in project(kind, "colour").items():
        if path.endswith(".py"):
            nodes = list(ast.walk(ast.parse(text)))
            modules = [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
            modules += [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
            may = (*allowed, "gantrymq.client") if path.startswith("tests/") else allowed
            assert [each for each in modules if each.startswith("gantrymq") and not each.startswith(may)] == [], path


def test_warnings_of_other_pytest_plugins_do_not_stop_the_tests(tmp_path):
    """pytest-asyncio warns when it is configured."""
    (tmp_path / "pyproject.toml").write_text(project("filter", "colour")["pyproject.toml"])
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_nothing.py").write_text("def test_nothing(): pass\n")
    (tmp_path / "warner.py").write_text(
        "import warnings, pytest\n"
        "def pytest_configure(config):\n"
        "    warnings.warn(pytest.PytestDeprecationWarning('an option is unset'))\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "warner", "-p", "no:cacheprovider"]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr


def test_the_command_writes_them(tmp_path):
    done = new("filter", "colour", "--into", tmp_path / "here", "--output", "json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.output)
    assert said["folder"] == str(tmp_path / "here")
    assert (
        sorted(str(each.relative_to(tmp_path / "here")) for each in (tmp_path / "here").rglob("*.*")) == said["files"]
    )


def test_without_a_folder_it_is_named_for_the_distribution(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = new("allocation", "two_halves").output
    assert "cd gantrymq-two-halves" in said
    assert (tmp_path / "gantrymq-two-halves" / "src" / "gantrymq_two_halves" / "strategy.py").is_file()


def test_what_is_there_stays_as_it_is(tmp_path):
    (tmp_path / "mine.py").write_text("x = 1")
    refused = new("filter", "colour", "--into", tmp_path).exception
    assert isinstance(refused, ConfigError)
    assert "is there already and not empty; name another folder with --into" in str(refused)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.py"]


@pytest.mark.parametrize("name", ["", "1a", "a b", "class", "a__b", "_a", "a_", "ä", "a/b", "../a", "a" * 41])
def test_a_name_that_is_no_word_is_refused(name):
    with pytest.raises(InvalidParameter, match="cannot name a plugin: take one word"):
        word_of(name)


@pytest.mark.parametrize("name", ["kit", "Kit", "tag", "SQL92"])
def test_a_name_that_is_taken_is_refused(tmp_path, name):
    done = new("filter", name, "--into", tmp_path / "project")
    assert isinstance(done.exception, InvalidParameter)
    assert "there already" in str(done.exception)
    assert not (tmp_path / "project").exists()
