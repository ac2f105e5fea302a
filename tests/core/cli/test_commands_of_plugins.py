"""Commands of plugins: loading, lazy imports, and errors for missing plugins."""

import sys
from types import ModuleType, SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.cli.extensible_group import TO_INSTALL
from gantrymq.errors import install_command
from gantrymq.hooks import hookimpl
from gantrymq.plugins import Candidate


@click.command()
def greet():
    """Say hello."""
    click.echo("hello")


class Installed:
    """Fictitious installed plugins."""

    def __init__(self):
        self.candidates = []
        self.loaded = []

    def of(self, distribution):
        """The entry points of one distribution, or all."""
        return [each for each in self.candidates if distribution in ("", each.distribution)]

    def add(self, name, register, distribution=""):
        """*register*: the plugin's hook for commands."""
        module = ModuleType(name)

        def gantry_register_commands(registry):
            self.loaded.append(name)
            register(registry)

        gantry_register_commands.__module__ = name
        module.gantry_register_commands = hookimpl(gantry_register_commands)
        self.candidates.append(Candidate(name, distribution or f"gantrymq-{name}", "1.0", given=module))


@pytest.fixture
def installed(monkeypatch):
    found = Installed()
    monkeypatch.setattr("gantrymq.plugins.load.find_candidates", lambda only: (found.of(only), []))
    monkeypatch.setitem(TO_INSTALL, "greet", "gantrymq-greetings")
    return found


def place(module):
    return lambda registry: registry.add_imported("greet", f"{module}:greet", "Say hello.")


def invoke(*words):
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize(
    "register", [lambda registry: registry.add(greet), place("greetings")], ids=["here", "imported"]
)
def test_a_command_runs_and_is_in_the_help(installed, register, monkeypatch):
    monkeypatch.setitem(sys.modules, "greetings", SimpleNamespace(greet=greet))
    installed.add("other", lambda registry: None)
    installed.add("greetings", register)
    assert invoke("greet").stdout == "hello\n"
    assert installed.loaded == ["greetings"]
    assert "greet       Say hello." in invoke("--help").stdout


def test_a_command_of_a_plugin_that_core_does_not_know_is_looked_for_in_all(installed, monkeypatch):
    monkeypatch.delitem(TO_INSTALL, "greet")
    installed.add("one", lambda registry: None)
    installed.add("two", lambda registry: registry.add(greet))
    assert invoke("greet").stdout == "hello\n"
    assert installed.loaded == ["one", "two"]


def test_another_plugin_may_bring_the_command(installed):
    installed.add("other", lambda registry: registry.add(greet))
    assert invoke("greet").stdout == "hello\n"


def test_the_help_imports_no_command(installed):
    installed.add("greetings", place("no_such_module"))
    assert "greet       Say hello." in invoke("--help").stdout


def test_without_the_plugin_one_sentence_says_what_to_install(installed):
    done = invoke("greet")
    command = install_command("gantrymq-greetings")
    said = f"greet is a command of a plugin that is not installed; install it with: {command}"
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", f"gantrymq: {said}\n")


def test_without_the_kit_one_sentence_says_what_to_install(installed):
    done = invoke("plugin", "new", "store", "counting")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "plugin is a command of a plugin that is not installed" in done.stderr
    assert f"install it with: {install_command('gantrymq-kit')}" in done.stderr


def test_a_broken_plugin_is_not_to_be_installed_again(installed):
    def fail(registry):
        raise RuntimeError("no reason")

    installed.add("greetings", fail)
    done = invoke("greet")
    assert done.exit_code == 1
    assert done.stderr.startswith("gantrymq: plugin greetings (gantrymq-greetings 1.0) failed in")
    assert "pip install" not in done.stderr


def test_a_module_that_does_not_import_is_one_sentence(installed):
    installed.add("greetings", place("no_such_module"))
    done = invoke("greet")
    assert done.exit_code == 1
    assert done.stderr.startswith("gantrymq: the command greet does not import: No module named 'no_such_module'; ")


def test_a_subcommand_of_core_s_group_is_registered_under_both_words(installed):
    installed.add("other", lambda registry: registry.add_imported("broker greet", f"{__name__}:greet", "Say hello."))
    assert "greet  Say hello." in invoke("broker", "--help").stdout
    assert "broker greet" not in invoke("--help").stdout
    assert invoke("greet").exit_code == 1


def test_a_group_without_subcommands_lists_none(installed):
    assert "Commands:" not in invoke("broker", "--help").stdout
