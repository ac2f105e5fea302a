"""docs/operations/README.md names commands that exist."""

import re
from pathlib import Path

import click
import pytest

from gantrymq.cli import main
from gantrymq.cli.extensible_group import TO_INSTALL

PAGE = (Path(__file__).parents[2] / "docs/operations/README.md").read_text()
NAMED = sorted(set(re.findall(r"`gantrymq ([a-z]+(?:-[a-z]+)?(?: [a-z]+(?:-[a-z]+)?)*)", PAGE)))


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


@pytest.mark.parametrize("words", ["bench", "group", "message", "transactions"])
def test_every_command_of_a_group_is_on_the_page(words):
    pytest.importorskip(TO_INSTALL[words].replace("-", "_"))
    group = main.get_command(click.Context(main), words)
    assert isinstance(group, click.Group)
    assert {f"{words} {name}" for name in group.list_commands(click.Context(group))} <= {
        named.strip() for named in NAMED
    }
