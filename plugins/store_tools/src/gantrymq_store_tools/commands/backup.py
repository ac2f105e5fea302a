"""``gantrymq store backup`` and ``gantrymq store restore``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

import click

from gantrymq.errors import StoreError
from gantrymq.plugin.commands import FilledPath, output_option, print_json, say
from gantrymq_store_tools.commands.options import levels_option, log_option
from gantrymq_store_tools.commands.output import repair_advice, show_findings
from gantrymq_store_tools.commands.progress import Paced, progress_bar

if TYPE_CHECKING:
    from gantrymq_store_tools.backup_manifest import Manifest


@click.command()
@click.argument("root", metavar="STORE", type=FilledPath(path_type=Path))
@click.argument("target", metavar="DIR", type=FilledPath(path_type=Path))
@click.option(
    "--link", is_flag=True, help="Hard links to full log files instead of copies, if DIR is on the same disk."
)
@click.option(
    "--previous",
    type=FilledPath(path_type=Path),
    metavar="DIR",
    help="An earlier backup, whose full log files are linked and not read from the store again.",
)
@click.option("--mb-per-second", type=click.FloatRange(min=0.1), metavar="N", help="Limit the reading from the disk.")
@click.option("--no-check", is_flag=True, help="Do not read the copy again to check it.")
@log_option
@levels_option
@output_option
@click.pass_context
def backup(
    ctx: click.Context,
    root: Path,
    target: Path,
    link: bool,
    previous: Path | None,
    mb_per_second: float | None,
    no_check: bool,
    log_folders: tuple[Path, ...],
    delay_levels: str | None,
    output: str,
) -> None:
    """Copy a store into the new folder DIR, while a broker has it open or not, and check the copy.

    Exit code 0: the backup is complete. 1: it is complete, but the store was damaged before: the damage is listed.
    """
    from gantrymq.plugin.real_world import RealClock, RealFiles
    from gantrymq_store_tools.backup import backup_store

    clock = RealClock()
    with _told(), progress_bar() as bars:
        progress = bars if mb_per_second is None else Paced(bars, mb_per_second * 1e6, clock.monotonic, sleep)
        report = backup_store(
            RealFiles(),
            root,
            target,
            clock.now_ms(),
            log_folders=log_folders,
            delay_levels=delay_levels,
            check=not no_check,
            link=link,
            previous=previous,
            progress=progress,
        )
    if output == "json":
        print_json(report.to_json())
    else:
        damages = [finding for finding in report.findings if finding.damage]
        show_findings(damages)
        click.echo(f"{target}: {_extent(report.manifest)}")
        if damages:
            advice = repair_advice(damages, root)
            say(advice if report.only_due_times else f"the store was damaged before; after a restore, {advice}")
    ctx.exit(1 if report.damaged else 0)


@click.command()
@click.argument("source", metavar="DIR", type=FilledPath(path_type=Path))
@click.argument("root", metavar="STORE", type=FilledPath(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Verify the backup and the target; write nothing.")
@click.option(
    "--rebuild-index",
    is_flag=True,
    help="Rebuild the whole index, for a Java broker, which would lack keys of some messages.",
)
@output_option
def restore(source: Path, root: Path, dry_run: bool, rebuild_index: bool, output: str) -> None:
    """Verify the backup in DIR and copy it into the empty or new folder STORE.

    Exit code 0: STORE is complete, and a GantryMQ or Java broker can open it. 1: the backup is incomplete or damaged,
    or STORE cannot be used.
    """
    from gantrymq.plugin.real_world import RealClock, RealFiles
    from gantrymq_store_tools.restore import restore_store

    index = RealClock().utc_offset_ms if rebuild_index else None
    with _told(), progress_bar() as progress:
        report = restore_store(RealFiles(), source, root, dry_run=dry_run, index=index, progress=progress)
    if output == "json":
        print_json(report.to_json())
        return
    click.echo(f"{source if dry_run else root}: {'sound, ' if dry_run else ''}{_extent(report.manifest)}")
    if not report.manifest.clean:
        say("the broker was running during the backup: its first start recovers the store, as after a kill")


@contextmanager
def _told() -> Iterator[None]:
    """Report errors of the operating system as one sentence."""
    try:
        yield
    except OSError as error:
        raise StoreError(str(error)) from error


def _extent(manifest: Manifest) -> str:
    records = "" if manifest.records is None else f"{manifest.records} records "
    return (
        f"{records}from log offset {manifest.log_start} to {manifest.log_end}, {len(manifest.files)} files, "
        f"{manifest.bytes:,} bytes"
    )
