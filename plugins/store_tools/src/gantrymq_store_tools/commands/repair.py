"""``gantrymq store repair``, ``rebuild-queues`` and ``rebuild-index``: write new files to a folder beside the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gantrymq.plugin.commands import output_option, print_json, say
from gantrymq_store_tools.commands.options import (
    folder_argument,
    index_layout_of,
    index_options,
    levels_option,
    log_option,
    refuse_if_in_use,
    target_option,
)
from gantrymq_store_tools.commands.output import show_findings, show_rebuilt
from gantrymq_store_tools.commands.progress import progress_bar

if TYPE_CHECKING:
    from gantrymq_store_tools.rebuild_store import RebuildReport


@click.command()
@folder_argument
@target_option
@log_option
@levels_option
@output_option
@click.pass_context
def repair(
    ctx: click.Context,
    root: Path,
    target: Path | None,
    log_folders: tuple[Path, ...],
    delay_levels: str | None,
    output: str,
) -> None:
    """Check a store and, if anything is wrong, make a repaired copy next to it. The store itself is not changed.

    Exit code 0: the copy is sound, or nothing was wrong and no copy was made. 1: the copy still has damage. 3: a broker
    has the store open.
    """
    from gantrymq.plugin.real_world import RealClock, RealFiles
    from gantrymq_store_tools.rebuild_store import sibling_folder
    from gantrymq_store_tools.repair import repair_store

    refuse_if_in_use(root)
    clock = RealClock()
    with progress_bar() as progress:
        report = repair_store(
            RealFiles(),
            root,
            target if target is not None else sibling_folder(root, "repaired"),
            clock.now_ms(),
            clock.utc_offset_ms,
            log_folders=log_folders,
            delay_levels=delay_levels,
            progress=progress,
        )
    if output == "json":
        print_json(report.to_json())
    elif report.target is None:
        click.echo(f"{root}: sound, nothing to repair")
    else:
        show_findings(report.before.findings)
        for sentence in report.done:
            click.echo(sentence)
        assert report.after is not None
        if report.after.damaged:
            say("remaining damage in the copy:")
            show_findings([finding for finding in report.after.findings if finding.damage])
        click.echo(f"{report.target}: {'damaged' if report.damaged else 'sound'}, {report.after.records} records")
    ctx.exit(1 if report.damaged else 0)


@click.command("rebuild-queues")
@folder_argument
@target_option
@log_option
@levels_option
@output_option
@click.pass_context
def rebuild_queues(
    ctx: click.Context,
    root: Path,
    target: Path | None,
    log_folders: tuple[Path, ...],
    delay_levels: str | None,
    output: str,
) -> None:
    """Rebuild consume queues from the commit log, in a folder next to the store.

    To use them, stop the broker and replace the store's consumequeue by the one of that folder.
    """
    from gantrymq.plugin.real_world import RealFiles
    from gantrymq_store_tools.rebuild_store import rebuild_queues as work
    from gantrymq_store_tools.rebuild_store import sibling_folder

    refuse_if_in_use(root)
    with progress_bar() as progress:
        report = work(
            RealFiles(),
            root,
            target if target is not None else sibling_folder(root, "rebuilt"),
            log_folders=log_folders,
            delay_levels=delay_levels,
            progress=progress,
        )
    _show(ctx, report, "queue", output)


@click.command("rebuild-index")
@folder_argument
@target_option
@log_option
@index_options
@output_option
@click.pass_context
def rebuild_index(
    ctx: click.Context,
    root: Path,
    target: Path | None,
    log_folders: tuple[Path, ...],
    slots: int | None,
    entries: int | None,
    tags: bool | None,
    output: str,
) -> None:
    """Rebuild index files from the commit log, in a folder next to the store.

    To use them, stop the broker and replace the store's index by the one of that folder.
    """
    from gantrymq.plugin.real_world import RealClock, RealFiles
    from gantrymq_store_tools.rebuild_store import rebuild_index as work
    from gantrymq_store_tools.rebuild_store import sibling_folder

    layout = index_layout_of(slots, entries)
    refuse_if_in_use(root)
    with progress_bar() as progress:
        report = work(
            RealFiles(),
            root,
            target if target is not None else sibling_folder(root, "rebuilt"),
            RealClock().utc_offset_ms,
            log_folders=log_folders,
            index_layout=layout,
            tag_keys=tags,
            progress=progress,
        )
    _show(ctx, report, "index", output)


def _show(ctx: click.Context, report: RebuildReport, what: str, output: str) -> None:
    if output == "json":
        print_json(report.to_json())
    else:
        show_rebuilt(report, what)
    ctx.exit(1 if report.damaged else 0)
