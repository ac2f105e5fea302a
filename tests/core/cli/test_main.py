"""The command line as a whole: help, lazy loading, exit codes."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from gantrymq import __version__
from gantrymq.cli import COMMANDS, main
from gantrymq.errors import GantryError

HEAVY = ("numpy", "lark", "pyspark", "rich")


def invoke(*words):
    return CliRunner().invoke(main, words)


def modules_after(code):
    """Top-level modules that a new Python process has loaded after *code*."""
    program = f"import sys\n{code}\nprint(*{{name.partition('.')[0] for name in sys.modules}}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return done.stderr.split()


def test_help_lists_every_command_in_its_order():
    result = invoke("--help")
    assert result.exit_code == 0
    listed = [line.split()[0] for line in result.stdout.partition("Commands:")[2].splitlines() if line.strip()]
    assert listed[: len(COMMANDS)] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_exists_and_explains_itself(name):
    result = invoke(name, "--help")
    assert result.exit_code == 0, result.output
    assert "Usage:" in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_answer_in_json(name):
    command = main.get_command(click.Context(main), name)
    leaves = command.commands.values() if isinstance(command, click.Group) else [command]
    for leaf in leaves:
        assert "--output" in [word for parameter in leaf.params for word in parameter.opts], leaf.name


def test_version():
    assert __version__ in invoke("--version").stdout


def test_wrong_usage_is_exit_code_2():
    assert invoke("no-such-command").exit_code == 2
    assert invoke("start", "--no-such-option").exit_code == 2
    assert invoke("start", "--broker-port", "99999").exit_code == 2
    assert invoke("start", "--set", "listenPort").exit_code == 2


def test_an_error_raised_on_purpose_is_one_sentence_and_exit_code_1(monkeypatch):
    @click.command()
    def failing():
        raise GantryError("the disk said no; buy another")

    monkeypatch.setattr(type(main), "get_command", lambda self, ctx, name: failing)
    result = invoke("failing")
    assert result.exit_code == 1
    assert result.stderr == "gantrymq: the disk said no; buy another\n"
    assert result.stdout == ""


def test_an_error_that_is_a_bug_keeps_its_traceback(monkeypatch):
    @click.command()
    def failing():
        raise ZeroDivisionError

    monkeypatch.setattr(type(main), "get_command", lambda self, ctx, name: failing)
    assert isinstance(invoke("failing").exception, ZeroDivisionError)


def test_help_imports_nothing_heavy():
    code = "from gantrymq.cli import main\nmain(['--help'], standalone_mode=False)"
    assert set(modules_after(code)).isdisjoint(HEAVY)


def test_the_modules_of_a_server_import_nothing_heavy():
    code = "import gantrymq.cli.servers, gantrymq.cli.serving, gantrymq.world.real\n" + (
        "from gantrymq.plugins import load_plugins\nload_plugins(strict=False)"
    )
    assert set(modules_after(code)).isdisjoint(HEAVY)
