"""``gantrymq plugin new``: creates a plugin project."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import click

from gantrymq.errors import ConfigError, InvalidParameter
from gantrymq.plugin.commands import CommandGroup, FilledPath, output_option, print_json
from gantrymq.plugin.model import SQL92, TAG
from gantrymq_kit.projects.generate import KINDS, project, word_of


@click.group(cls=CommandGroup)
def plugin() -> None:
    """Create plugin projects; see docs/plugins/README.md."""


@plugin.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.option("--into", type=FilledPath(path_type=Path), help="The project's folder; gantrymq-NAME by default.")
@output_option
def new(kind: str, name: str, into: Path | None, output: str) -> None:
    """Create a project for a filter type, allocation strategy, dispatcher, authorizer or store NAME.

    It is tested, typed and installable. The project works unchanged; replace the example code, and run its tests.
    """
    made = project(kind, name)
    _refuse_taken(word_of(name))
    folder = into or Path(f"gantrymq-{word_of(name).replace('_', '-')}")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(f"{folder} is there already and not empty; name another folder with --into")
        for path, text in made.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise ConfigError(f"the project cannot be written to {folder}: {problem}") from problem
    if output == "json":
        print_json({"folder": str(folder), "files": sorted(made)})
        return
    steps = f"cd {folder}\n  pip install -e '.[test]'\n  pytest && mypy"
    click.echo(f"{folder} has a plugin that works; try it:\n\n  {steps}")


def _refuse_taken(word: str) -> None:
    """Raise InvalidParameter if the name is taken, as a broker with both plugins would not start."""
    installed = {each.name for each in entry_points(group="gantrymq")}
    if word in installed or word.upper() in (TAG, SQL92):
        raise InvalidParameter(
            f"{word} is the name of a plugin or filter type that is there already, and a broker with two of one name "
            "does not start; take another name (gantrymq plugins lists what is installed)"
        )
