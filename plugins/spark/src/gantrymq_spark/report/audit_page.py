"""The page of an audit."""

from __future__ import annotations

from gantrymq_spark.jobs.audit import Limits
from gantrymq_spark.jobs.audit_summary import ADVICE, PER_CHECK, Summary
from gantrymq_spark.jobs.inputs import Input
from gantrymq_spark.report.charts import MAX_BARS, STEP_SECONDS, bars, lines
from gantrymq_spark.report.page import Page, Section, Table
from gantrymq_spark.report.texts import moment, source_of, span, verdict_of, with_article
from gantrymq_store_tools.findings import counted


def audit_page(given: Input, limits: Limits, found: Summary) -> Page:
    """Return the page of one audit."""
    queues, topics = counted(found.queues, "queue"), counted(found.topics, "topic")
    amount = f"{found.messages:,} in {queues} of {topics}, {counted(found.bytes, 'byte')}"
    facts = [
        ("Looked at", source_of(given)),
        ("Judged as of", moment(limits.now_ms * 1000)),
        ("Messages", amount),
        ("Stored", span(found.first_us, found.last_us) if found.first_us else "at no time"),
        (
            "Limits",
            f"lag {counted(limits.lag, 'message')} of a queue; delayed messages {limits.late_ms:,} ms late; half "
            f"messages {limits.open_ms:,} ms old",
        ),
    ]
    checks = Table(
        ("check", "fault", "findings", "messages or offsets", "what to do"),
        [(check, fault, number, count, ADVICE.get(check, "")) for check, fault, number, count in found.counts],
    )
    rows = [
        (
            each["check"],
            *(each["brokerName"], each["topic"]),
            *(None if each[name] < 0 else each[name] for name in ("queueId", "queueOffset", "commitLogOffset")),
            *(each["count"], each["text"]),
        )
        for each in found.shown
    ]
    columns = ("check", "broker", "topic", "queue", "queue offset", "log offset", "count", "what")
    rest = f"at most {PER_CHECK} of each check are here, findings.parquet has all"
    sections = [
        Section("Checks", () if found.counts else ("Nothing was found.",), table=checks if found.counts else None),
    ]
    if found.counts:
        names = [check for check, _, _, _ in found.counts]
        sections[0] = Section("Checks", chart=bars(names, [each[2] for each in found.counts], "findings"), table=checks)
        sections.append(Section("Findings", table=Table(columns, rows, found.findings, rest)))
    if found.unknown:
        sections.append(Section("What this input does not tell", found.unknown))
    behind = [lag for lag in found.lags if lag.behind]
    if found.lags:
        names = [f"{lag.group}: {lag.topic}/{lag.queue_id}" for lag in behind]
        are = "is" if len(behind) == 1 else "are"
        sentence = (
            f"{len(behind):,} of {counted(len(found.lags), 'pair')} of a group and a queue {are} behind; the chart "
            f"has at most {MAX_BARS}."
        )
        sections.append(Section("Lag", (sentence,), bars(names, [lag.behind for lag in behind], "messages behind")))
    if found.messages:
        title = f"Messages by {found.step}, of the largest topics"
        unit = f"messages in {with_article(found.step)}"
        sections.append(Section(title, chart=lines(found.per_step, unit, STEP_SECONDS[found.step])))
        names = [name for name, _ in found.largest]
        numbers = [number for _, number in found.largest]
        sections.append(Section("The largest queues", chart=bars(names, numbers, "messages")))
    return Page("Audit of messages", verdict_of(found), not found.faults, facts, sections)
