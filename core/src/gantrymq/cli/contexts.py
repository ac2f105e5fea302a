"""``gantrymq context``: named clusters for ``gantrymq -c NAME ...``, each with name servers and TLS settings.

They are in ``gantrymq/contexts.json`` of $XDG_CONFIG_HOME or ~/.config, a JSON object by name. It has no secrets: TLS
keys and passwords are in the file that a context names.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

import click

from gantrymq import strict_json
from gantrymq.client.routing.nameservers import parse_namesrv
from gantrymq.commands.groups import CommandGroup
from gantrymq.commands.output import FilledPath, check_namesrv, output_option, print_json, print_table, say
from gantrymq.config import NO_HOME, home_folder
from gantrymq.errors import ConfigError, InvalidParameter
from gantrymq.settings_load import nearest
from gantrymq.world.real import RealFiles


class Context(TypedDict):
    """One cluster."""

    namesrv: str
    tls: bool
    tls_config: str  # path of a file; empty for none


def read_context(name: str) -> Context:
    """Return the context *name*. Raises ConfigError: it does not exist, or the file cannot be read."""
    return _named(_read(), name)


def _named(contexts: Mapping[str, Context], name: str) -> Context:
    if name not in contexts:
        raise ConfigError(
            f"--context: there is no context {name}{nearest(name, contexts)}; 'gantrymq context list' lists them, "
            "and 'gantrymq context add' adds one"
        )
    return contexts[name]


@click.group(cls=CommandGroup)
def context() -> None:
    """Name clusters, for the option -c before a command."""


@context.command()
@click.argument("name")
@click.option(
    "-n", "--namesrv", required=True, metavar="ADDR", callback=check_namesrv, help="Name servers, as for commands."
)
@click.option("--tls", is_flag=True, help="Connect with TLS.")
@click.option("--tls-config", type=FilledPath(dir_okay=False), metavar="FILE", help="As for commands.")
@output_option
def add(name: str, namesrv: str, tls: bool, tls_config: str | None, output: str) -> None:
    """Add the context NAME."""
    if not name or name.startswith("-") or not name.isprintable():
        raise InvalidParameter(f"{name!r} cannot name a context; take a word such as prod")
    parse_namesrv(namesrv, "-n")
    if tls_config and RealFiles().stat(Path(tls_config)) is None:
        raise ConfigError(f"{tls_config} does not exist; --tls-config names a file")
    added = Context(namesrv=namesrv, tls=tls, tls_config=str(Path(tls_config).absolute()) if tls_config else "")
    with _changing() as contexts:
        if name in contexts:
            hint = f"remove it first with: gantrymq context remove {shlex.quote(name)}"
            raise ConfigError(f"context {name} exists; {hint}")
        contexts[name] = added
    _done(output, name, f"added; use it with: gantrymq -c {shlex.quote(name)} status")


@context.command("list")
@output_option
def list_(output: str) -> None:
    """List the contexts."""
    contexts = sorted(_read().items())
    if output == "json":
        print_json({"contexts": [{"name": name, **each} for name, each in contexts]})
    elif contexts:
        rows = [(name, each["namesrv"], _tls_of(each)) for name, each in contexts]
        print_table(("context", "name servers", "TLS"), rows)
    else:
        say("no contexts; add one with: gantrymq context add NAME -n ADDR")


@context.command()
@click.argument("name")
@output_option
def remove(name: str, output: str) -> None:
    """Remove the context NAME."""
    with _changing() as contexts:
        _named(contexts, name)
        del contexts[name]
    _done(output, name, "removed")


def _tls_of(each: Context) -> str:
    return each["tls_config"] or ("yes" if each["tls"] else "no")


def _done(output: str, name: str, what: str) -> None:
    if output == "json":
        print_json({"context": name})
    else:
        click.echo(f"context {name} {what}")


def _path() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if Path(folder).is_absolute():
        return Path(folder) / "gantrymq" / "contexts.json"
    home = home_folder()
    if home is None:
        raise ConfigError(f"contexts have no folder because {NO_HOME}; $XDG_CONFIG_HOME sets it")
    return home / ".config" / "gantrymq" / "contexts.json"


def _read() -> dict[str, Context]:
    path, files = _path(), RealFiles()
    try:
        found = strict_json.loads(files.read(path)) if files.stat(path) is not None else {}
    except OSError as problem:
        raise ConfigError(f"{path}: {problem.strerror or problem}") from problem
    except ValueError as problem:
        raise ConfigError(f"{path}: {problem}") from problem
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: expected a JSON object of contexts by name")
    return {name: _checked(path, name, each) for name, each in found.items()}


def _checked(path: Path, name: str, each: object) -> Context:
    if isinstance(each, dict):
        namesrv, tls, tls_config = each.get("namesrv"), each.get("tls", False), each.get("tls_config", "")
        if isinstance(namesrv, str) and namesrv and isinstance(tls, bool) and isinstance(tls_config, str):
            return Context(namesrv=namesrv, tls=tls, tls_config=tls_config)
    raise ConfigError(
        f'{path}: context {name} is not {{"namesrv": "host:port", "tls": false, "tls_config": ""}}; correct the file, '
        "or delete it to remove all contexts"
    )


@contextmanager
def _changing() -> Iterator[dict[str, Context]]:
    """Return all contexts, and write them at the end; no other process changes them meanwhile."""
    path, files = _path(), RealFiles()
    try:
        files.make_dirs(path.parent)
        lock = files.lock_folder(path.parent)
    except OSError as problem:
        raise ConfigError(f"{path}: {problem.strerror or problem}") from problem
    if lock is None:
        raise ConfigError(f"{path} is being changed by another command; repeat this one")
    try:
        contexts = _read()
        yield contexts
        files.replace(path, strict_json.dumps(contexts))
    except OSError as problem:
        raise ConfigError(f"{path}: {problem.strerror or problem}") from problem
    finally:
        lock.release()
