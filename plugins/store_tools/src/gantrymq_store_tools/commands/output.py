"""Output of the commands: findings, the results of a rebuild, and the bodies of records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import click

from gantrymq.plugin.commands import body_members, body_text, print_table, say
from gantrymq.plugin.formats import RecordView, decompress_or_raw
from gantrymq_store_tools.extract import describe_record
from gantrymq_store_tools.findings import Finding, counted, due_times, only_due_times
from gantrymq_store_tools.rebuild_store import RebuildReport

_MAX_ROWS = 200  # the JSON output has all findings


def show_findings(findings: Sequence[Finding]) -> None:
    """Print a table of the first `_MAX_ROWS` findings."""
    if not findings:
        return
    rows: Iterable[Sequence[object]] = (
        (
            finding.kind if finding.damage else f"({finding.kind})",
            finding.path,
            "" if finding.place is None else finding.place,
            "" if finding.extent is None else finding.extent,
            finding.text,
        )
        for finding in findings[:_MAX_ROWS]
    )
    print_table(["Kind", "Where", "Place", "Extent", "What"], rows)
    if len(findings) > _MAX_ROWS:
        say(f"{len(findings) - _MAX_ROWS} more; --output json has all of them")


def repair_advice(findings: Sequence[Finding], root: Path) -> str:
    """Return what to do about damage of the store *root*: a repaired copy, unless only due times are unexpected."""
    if only_due_times(findings):
        return (
            "name the messageDelayLevel of its broker: gantrymq store check --delay-levels '1s 5s ...' "
            f"{quote(str(root))}; a repair with other levels would change the due times"
        )
    levels = "--delay-levels '<messageDelayLevel of its broker>' " if due_times(findings) else ""
    return f"make a repaired copy with: gantrymq store repair {levels}{quote(str(root))}"


def show_rebuilt(report: RebuildReport, what: str) -> None:
    """Print what a rebuild of *what* files, queue or index, wrote and found."""
    show_findings(report.findings)
    entries = f"{report.entries:,} {'entry' if report.entries == 1 else 'entries'}"
    files, records = counted(report.files, f"{what} file"), counted(report.records, "record")
    click.echo(f"{report.target}: {files} with {entries} from {records}")
    say(f"{report.same_files} of them are identical in {report.root}")
    if report.lost:
        have = "has" if report.lost == 1 else "have"
        say(f"{counted(report.lost, 'queue offset')} {have} no record in the log; their entries repeat others")


def text_of(record: RecordView) -> str:
    """Return the body as text for people."""
    return body_text(*decompress_or_raw(record.body, record.sys_flag))


def with_body(record: RecordView) -> dict[str, Any]:
    """Return all fields of the record with its body, for scripts."""
    return {**describe_record(record), **body_members(*decompress_or_raw(record.body, record.sys_flag))}
