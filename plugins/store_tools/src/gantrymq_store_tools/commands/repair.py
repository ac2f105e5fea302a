"""``gantrymq store repair``: make a repaired copy."""

from __future__ import annotations

from pathlib import Path

import click

from gantrymq.plugin.commands import output_option, print_json, say
from gantrymq_store_tools.commands.findings_table import show_findings
from gantrymq_store_tools.commands.in_use import refuse_if_in_use
from gantrymq_store_tools.commands.options import folder_argument, levels_option, log_option, target_option
from gantrymq_store_tools.commands.progress_bar import progress_bar


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
