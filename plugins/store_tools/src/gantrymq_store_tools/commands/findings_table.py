"""Prints findings for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gantrymq.commands.output import print_table, say
from gantrymq_store_tools.findings import Finding

__all__ = ["show_findings"]

MAX_ROWS = 200  # the JSON output has all findings


def show_findings(findings: Sequence[Finding]) -> None:
    """Print a table of the first `MAX_ROWS` findings."""
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
        for finding in findings[:MAX_ROWS]
    )
    print_table(["Kind", "Where", "Place", "Extent", "What"], rows)
    if len(findings) > MAX_ROWS:
        say(f"{len(findings) - MAX_ROWS} more; --output json has all of them")
