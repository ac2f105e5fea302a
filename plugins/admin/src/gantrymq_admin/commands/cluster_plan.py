"""``gantrymq cluster plan``: the settings files of a cluster of several machines, from one description."""

from __future__ import annotations

import contextlib
import io
import json
import secrets
import tempfile
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from gantrymq.errors import ConfigError
from gantrymq.plugin.commands import FilledPath, output_option, print_json, warn
from gantrymq.plugin.network import INNER_CREDENTIALS, inner_credentials
from gantrymq.plugin.real_world import RealFiles
from gantrymq.plugin.settings import Settings
from gantrymq.plugin.world import FileTree
from gantrymq_admin.commands.lists import Columns, print_records
from gantrymq_admin.planning.checking import notes, problems
from gantrymq_admin.planning.description import EXAMPLE, Description, parse
from gantrymq_admin.planning.placing import Server, name_server_list, place

_COMMANDS: Final = "commands.txt"
_PROBLEMS_SHOWN: Final = 10
_PRIVATE: Final = 0o600  # permission bits of files with the account of the servers
_OTHERS: Final = 0o007
_COLUMNS: Final[Columns] = (
    *("machine", ("Server", lambda server: server["kind"].replace("_", " ")), "name", "address", "metrics", "file"),
)


def _show_example(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(EXAMPLE, nl=False)
        ctx.exit()


@click.command()
@click.argument("source", type=FilledPath(dir_okay=False, path_type=Path), metavar="FILE")
@click.option(
    "-o",
    "--directory",
    "target",
    type=FilledPath(file_okay=False, path_type=Path),
    default="plan",
    show_default=True,
    metavar="DIR",
    help="Folder to write, with a folder for each machine.",
)
@click.option("--force", is_flag=True, help="Write into DIR although it has files; files of equal names are replaced.")
@click.option("--dry-run", is_flag=True, help="Check and show only.")
@click.option(
    "--example",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_example,
    help="Print an example of FILE.",
)
@output_option
@click.pass_context
def plan(ctx: click.Context, source: Path, target: Path, force: bool, dry_run: bool, output: str) -> None:
    """Write the settings files of a cluster's machines from one description, and check them.

    FILE is a description in TOML of machines, masters, slaves and name servers. DIR gets a folder for each machine with
    a settings file for each of its servers, and commands.txt with the commands that start them. Nothing is written if a
    check fails: settings as a server reads them, with the plugins installed here, and ports, folders and addresses.
    """
    files = RealFiles()
    try:
        description = parse(files.read(source), str(source))
    except OSError as problem:
        raise ConfigError(f"{source} cannot be read: {problem.strerror or problem}") from None
    account = _account(files, source.parent / description.access, write=not dry_run) if description.access else ""
    servers = place(description, account)
    _check(problems(description, servers), str(source))
    if description.slaves and find_spec("gantrymq_replication") is None:
        raise ConfigError(f"{source}: slaves need the plugin gantrymq-replication, which is not installed")
    told = [*notes(description, servers), *_notes_on_settings(ctx, servers, source, target)]
    if not dry_run:
        if not force and files.stat(target) is not None and files.list(target):
            raise ConfigError(f"{target} is not empty; --force writes into it, -o selects another folder")
        _write(files, target, servers, source, _PRIVATE if account else None)
    for note in told:
        warn(note)
    if output == "json":
        print_json(_document(description, servers, target, told, dry_run))
        return
    print_records(_records(servers, target), _COLUMNS)
    if not dry_run:
        _show_steps(description, servers)


def _check(found: Iterable[str], source: str) -> None:
    """Raise ConfigError with the problems that were *found*."""
    if sentences := list(dict.fromkeys(found)):
        more = f"; and {len(sentences) - _PROBLEMS_SHOWN} more" if len(sentences) > _PROBLEMS_SHOWN else ""
        raise ConfigError(f"{source}: {'; '.join(sentences[:_PROBLEMS_SHOWN])}{more}")


def _notes_on_settings(ctx: click.Context, servers: Sequence[Server], source: Path, target: Path) -> list[str]:
    """Check each file as ``gantrymq config`` does, and return its notes.

    Raises:
        ConfigError: a setting is invalid, or needs a feature that is not implemented.
    """
    main = ctx.find_root().command
    config = main.get_command(ctx, "config") if isinstance(main, click.Group) else None
    assert config is not None
    told: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for server in servers:
            path = Path(folder, server.machine, server.file)
            RealFiles().make_dirs(path.parent)
            RealFiles().replace(path, server.text(source.name).encode(), mode=_PRIVATE)
            kind = "broker" if server.broker else "nameserver"
            errors = io.StringIO()
            try:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
                    ctx.invoke(config, file=path, pairs=(), server=kind, explain=None, output="json")
            except ConfigError as problem:
                raise ConfigError(str(problem).replace(folder, str(target))) from None
            lines = errors.getvalue().replace(folder, str(target)).splitlines()
            told += [line.removeprefix("warning: ") for line in lines]
    return list(dict.fromkeys(told))


def _account(files: FileTree, path: Path, *, write: bool) -> str:
    """Return the account in a file, which is created with a random secret if it is missing.

    Raises:
        ConfigError: it cannot be read or written, is accessible to other users, or has no account.
    """
    try:
        status = files.stat(path)
        if status is None:
            made = json.dumps({"accessKey": "inner", "secretKey": secrets.token_hex(24)})
            if write:
                files.replace(path, f"{made}\n".encode(), mode=_PRIVATE)
            return made
        if status.mode & _OTHERS:
            raise ConfigError(
                f"{path} has a secret, and other users of this machine may read or change it; run: chmod o= {path}"
            )
        text = files.read(path).decode(errors="replace")
    except OSError as problem:
        raise ConfigError(f"{path} cannot be used: {problem.strerror or problem}") from None
    settings = Settings([INNER_CREDENTIALS])
    settings.set(INNER_CREDENTIALS.key, " ".join(text.split()), str(path))
    inner_credentials(settings)
    return settings.text(INNER_CREDENTIALS.key)


def _write(files: FileTree, target: Path, servers: Sequence[Server], source: Path, mode: int | None) -> None:
    try:
        for server in servers:
            files.make_dirs(target / server.machine)
            files.replace(target / server.machine / server.file, server.text(source.name).encode(), mode=mode)
        for machine in dict.fromkeys(server.machine for server in servers):
            commands = [server.command for server in servers if server.machine == machine]
            files.replace(target / machine / _COMMANDS, "".join(f"{command}\n" for command in commands).encode())
    except OSError as problem:
        raise ConfigError(f"{target} cannot be written: {problem.strerror or problem}") from None


def _document(
    description: Description, servers: Sequence[Server], target: Path, told: Sequence[str], dry_run: bool
) -> dict[str, Any]:
    return {
        "cluster": description.cluster,
        "namesrv": name_server_list(description),
        "directory": None if dry_run else str(target),
        "servers": _records(servers, target),
        "notes": list(told),
    }


def _records(servers: Sequence[Server], target: Path) -> list[dict[str, Any]]:
    return [
        {
            "machine": server.machine,
            "kind": server.kind.replace(" ", "_"),
            "name": server.broker or None,
            "address": server.address,
            "metrics": server.metrics or None,
            "file": str(target / server.machine / server.file),
            "command": server.command,
        }
        for server in servers
    ]


def _show_steps(description: Description, servers: Sequence[Server]) -> None:
    click.echo(f"Copy each machine's folder to its {description.config}, then start in this order:")
    for server in servers:
        click.echo(f"  {server.machine}: {server.command}")
    click.echo(f"Clients: NAMESRV_ADDR='{name_server_list(description)}'")
