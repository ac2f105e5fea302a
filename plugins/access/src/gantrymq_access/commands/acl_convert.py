"""``gantrymq acl convert``: users and policies from the accounts of plain_acl.yml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gantrymq.errors import ClientError, StoreError
from gantrymq.plugin.commands import FilledPath, output_option, print_json, say, warn
from gantrymq.plugin.real_world import RealFiles
from gantrymq_access.converting import Conversion, converted
from gantrymq_access.state import ACLS, USERS, acls_text, users_text
from gantrymq_access_plain.accounts import Rules, read_rule_file
from gantrymq_admin.commands.lists import Columns, print_records

_OWNER_ONLY = 0o600
_COLUMNS: Columns = ("user", "type", "entries")


@click.command()
@click.argument("sources", nargs=-1, required=True, type=FilledPath(dir_okay=False, path_type=Path), metavar="FILE...")
@click.option(
    "-o",
    "--directory",
    "target",
    type=FilledPath(file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    metavar="DIR",
    help="Folder to write, such as config in the store of a stopped broker.",
)
@click.option("--force", is_flag=True, help="Replace users.json and acls.json in DIR.")
@click.option("--dry-run", is_flag=True, help="Show only.")
@output_option
def convert(sources: tuple[Path, ...], target: Path, force: bool, dry_run: bool, output: str) -> None:
    """Convert the accounts of plain_acl.yml into users.json and acls.json, and warn of what is not carried over.

    FILE is plain_acl.yml, and after it the files of conf/acl. If an account is in two files, the first one is taken.
    The files in DIR can be read by their owner only, because they have the secrets.
    """
    files = RealFiles()
    read = []
    for source in sources:
        try:
            read.append(read_rule_file(files.read(source), str(source)))
        except OSError as problem:
            raise ClientError(f"{source} cannot be read: {problem.strerror or problem}") from None
    found = converted(Rules.of(read))
    paths = [target / USERS, target / ACLS]
    if not dry_run:
        existing = [str(each) for each in paths if files.stat(each) is not None]
        if existing and not force:
            raise ClientError(f"{' and '.join(existing)} exist; --force replaces them, -o selects another folder")
        _write(files, dict(zip(paths, (users_text(found.users.values()), acls_text(found.acls.values())), strict=True)))
    for sentence in found.warnings:
        warn(sentence)
    _show(found, paths, dry_run, output)


def _write(files: RealFiles, texts: dict[Path, str]) -> None:
    for path, text in texts.items():
        try:
            files.make_dirs(path.parent)
            files.replace(path, text.encode(), _OWNER_ONLY)
        except OSError as problem:
            raise StoreError(f"{path} cannot be written: {problem.strerror or problem}") from None


def _show(found: Conversion, paths: list[Path], dry_run: bool, output: str) -> None:
    rows: list[dict[str, Any]] = [
        {
            "user": name,
            "type": user.type.value,
            "entries": found.acls[name].size if name in found.acls else 0,
        }
        for name, user in found.users.items()
    ]
    if output == "json":
        written = [] if dry_run else list(map(str, paths))
        print_json({"users": rows, "warnings": list(found.warnings), "written": written})
        return
    print_records(rows, _COLUMNS)
    if not dry_run:
        say(f"{len(rows)} users and {sum(row['entries'] for row in rows)} entries are in {paths[0]} and {paths[1]}")
