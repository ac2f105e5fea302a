"""mqadmin's command names as hidden aliases: ``gantrymq topicList -n ADDR``.

Each takes mqadmin's options and runs the command listed in `mqadmin_names`, with its output, not mqadmin's.
"""

from __future__ import annotations

from typing import Any

import click

from gantrymq.errors import ClientError
from gantrymq.plugin.commands import CommandGroup, output_option
from gantrymq_admin.mqadmin_names import ELSEWHERE, NOT_BUILT, NOTHING, SAME, Same


class _Names(CommandGroup):
    """Creates a command when its name is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*SAME, *ELSEWHERE, *NOTHING, *NOT_BUILT])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in SAME:
            return _same(cmd_name, SAME[cmd_name])
        sentence = _sentence(cmd_name)
        return None if sentence is None else _refusing(cmd_name, sentence)


@click.group(cls=_Names)
def mqadmin() -> None:
    """Accept mqadmin's command names with mqadmin's options."""


def _sentence(name: str) -> str | None:
    """Return why there is no such command here, and an alternative; None for a name that mqadmin does not have."""
    if name in ELSEWHERE:
        return f"gantrymq has no {name}; {ELSEWHERE[name]}"
    if name in NOTHING:
        return f"gantrymq has nothing like {name}; RocketMQ's own mqadmin {name} works at our servers"
    if name in NOT_BUILT:
        return f"gantrymq has nothing like {name}, which is for a part that is not implemented in this version"
    return None


def _refusing(name: str, sentence: str) -> click.Command:
    def refuse(words: tuple[str, ...]) -> None:
        raise ClientError(sentence)

    return click.Command(
        name,
        callback=refuse,
        params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True},
        help=f"{sentence[0].upper()}{sentence[1:]}.",
        hidden=True,
    )


def _same(name: str, same: Same) -> click.Command:
    """Create a command with mqadmin's options."""
    ours = {}  # letter to name here
    params: list[click.Parameter] = [click.Option(["-n", "--namesrvAddr", "--namesrv", "n"], metavar="ADDR")]
    for text in same.options.split():
        option, _, here = text.partition(":")
        letter, _, long = option.partition("/")
        ours[letter] = here
        params.append(
            click.Option([f"-{letter}", f"--{long}", letter], help=f"Here: {here}." if here[:1] == "-" else "")
        )

    def forward(**given: Any) -> None:
        words = same.ours.split()
        said = {key: value for key, value in given.items() if value is not None}
        for letter in ("n", "output"):
            if letter in said:
                words += [f"{'-' if letter == 'n' else '--'}{letter}", said[letter]]
        for letter, here in ours.items():
            if letter in said and here:
                words += [said[letter]] if here == "@" else [here, said[letter]]
        _run([*words, *same.rest(said)])

    command = click.Command(
        name, callback=forward, params=params, help=f"RocketMQ's name of: gantrymq {same.ours}.", hidden=True
    )
    output_option(command)
    command.params[-1].default = None  # the other command has one
    return command


def _run(words: list[str]) -> None:
    """Run the command given by these words, as if they had been typed."""
    root = click.get_current_context().find_root()
    command, path = root.command, 0
    while isinstance(command, click.Group) and path < len(words) and not words[path].startswith("-"):
        found = command.get_command(root, words[path])
        assert found is not None, words
        command, path = found, path + 1
    with command.make_context(" ".join(words[:path]), words[path:], parent=root) as ctx:
        command.invoke(ctx)
