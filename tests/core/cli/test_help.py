"""The help of every installed command is complete."""

import click
import pytest
from click.testing import CliRunner

from gantrymq.cli import main


def every_command(command=main, words=()):
    """Words and command of *command* and of all below it."""
    yield words, command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None, (*words, name)
            yield from every_command(found, (*words, name))


@pytest.fixture(scope="module", params=[80, 120])
def helps(request):
    return {
        words: CliRunner().invoke(main, [*words, "--help"], terminal_width=request.param)
        for words, _ in every_command()
    }


def test_every_command_explains_itself(helps):
    assert len(helps) > 6
    assert {words: done.output for words, done in helps.items() if done.exit_code} == {}


def test_no_sentence_is_cut(helps):
    cut = {words: line for words, done in helps.items() for line in done.stdout.splitlines() if line.endswith("...")}
    allowed = ("Usage: ",)  # COMMAND [ARGS]..., KEY=VALUE...
    assert {words: line for words, line in cut.items() if not line.startswith(allowed)} == {}


def test_every_sentence_of_a_list_ends(helps):
    """One that was cut anywhere lacks its full stop."""
    lists = {words: done.stdout.partition("Commands:\n")[2].rstrip() for words, done in helps.items()}
    shown = {words: listed for words, listed in lists.items() if listed}
    assert () in shown
    assert {words: listed for words, listed in shown.items() if not listed.endswith(".")} == {}
