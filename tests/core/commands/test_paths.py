"""Paths on the command line: an empty one, as of an unset variable, is refused."""

import click
import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.commands.output import FilledPath


@click.command()
@click.argument("folder", type=FilledPath())
def show(folder):
    click.echo(folder)


def test_a_path_is_passed_on():
    assert CliRunner().invoke(show, ["a folder"]).output == "a folder\n"


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_path_is_refused(text):
    done = CliRunner().invoke(show, [text])
    assert done.exit_code == 2
    assert "the path is empty; a variable in it may not be set" in done.output


@pytest.mark.parametrize(
    "words",
    [
        ["start", "--store", ""],
        ["start", "-c", ""],
        ["start", "--log-file", ""],
        ["broker", "--store", ""],
        ["nameserver", "-c", ""],
        ["quickstart", "--store", ""],
        ["topic", "list", "--tls-config", ""],
        ["store", "check", ""],
        ["store", "repair", ""],
        ["store", "extract", "x", "--raw", ""],
        ["pipeline", "archive", ""],
        ["pipeline", "query", "--store", ""],
        ["pipeline", "query", "--topic", "T", "--to", ""],
        ["pipeline", "audit", "--archive", ""],
        ["pipeline", "stats", "--topic", "T", "--report", ""],
        ["plugin", "new", "x", "--into", ""],
    ],
    ids=" ".join,
)
def test_every_path_of_a_command_is_checked(words):
    done = CliRunner().invoke(main, words)
    if "No such command" in done.output or "pip install" in done.output:
        pytest.skip(f"the plugin that has {words[0]} is not installed")
    assert (done.exit_code, "the path is empty" in " ".join(done.output.split())) == (2, True), done.output
