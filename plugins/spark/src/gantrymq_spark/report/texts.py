"""Text helpers shared by reports, commands and findings."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gantrymq_store_tools.findings import counted

if TYPE_CHECKING:
    from gantrymq_spark.jobs.audit_summary import Summary
    from gantrymq_spark.jobs.inputs import Input


def decimals(value: float) -> str:
    """Format a number with two decimals, or with two significant digits if these would be zeros, as for a low rate."""
    if value == 0 or abs(value) >= 0.01 or not math.isfinite(value):
        return f"{value:,.2f}"
    places = 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{places}f}".rstrip("0")


def with_article(step: str) -> str:
    """Return *step*, such as hour or day, with its article."""
    return f"{'an' if step == 'hour' else 'a'} {step}"


def moment(time_us: int) -> str:
    """Format a time in UTC, to the second."""
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(first_us: int, last_us: int) -> str:
    """Format the time from *first_us* to *last_us* in UTC, to the second."""
    first, last = moment(first_us), moment(last_us)
    return f"at {first}" if first == last else f"{first} to {last}"


def source_of(given: Input) -> str:
    """Describe the messages that *given* selects."""
    if given.store is not None:
        place = f"the store {given.store}"
    elif given.archive is not None:
        place = f"the archive {given.archive}"
    else:
        place = f"live topics of {given.namesrv or '$NAMESRV_ADDR'}"
    parts = [place]
    if given.topics:
        parts.append(f"topics {', '.join(given.topics)}")
    if given.pattern is not None:
        parts.append(f"topics that match {given.pattern}")
    if given.tags is not None:
        parts.append(f"tags {given.tags}")
    if given.sql92 is not None:
        parts.append(f"where {given.sql92}")
    if given.since_ms is not None:
        parts.append(f"stored from {moment(given.since_ms * 1000)} on")
    if given.until_ms is not None:
        parts.append(f"stored before {moment(given.until_ms * 1000)}")
    return "; ".join(parts)


def verdict_of(found: Summary) -> str:
    """Return the result in one sentence."""
    looked = f"{counted(found.messages, 'message')} in {counted(found.queues, 'queue')}"
    if not found.faults:
        return f"nothing is wrong with {looked}" + (
            f"; {counted(len(found.unknown), 'thing')} cannot be known from this input" if found.unknown else ""
        )
    checks = sorted({check for check, fault, _, _ in found.counts if fault})
    return f"{counted(found.faults, 'fault')} in {looked}: {', '.join(checks)}"
