"""``gantrymq store check``: report damage of a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gantrymq.plugin.commands import output_option, print_json, say
from gantrymq_store_tools.commands.options import IN_USE, folder_argument, in_use, levels_option, log_option
from gantrymq_store_tools.commands.output import repair_advice, show_findings
from gantrymq_store_tools.commands.progress import progress_bar
from gantrymq_store_tools.findings import counted

if TYPE_CHECKING:
    from gantrymq_store_tools.check import CheckReport


@click.command()
@folder_argument
@log_option
@levels_option
@click.option("--no-crc", is_flag=True, help="Do not check the CRCs of bodies.")
@output_option
@click.pass_context
def check(
    ctx: click.Context, root: Path, log_folders: tuple[Path, ...], delay_levels: str | None, no_crc: bool, output: str
) -> None:
    """Read a whole store and compare everything in it with its commit log. Writes nothing.

    Due times of delayed messages are compared with the broker's delay levels. Give --delay-levels if they are not
    recorded in the store, as in one of a Java broker, and not RocketMQ's default.

    Exit code 0: nothing is wrong; findings that a killed broker leaves and the next start repairs are in parentheses.
    1: damage was found and is listed. 3: a broker has the store open, and nothing is wrong up to its checkpoint; the
    rest cannot be checked before the broker has stopped.
    """
    from gantrymq.plugin.real_world import RealFiles
    from gantrymq_store_tools.check import check_open_store, check_store

    def run(check: Callable[..., CheckReport]) -> CheckReport:
        with progress_bar() as progress:
            return check(
                RealFiles(),
                root,
                log_folders=log_folders,
                delay_levels=delay_levels,
                check_crc=not no_crc,
                progress=progress,
            )

    report = run(check_open_store if in_use(root) else check_store)
    if not report.in_use and report.findings and in_use(root):  # opened by a broker meanwhile
        report = run(check_open_store)
    if output == "json":
        print_json(report.to_json())
    else:
        _show(root, report)
    ctx.exit(1 if report.damaged else IN_USE if report.in_use else 0)


def _show(root: Path, report: CheckReport) -> None:
    """Print the report for people: findings, verdict, amounts read, what to do."""
    show_findings(report.findings)
    click.echo(f"{root}: {_verdict(report)}")
    say(
        f"{counted(report.records, 'record')} from log offset {report.log_start} to {report.log_end}; entries: "
        f"{report.queue_entries:,} in {counted(report.queues, 'queue')}, {report.batch_entries:,} in "
        f"{counted(report.batch_queues, 'batch queue')}, {report.index_entries:,} in "
        f"{counted(report.index_files, 'index file')}"
    )
    if report.damaged:
        stop = "after its broker has stopped, " if report.in_use and not report.only_due_times else ""
        say(f"{stop}{repair_advice(report.findings, root)}")
    elif report.in_use:
        say("to check the whole store, stop the broker and check again")


def _verdict(report: CheckReport) -> str:
    if report.only_due_times:
        return (
            f"sound except for {counted(report.due_times, 'due time')} of delayed messages, which the delay levels "
            f"'{report.delay_levels}' do not explain"
        )
    damages = sum(finding.damage for finding in report.findings)
    if report.in_use:
        place = f"log offset {report.vouched_to} (checkpoint)"
        if damages:
            before = f"damaged, {counted(damages, 'finding')} before {place}"
            return f"{before}; a broker has it open, the rest cannot be checked yet"
        if report.vouched_to == report.log_start:
            return "cannot be checked yet: a broker has it open, and its checkpoint does not cover anything so far"
        return f"cannot be checked completely yet: a broker has it open; sound up to {place}"
    repaired = f"the next start of a broker repairs {counted(report.for_recovery, 'finding')}, which a kill leaves"
    if damages:
        return f"damaged, {counted(damages, 'finding')}" + (f"; {repaired}" if report.for_recovery else "")
    return f"sound for a store whose broker was killed: {repaired}" if report.for_recovery else "sound"
