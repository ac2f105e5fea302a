"""Commands that are imported when they are used."""

import sys

import click
import pytest

from gantrymq.commands.imported import ImportedCommand


def test_the_command_is_what_stands_at_the_place(tmp_path, monkeypatch):
    (tmp_path / "greetings.py").write_text("import click\n\n@click.command()\ndef greet(): pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    command = ImportedCommand("greetings:greet", "Say hello.")
    assert "greetings" not in sys.modules
    found = command.load()
    assert isinstance(found, click.Command)
    assert found.name == "greet"
    del sys.modules["greetings"]


def test_a_module_that_is_missing_raises_what_python_raises():
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        ImportedCommand("no_such_module:greet", "Say hello.").load()
