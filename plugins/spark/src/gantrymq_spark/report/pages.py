"""The pages of an audit and of statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gantrymq_spark.jobs.audit import Limits
from gantrymq_spark.jobs.audit_summary import ADVICE, PER_CHECK, Summary
from gantrymq_spark.jobs.inputs import Input
from gantrymq_spark.jobs.stats import StatsSummary
from gantrymq_spark.report.charts import MAX_BARS, STEP_SECONDS, bars, lines
from gantrymq_spark.report.page import Page, Section, Table, moment, source_of, span, verdict_of, with_article
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


def tables_of(found: StatsSummary, property_name: str | None) -> list[tuple[str, Table]]:
    """Return titles and tables, for the page and for the terminal."""
    counts = found.counts

    def table(rows: Sequence[dict[str, Any]], columns: dict[str, str], count: int | None = None) -> Table:
        texts = [[_value(name, row.get(name)) for name in columns] for row in rows]
        return Table(tuple(columns.values()), texts, count, "--top N shows more")

    amount = {"messages": "messages", "bytes": "bytes"}
    sizes = {"mean": "mean size", "p50": "50 %", "p90": "90 %", "p99": "99 %", "largest": "largest"}
    rates = {"perSecond": "messages/s, first to last", "bytesPerSecond": "bytes/s, first to last"}
    tables = [
        ("All messages", table([found.total], {**amount, "first": "first", "last": "last", **sizes})),
        (
            "Topics",
            table(
                found.topics,
                {"topic": "topic", **amount, **rates, **sizes, "queues": "queues", "skew": "skew"},
                counts["topics"],
            ),
        ),
        (
            "Queues",
            table(
                found.queues,
                {"brokerName": "broker", "topic": "topic", "queueId": "queue", **amount},
                counts["queues"],
            ),
        ),
        ("Tags", table(found.tags, {"topic": "topic", "tag": "tag", **amount}, counts["tags"])),
        ("Producers", table(found.producers, {"producer": "host", **amount, "topics": "topics"}, counts["producers"])),
        ("Keys", table(found.keys, {"key": "key", **amount}, counts["keys"])),
        (f"Busiest {found.step}s", table(found.busiest, {"time": found.step, **amount})),
    ]
    if found.values is not None:
        name = property_name or ""
        tables.append((f"Property {name}", table(found.values, {"value": name, **amount}, counts["values"])))
    return tables


def stats_page(given: Input, found: StatsSummary, property_name: str | None) -> Page:
    """Return the page of one run."""
    seconds = STEP_SECONDS[found.step]
    by_messages = {topic: [(at * 1000, n / seconds) for at, n, _ in points] for topic, points in found.rates.items()}
    by_bytes = {topic: [(at * 1000, n / seconds) for at, _, n in points] for topic, points in found.rates.items()}
    step = with_article(found.step)
    over = [
        f"Each point is the mean over {step} that has messages; a line ends where one has none. The rates in the table "
        "of topics are means from a topic's first message to its last, pauses included."
    ]
    if found.left_out:
        points = counted(sum(map(len, found.rates.values())), "point")
        are = "is" if found.left_out == 1 else "are"
        over.append(f"The chart has the newest {points}; {counted(found.left_out, 'older point')} {are} left out.")
    by_size = sorted(found.topics, key=lambda row: -row["bytes"])
    charts = {
        "Topics": bars([row["topic"] for row in by_size], [row["bytes"] for row in by_size], "bytes"),
        "Queues": bars(
            [f"{row['topic']}/{row['queueId']}" for row in found.queues],
            [row["messages"] for row in found.queues],
            "messages",
        ),
        "Tags": bars(
            [f"{row['topic']}: {row['tag'] or '(none)'}" for row in found.tags],
            [row["messages"] for row in found.tags],
            "messages",
        ),
        "Producers": bars(
            [row["producer"] or "(none)" for row in found.producers],
            [row["messages"] for row in found.producers],
            "messages",
        ),
    }
    sections = [
        Section("Messages a second", over, lines(by_messages, f"messages a second, mean of {step}", seconds)),
        Section("Bytes a second", over, lines(by_bytes, f"bytes a second, mean of {step}", seconds)),
        *(Section(title, (), charts.get(title, ""), table) for title, table in tables_of(found, property_name)),
    ]
    total = found.total
    kinds = (total["messages"], "message"), (total["bytes"], "byte"), (found.counts["topics"], "topic")
    text = ", ".join(counted(number, noun) for number, noun in kinds)
    return Page("Statistics of messages", text, True, [("Looked at", source_of(given))], sections)


def _value(name: str, value: Any) -> Any:
    if name in ("first", "last", "time"):
        return "" if value is None else moment(value * 1000)
    return value
