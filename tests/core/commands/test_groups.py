"""Command groups: complete sentences in the help, and suggestions for misspelt names."""

import click
import pytest
from click.testing import CliRunner

from gantrymq.commands.groups import CommandGroup
from gantrymq.commands.imported import ImportedCommand
from gantrymq.errors import PluginError

SENTENCE = "Do what this long sentence says, which is longer than any terminal is wide, and do it to the very last word"


@click.group(cls=CommandGroup)
def group():
    """Commands."""


@group.command("listen", help=f"{SENTENCE}. And another sentence.")
@click.option("--output")
def listen(output):
    click.echo("listening")


@group.command("secret", hidden=True)
def secret():
    """Not shown."""


def invoke(*words):
    return CliRunner().invoke(group, words)


def test_the_help_has_the_first_sentence_whole():
    shown = " ".join(invoke("--help").stdout.split())
    assert f"listen {SENTENCE}." in shown
    assert "..." not in shown.replace("[ARGS]...", "")
    assert "another sentence" not in shown


def test_hidden_commands_are_not_listed():
    assert "secret" not in invoke("--help").stdout


@pytest.mark.parametrize("name", ["lisen", "listens", "lsten"])
def test_a_misspelt_command_is_told_what_may_have_been_meant(name):
    done = invoke(name)
    assert done.exit_code == 2
    assert f"No such command '{name}'. Did you mean listen?" in done.stderr


@click.group(cls=CommandGroup)
def things():
    """Things."""


for each in ("clients", "create", "delete", "list", "reset", "status"):
    things.command(each)(lambda: None)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("describe", "status"),
        ("describe-all", "status"),
        ("reset-offset", "reset"),
        ("ls", "list"),
        ("rm", "delete"),
        ("members", "clients"),
        ("lists", "list"),
    ],
)
def test_names_of_other_tools_are_told_the_command_here(name, meant):
    done = CliRunner().invoke(things, [name])
    assert f"No such command '{name}'. Did you mean {meant}?" in done.stderr


def test_nothing_is_suggested_where_nothing_is_near():
    done = invoke("xyz")
    assert (done.exit_code, "Did you mean" in done.stderr) == (2, False)
    assert "No such command 'xyz'." in done.stderr


def test_a_hidden_command_is_not_suggested_but_runs():
    assert "Did you mean" not in invoke("secre").stderr
    assert invoke("secret").exit_code == 0


def test_a_misspelt_option_is_told_as_well():
    assert "--output" in invoke("listen", "--outptu").stderr


@click.command()
def rare():
    """Do something rare. In detail."""
    click.echo("done")


@pytest.fixture
def mixed():
    found = {"rare": ImportedCommand(f"{__name__}:rare", "Do something rare."), "hidden": ImportedCommand("no:one", "")}
    group = CommandGroup("mixed", imported=found)
    group.command("usual")(lambda: None)
    return group


def test_a_command_is_imported_when_it_is_used(mixed):
    assert CliRunner().invoke(mixed, ["rare"]).stdout == "done\n"
    assert CliRunner().invoke(mixed, ["usual"]).exit_code == 0
    assert "Do something rare. In detail." in CliRunner().invoke(mixed, ["rare", "--help"]).stdout
    assert "Did you mean rare?" in CliRunner().invoke(mixed, ["rar"]).stderr


def test_the_help_names_commands_that_are_not_imported(mixed):
    shown = CliRunner().invoke(mixed, ["--help"]).stdout
    assert "Do something rare." in shown
    assert "usual" in shown
    assert "hidden" not in shown


@pytest.mark.parametrize("where", ["no_such_package.module:command", "gantrymq.errors.no_such_module:command"])
def test_a_command_that_does_not_import_is_reported_in_a_sentence(where):
    @click.group(cls=CommandGroup, imported={"broken": ImportedCommand(where, "Do something.")})
    def group():
        """Commands."""

    done = CliRunner().invoke(group, ["broken"])
    assert isinstance(done.exception, PluginError)
    assert "the command broken does not import: No module named" in str(done.exception)
