"""The plugin: what it registers, that it is there, and that nothing of it is imported before it is used."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.cli.extensible_group import TO_INSTALL
from gantrymq.plugins import load_plugins
from gantrymq_admin import plugin


def test_registers_what_the_command_line_says_it_brings():
    found = load_plugins(extra=[("admin", plugin)], installed=False)
    assert set(found.commands) == {words for words, name in TO_INSTALL.items() if name == "gantrymq-admin"}
    assert [info.registers for info in found.infos] == [tuple(f"command {words}" for words in plugin.COMMANDS)]


@pytest.mark.parametrize("words", plugin.COMMANDS)
def test_every_command_is_at_its_place_and_explains_itself(words):
    done = CliRunner().invoke(main, [*words.split(), "--help"])
    assert (done.exit_code, done.stdout.startswith(f"Usage: main {words} ")) == (0, True), done.output


def commands_of(group):
    """Return the commands of a group by name; mqadmin's are hints, which it does not list."""
    context = click.Context(group)
    return {name: group.get_command(context, name) for name in dict(group.purposes(context))}


def leaves_of(command):
    if not isinstance(command, click.Group):
        return [command]
    return [leaf for each in commands_of(command).values() for leaf in leaves_of(each)]


@pytest.mark.parametrize("words", plugin.COMMANDS)
def test_the_help_says_of_each_command_what_its_own_help_begins_with(words):
    command = load_plugins(extra=[("admin", plugin)], installed=False).commands[words].load()
    if isinstance(command, click.Group):
        shown = dict(command.purposes(click.Context(command)))
        assert shown == {name: each.get_short_help_str(1000) for name, each in commands_of(command).items()}


@pytest.mark.parametrize("words", plugin.COMMANDS)
def test_every_command_can_answer_in_json(words):
    command = load_plugins(extra=[("admin", plugin)], installed=False).commands[words].load()
    for leaf in leaves_of(command):
        assert "--output" in [word for parameter in leaf.params for word in parameter.opts], leaf.name


@pytest.mark.parametrize(
    "start",
    [
        "from gantrymq.cli import main\nmain(['--help'], standalone_mode=False)",
        "from gantrymq.plugins import load_plugins\nload_plugins()",
    ],
    ids=["help", "server"],
)
def test_the_help_and_servers_import_none_of_it(start):
    program = f"import sys\n{start}\nprint(*(name for name in sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    loaded = {name for name in done.stderr.split() if name.startswith("gantrymq_admin")}
    assert loaded == {"gantrymq_admin", "gantrymq_admin.plugin"}
