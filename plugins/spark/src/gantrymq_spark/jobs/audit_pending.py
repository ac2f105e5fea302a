"""Checks of pending messages: transactions without an end, delayed messages that are late.

Both need the broker's own topics, so a store's source with ``systemTopics``. A store has few messages of these kinds;
they are processed as whole tables.

A half message is ended by its queue offset in an op message, by a committed message that names its log offset, or by a
copy in TRANS_CHECK_MAX_TIME_TOPIC. A check appends it again: copies of one unique key are one transaction.

A delayed message is in SCHEDULE_TOPIC_XXXX (queue id = level - 1, due at store time + the level's delay), or in
rmq_sys_wheel_timer (due at TIMER_OUT_MS). After delivery it is in REAL_TOPIC with the same unique key and reconsume
times.

Source: apache/rocketmq broker/.../transaction/queue/TransactionalMessageServiceImpl.java (check, fillOpRemoveMap),
broker/.../schedule/ScheduleMessageService.java (computeDeliverTimestamp, messageTimeUp), store/.../timer/.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gantrymq.plugin.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from gantrymq.plugin.properties import REAL_TOPIC, TIMER_OUT_MS
from gantrymq.plugin.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from gantrymq_spark.jobs.audit_findings import AuditFinding
from gantrymq_store_files.delay_levels import DelayLevels

PENDING_COLUMNS = (
    "brokerName",
    "topic",
    "queueId",
    "queueOffset",
    "commitLogOffset",
    "sysFlag",
    "body",
    "properties",
    "uniqueKey",
    "bornTimestamp",
    "storeTimestamp",
    "reconsumeTimes",
    "preparedTransactionOffset",
)
TIMER_DELETE = "TIMER_DEL_UNIQKEY"
_NUMBER = re.compile(rb"\d+")
_Row = dict[str, Any]


def transaction_findings(
    messages: pa.Table, now_ms: int, *, oldest_ms: int = 600_000, log_start: int | None = None
) -> list[AuditFinding]:
    """Return half messages that were never ended, and committed messages without a half message.

    Args:
        messages: all of one broker's half, op, discarded and committed messages, with `PENDING_COLUMNS`.
        now_ms: time at which *messages* were read.
        oldest_ms: maximum age of a half message without an end.
        log_start: log offset of the first record that was read; None for the first of *messages*.
    """
    topics = pc.is_in(messages["topic"], pa.array([HALF_TOPIC, OP_TOPIC, CHECK_MAX_TIME_TOPIC]))
    committed = pc.equal(pc.bit_wise_and(messages["sysFlag"], TRANSACTION_MASK), TRANSACTION_COMMIT)
    rows = _rows(messages.filter(pc.or_(topics, committed)))
    halves = [row for row in rows if row["topic"] == HALF_TOPIC]
    ended = {
        (row["queueId"], int(number))
        for row in rows
        if row["topic"] == OP_TOPIC
        for number in _NUMBER.findall(row["body"] or b"")
    }
    commits = [row for row in rows if row["sysFlag"] & TRANSACTION_MASK == TRANSACTION_COMMIT]
    places = {row["preparedTransactionOffset"] for row in commits}
    discarded = {row["uniqueKey"] for row in rows if row["topic"] == CHECK_MAX_TIME_TOPIC}
    transactions: dict[object, list[_Row]] = defaultdict(list)
    for row in halves:
        transactions[row["uniqueKey"] or row["commitLogOffset"]].append(row)
    found = []
    for key, copies in transactions.items():
        newest = max(copies, key=lambda row: row["queueOffset"])
        age_ms = now_ms - _ms(copies[0]["storeTimestamp"])
        over = key in discarded or any(
            (row["queueId"], row["queueOffset"]) in ended or row["commitLogOffset"] in places for row in copies
        )
        if not over and age_ms > oldest_ms:
            topic = dict(newest["properties"]).get(REAL_TOPIC)
            text = f"the half message {key} for topic {topic} is {age_ms} ms old and was not committed or rolled back"
            found.append(_finding(newest, "transaction.open", text))
    known = {row["commitLogOffset"] for row in halves}
    if log_start is None:
        log_start = int(pc.min(messages["commitLogOffset"]).as_py() or 0)
    for row in commits:
        place = row["preparedTransactionOffset"]
        if place not in known and place >= log_start:
            text = (
                f"a committed message of topic {row['topic']} names log offset {place}, where there is no half message"
            )
            found.append(_finding(row, "transaction.orphan", text))
    return found


def delay_findings(
    messages: pa.Table,
    now_ms: int,
    *,
    tolerance_ms: int = 2_000,
    levels: DelayLevels | None = None,
) -> list[AuditFinding]:
    """Return delayed messages that were delivered late, or are due and were not delivered.

    Args:
        messages: one broker's delayed and delivered messages, with `PENDING_COLUMNS`; others are ignored.
        now_ms: time at which *messages* were read.
        tolerance_ms: maximum delay after the due time.
        levels: delays of the levels; by default RocketMQ's.
    """
    levels = levels or DelayLevels.of()
    delayed = _rows(messages.filter(pc.is_in(messages["topic"], pa.array([SCHEDULE_TOPIC, TIMER_TOPIC]))))
    recalled = {key for row in delayed if (key := dict(row["properties"]).get(TIMER_DELETE))}
    waiting: dict[tuple[Any, ...], dict[object, tuple[int, _Row]]] = defaultdict(dict)
    for row in sorted(delayed, key=lambda row: row["commitLogOffset"]):
        properties = dict(row["properties"])
        topic = properties.get(REAL_TOPIC)
        if TIMER_DELETE in properties or topic is None or f"{topic}+{row['uniqueKey']}" in recalled:
            continue
        if row["topic"] == TIMER_TOPIC:  # a rolled message is there again
            due_ms, copy = int(properties[TIMER_OUT_MS]), ("timer", properties[TIMER_OUT_MS])
        else:
            levels_ms = levels.at(row["commitLogOffset"])
            level = min(max(row["queueId"], 0), len(levels_ms) - 1)
            due_ms, copy = _ms(row["storeTimestamp"]) + levels_ms[level], ("level", row["commitLogOffset"])
        waiting[_identity(topic, row)].setdefault(copy, (due_ms, row))
    topics = pa.array(sorted({identity[0] for identity in waiting}), pa.string())
    delivered: dict[tuple[Any, ...], list[_Row]] = defaultdict(list)
    for row in _rows(messages.filter(pc.is_in(messages["topic"], topics))):
        if (identity := _identity(row["topic"], row)) in waiting:
            delivered[identity].append(row)
    found = []
    for identity, owed in waiting.items():
        came = sorted(delivered[identity], key=lambda row: row["commitLogOffset"])
        for number, (due_ms, row) in enumerate(sorted(owed.values(), key=lambda each: each[0])):
            if number < len(came):
                late_ms = _ms(came[number]["storeTimestamp"]) - due_ms
                if late_ms > tolerance_ms:
                    text = f"the delayed message {row['uniqueKey']} reached topic {identity[0]} {late_ms} ms late"
                    found.append(_finding(came[number], "delay.late", text))
            elif now_ms - due_ms > tolerance_ms:
                text = (
                    f"the delayed message {row['uniqueKey']} for topic {identity[0]} is overdue by {now_ms - due_ms} ms"
                )
                found.append(_finding(row, "delay.lost", text))
    return found


def _identity(topic: str, row: _Row) -> tuple[Any, ...]:
    return topic, row["uniqueKey"] or row["bornTimestamp"], row["reconsumeTimes"]


def _rows(table: pa.Table) -> list[_Row]:
    times = {name: table[name].cast(pa.int64()) for name in ("bornTimestamp", "storeTimestamp")}
    columns = {name: times.get(name, table[name]) for name in PENDING_COLUMNS}
    rows: list[_Row] = pa.table(columns).to_pylist()
    return rows


def _ms(microseconds: int) -> int:
    return microseconds // 1000


def _finding(row: _Row, check: str, text: str) -> AuditFinding:
    place = row["brokerName"] or "", row["topic"], row["queueId"], row["queueOffset"], row["commitLogOffset"]
    return AuditFinding(check, text, *place)
