"""The report of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from gantrymq_spark.reports.page import Section, page
from gantrymq_spark.reports.plots import bars, lines

__all__ = ["MOST_ROWS", "audit_page"]

MOST_ROWS = 500  # findings on the page; the Parquet file beside it has all
TODO = {
    "queue.gap": "Look into the broker's log for the time of the message before the gap.",
    "queue.duplicate": "Consumers may have had these twice; `gantrymq store rebuild-queues` makes the queues anew.",
    "queue.order": "Consumers got these messages out of order; `gantrymq store rebuild-queues` makes the queues anew.",
    "queue.time": "The broker's clock went back; searches by time near these messages are not exact.",
    "queue.restart": "Nothing: the topic was deleted and made anew.",
    "key.duplicate": "A producer sent again after an answer was lost, or reuses ids; consumers should be idempotent.",
    "body.crc": "The disk changed these bodies; take them from a replica or from an archive.",
    "log.damaged": "`gantrymq store check` says more, `gantrymq store repair` makes the store usable again.",
    "transaction.open": "The producer never answered checks; is its group still running?",
    "transaction.orphan": "The half message is gone, perhaps by retention; the message itself is there.",
    "delay.late": "The broker was down or too busy when these were due.",
    "delay.lost": "These are due and not delivered; is the broker running?",
    "dead_letter": "`gantrymq group dlq list` shows them, `gantrymq group dlq resend` sends them again.",
    "lag": "Consumers are too slow, or do not run; `gantrymq group explain` says more.",
}


def audit_page(
    what: str,
    read_ms: int,
    unknown: Sequence[str],
    findings: Sequence[Any],
    counts: Sequence[tuple[str, bool, int]],
    figures: Sequence[tuple[str, datetime, int, int]],
) -> str:
    """The HTML.

    Args:
        what: was looked at.
        read_ms: when.
        unknown: sentences: what could not be looked at.
        findings: rows of `Audit.findings`, at most `MOST_ROWS`.
        counts: check, whether it is a fault, how many findings; of all of them.
        figures: topic, hour, messages, bytes.
    """
    faults = sum(count for _, fault, count in counts if fault)
    messages = sum(row[2] for row in figures)
    sentences = [
        f"{what}, read at {datetime.fromtimestamp(read_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC: "
        f"{messages} messages of {len({row[0] for row in figures})} topics.",
        f"{faults} faults were found." if faults else "Nothing is wrong.",
        *unknown,
    ]
    series: dict[str, list[tuple[datetime, float]]] = {}
    for topic, hour, count, _ in sorted(row for row in figures if row[1] is not None):
        series.setdefault(topic, []).append((hour, count))
    sections = [
        Section(
            "What was found",
            plots=[bars({check: count for check, _, count in counts}, "findings", "findings")] if counts else (),
            columns=("check", "findings", "a fault", "what to do"),
            rows=[
                (check, count, "yes" if fault else "no", TODO.get(check, "")) for check, fault, count in sorted(counts)
            ],
        ),
        Section(
            "Messages", plots=[lines(series, "messages by hour of store time (UTC)", "messages")] if series else ()
        ),
        Section(
            "Findings",
            columns=("check", "text", "broker", "topic", "queue", "queue offset", "log offset", "count"),
            rows=[
                (
                    *(row.check, row.text, row.broker_name, row.topic),
                    *("" if each < 0 else each for each in (row.queue_id, row.queue_offset, row.log_offset)),
                    row.count,
                )
                for row in findings
            ],
            left_out=max(0, sum(count for *_, count in counts) - len(findings)),
        ),
    ]
    return page("Audit", sentences, [section for section in sections if section.rows or section.plots])
