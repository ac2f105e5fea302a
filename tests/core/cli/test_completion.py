"""Shell completion: results for bash, without importing commands."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from gantrymq.cli import COMMANDS, main
from gantrymq.commands.imported import ImportedCommand

BIN = Path(sys.executable).parent
SHELLS = ("bash", "zsh", "fish")
needs_admin = pytest.mark.skipif(find_spec("gantrymq_admin") is None, reason="needs gantrymq-admin")


def named(*words, incomplete=""):
    command, ctx = main, click.Context(main)
    for word in words:
        command = command.get_command(ctx, word)
        ctx = click.Context(command, parent=ctx)
    return [item.value for item in command.shell_complete(ctx, incomplete)]


def test_nothing_is_imported_to_name_commands(monkeypatch):
    monkeypatch.setattr(ImportedCommand, "load", lambda self: pytest.fail(f"{self.where} was imported"))
    assert set(COMMANDS) <= set(named())
    assert named(incomplete="quick") == ["quickstart"]


def test_options_and_their_values_are_named():
    assert "--broker-port" in named("start", incomplete="--broker")
    assert "--version" in named(incomplete="--v")


@needs_admin
def test_commands_of_plugins_and_below_groups_are_named():
    assert {"topic", "group", "bench"} <= set(named())
    assert named("topic", incomplete="st") == ["status"]
    assert "--topic" in named("topic", "status", incomplete="--")


@needs_admin
def test_what_the_help_leaves_out_is_not_named():
    assert {"mqadmin", "topicList"}.isdisjoint(named())


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_script_for_each_shell_of_the_docs(shell):
    environ = {**os.environ, "_GANTRYMQ_COMPLETE": f"{shell}_source"}
    done = subprocess.run([BIN / "gantrymq"], env=environ, capture_output=True, text=True, timeout=60, check=True)
    assert f"_GANTRYMQ_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("quick", ["quickstart"], id="core"),
        pytest.param("start --log-level war", ["warning"], id="value"),
        pytest.param("topic cre", ["create"], id="plugin", marks=needs_admin),
        pytest.param("topic create --fewer", ["--fewer-queues"], id="option", marks=needs_admin),
    ],
)
def test_bash_completes(words, expected):
    typed = ["gantrymq", *words.split()]
    script = (
        'eval "$(_GANTRYMQ_COMPLETE=bash_source gantrymq)"\n'
        f"COMP_WORDS=({' '.join(typed)}); COMP_CWORD={len(typed) - 1}\n"
        f'_gantrymq_completion gantrymq "{typed[-1]}" "{typed[-2]}"\n'
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environ = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == expected, done.stderr
