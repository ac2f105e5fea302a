"""``gantrymq store check``: what is wrong with a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gantrymq.commands.output import output_option, print_json, say
from gantrymq_store_tools.commands.findings_table import show_findings
from gantrymq_store_tools.commands.in_use import IN_USE, in_use
from gantrymq_store_tools.commands.options import folder_argument, levels_option, log_option
from gantrymq_store_tools.commands.progress_bar import progress_bar

if TYPE_CHECKING:
    from gantrymq_store_tools.check import CheckReport


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

    Exit code 0: nothing is wrong; what a killed broker leaves and the next start mends is listed in parentheses.
    1: something is wrong, each thing is listed with its place. 3: a broker has the store open, and nothing is wrong up
    to its checkpoint; the rest cannot be judged before it has stopped.
    """
    from gantrymq.world.real import RealFiles
    from gantrymq_store_tools.check import check_store
    from gantrymq_store_tools.open_check import check_open_store

    def look(check: Callable[..., CheckReport]) -> CheckReport:
        with progress_bar() as progress:
            return check(
                RealFiles(),
                root,
                log_folders=log_folders,
                delay_levels=delay_levels,
                check_crc=not no_crc,
                progress=progress,
            )

    report = look(check_open_store if in_use(root) else check_store)
    if not report.in_use and report.findings and in_use(root):  # a broker has opened it meanwhile
        report = look(check_open_store)
    if output == "json":
        print_json(report.to_json())
    else:
        _show(root, report)
    ctx.exit(1 if report.damaged else IN_USE if report.in_use else 0)


def _show(root: Path, report: CheckReport) -> None:
    """The report for people: findings, the verdict, what was read, what can be done."""
    show_findings(report.findings)
    click.echo(f"{root}: {_verdict(report)}")
    say(
        f"{report.records} records from log offset {report.log_start} to {report.log_end}, {report.queue_entries} "
        f"entries of {report.queues} queues, {report.batch_entries} of {report.batch_queues} batch queues, "
        f"{report.index_entries} of {report.index_files} index files"
    )
    if report.damaged:
        stop = "when its broker has stopped, " if report.in_use else ""
        say(f"{stop}a repaired copy is made by: gantrymq store repair {root}")
    elif report.in_use:
        say("for a verdict on all of it stop the broker, and check again")


def _verdict(report: CheckReport) -> str:
    damages = sum(finding.damage for finding in report.findings)
    if report.in_use:
        place = f"log offset {report.vouched_to}, where the checkpoint stands"
        if damages:
            return f"damaged, {damages} findings before {place}; a broker has it open, the rest cannot be judged yet"
        if report.vouched_to == report.log_start:
            return "cannot be judged yet: a broker has it open, and its checkpoint vouches for nothing so far"
        return f"cannot be judged yet: a broker has it open; sound up to {place}"
    mended = f"the next start of a broker mends {report.for_recovery} findings, which are normal after a kill"
    if damages:
        return f"damaged, {damages} findings" + (f"; {mended}" if report.for_recovery else "")
    return f"sound, as a broker that was killed leaves it: {mended}" if report.for_recovery else "sound"
