"""docs/operations.md names commands that exist."""

import re
from pathlib import Path

import click
import pytest

from gantrymq.cli import main
from gantrymq.cli.open_group import TO_INSTALL

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
NAMED = sorted(set(re.findall(r"`gantrymq ([a-z ]+)", PAGE)))


@pytest.mark.parametrize("words", NAMED)
def test_a_command_of_the_page_exists(words):
    for first in TO_INSTALL:
        if words.startswith(first):
            pytest.importorskip(TO_INSTALL[first].replace("-", "_"))
    command: click.Command = main
    for word in words.split():
        assert isinstance(command, click.Group), words
        found = command.get_command(click.Context(command), word)
        assert found is not None, words
        command = found


def test_every_command_of_groups_is_on_the_page():
    group = main.get_command(click.Context(main), "group")
    assert isinstance(group, click.Group)
    assert {f"group {name}" for name in group.commands} <= {words.strip() for words in NAMED}
