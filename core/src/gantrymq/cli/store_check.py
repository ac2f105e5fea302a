"""``gantrymq store check`` and ``stat``: what is wrong with a store, and what is in it."""

from __future__ import annotations

import time
from pathlib import Path

import click

from gantrymq.cli.output import output_option, print_json, print_table, say
from gantrymq.cli.store_common import (
    folder_argument,
    levels_option,
    log_option,
    progress_bar,
    show_findings,
    warn_if_in_use,
)


@click.command()
@folder_argument
@log_option
@levels_option
@click.option("--no-crc", is_flag=True, help="Leave out the bodies' check sums.")
@output_option
@click.pass_context
def check(
    ctx: click.Context, root: Path, log_folders: tuple[Path, ...], delay_levels: str, no_crc: bool, output: str
) -> None:
    """Read a whole store and hold everything in it against its commit log. Writes nothing.

    Exit code 0: nothing is wrong. 1: something is, each thing is listed with its place.
    """
    from gantrymq.offline.check import check_store
    from gantrymq.world.real import RealFiles

    warn_if_in_use(root)
    with progress_bar() as progress:
        report = check_store(
            RealFiles(),
            root,
            log_folders=log_folders,
            delay_levels=delay_levels,
            check_crc=not no_crc,
            progress=progress,
        )
    if output == "json":
        print_json(report.to_json())
    else:
        show_findings(report.findings)
        damages = sum(finding.damage for finding in report.findings)
        click.echo(f"{root}: {'sound' if not damages else f'damaged, {damages} findings'}")
        say(
            f"{report.records} records from log offset {report.log_start} to {report.log_end}, {report.queue_entries} "
            f"entries of {report.queues} queues, {report.batch_entries} of {report.batch_queues} batch queues, "
            f"{report.index_entries} of {report.index_files} index files"
        )
        if damages:
            say(f"a repaired copy is made by: gantrymq store repair {root}")
    ctx.exit(1 if report.damaged else 0)


@click.command()
@folder_argument
@log_option
@output_option
@click.pass_context
def stat(ctx: click.Context, root: Path, log_folders: tuple[Path, ...], output: str) -> None:
    """Count what the commit log holds, by topic and queue. Writes nothing; exit code 1 if the log is damaged."""
    from gantrymq.offline.layout import find_layout
    from gantrymq.offline.totals import stat_store
    from gantrymq.world.real import RealFiles

    warn_if_in_use(root)
    files = RealFiles()
    with progress_bar() as progress:
        found = stat_store(files, find_layout(files, root, log_folders), progress=progress)
    if output == "json":
        print_json(found.to_json())
    else:
        print_table(
            ["Topic", "Queue", "Messages", "Bytes", "Min offset", "Max offset", "First stored", "Last stored"],
            [
                (
                    queue.topic,
                    queue.queue_id,
                    each.records,
                    each.bytes,
                    each.min_offset,
                    each.max_offset,
                    _moment(each.first_ms),
                    _moment(each.last_ms),
                )
                for queue, each in sorted(found.queues.items())
            ],
        )
        say(
            f"{found.records} records of {found.record_bytes} bytes from log offset {found.log_start} to "
            f"{found.log_end}, {found.log_files} log files of {found.log_file_bytes} bytes, {found.queue_files} queue "
            f"files, {found.index_keys} keys in {found.index_files} index files"
        )
        if found.damaged_places:
            say(f"{found.damaged_places} places of {found.damaged_bytes} bytes hold no sound record")
    ctx.exit(1 if found.damaged_places else 0)


def _moment(time_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ms / 1000)) if time_ms > 0 else "-"
