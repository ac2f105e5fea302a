"""Compares a restarted broker, after some time, with the answers that clients got about every kind of message.

lost        acknowledged, but missing: not delivered, not committed, never popped, not retried
twice       present more often than requested
early       delivered before its time, visible before its producer committed, popped before its time
recalled    recalled, but delivered
rolled back rolled back, but visible
unasked     undecided, but its producer was not checked again
asked       decided, but its producer was checked again
acknowledged  popped again although its acknowledgement was answered
back        a committed offset is before one committed long enough ago, or after any requested one
golden      a message left by a Java broker is missing, or present more often than without failures
"""

from __future__ import annotations

from collections import Counter

import attrs

from crash_rig.kinds_ledger import CONSUMERS, DEAD, MOST_TRIES, RETRY, TOPICS, KindsLedger, Losses, Odd
from crash_rig.lives import Life
from gantrymq.formats.record import RecordView, iter_records, read_record
from gantrymq.interfaces import GetLimit
from gantrymq.model.queue import Queue

INNER = ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_", "rmq_sys_", "OFFSET_MOVED_EVENT")

Golden = Counter[tuple[str, str, int, bytes]]  # topic, unique id, tries, body


@attrs.define
class Findings:
    """Result of one run."""

    sent: int = 0
    acknowledged: int = 0
    lost_in_window: int = 0  # acknowledged in asynchronous mode so late that it may be lost
    ends: Counter[str] = attrs.field(factory=Counter)  # number of checked operations by check
    problems: list[str] = attrs.field(factory=list)

    def wrong(self, kind: str, sentence: object) -> None:
        """One problem more."""
        self.problems.append(f"{kind}: {sentence}")


async def records_of(life: Life) -> dict[str, list[RecordView]]:
    """Every record that consumers see, by topic."""
    found: dict[str, list[RecordView]] = {}
    for queue in sorted(life.broker.store.queues()):
        if queue.topic.startswith(INNER):
            continue
        records = found.setdefault(queue.topic, [])
        at, end = life.broker.store.bounds(queue)
        while at < end:
            result = await life.broker.messages.get(queue, at, GetLimit())
            records += [read_record(bytes(r.raw)) for raw in result.buffers for r in iter_records(raw)]
            assert result.next_offset > at, f"{queue} at {at}: {result.status}"
            at = result.next_offset
    return found


def golden_of(records: dict[str, list[RecordView]]) -> Golden:
    """Return the messages that are not part of the workload."""
    ours = {*TOPICS.values(), RETRY, DEAD}
    return Counter(
        (topic, record.properties.get("UNIQ_KEY", ""), record.reconsume_times, bytes(record.body))
        for topic, each in records.items()
        for record in each
        if topic not in ours and not topic.startswith("%RETRY%KPOP")
    )


def judge(
    ledger: KindsLedger, records: dict[str, list[RecordView]], losses: Losses, last: int, *, kind_disk: bool
) -> Findings:
    """Run every check.

    Args:
        ledger: of all processes.
        records: `records_of` the last one.
        losses: operations that may be lost.
        last: the number of the last process.
        kind_disk: no call failed, and nothing was lost that could have been: then retries form complete chains, and
            popped messages return on time.
    """
    findings = Findings(len(ledger.sent), sum(sent.sent_at is not None for sent in ledger.sent.values()))
    for problem in ledger.problems:
        if kind_disk or not problem.startswith("early"):
            findings.problems.append(problem)
    found: dict[bytes, list[RecordView]] = {}
    for kind, topic in TOPICS.items():
        for record in records.get(topic, []):
            body = bytes(record.body)
            if body not in ledger.sent or ledger.sent[body].kind != kind:
                findings.wrong("foreign", f"{body[:20]!r} in {topic}")
            found.setdefault(body, []).append(record)
    for sent in ledger.sent.values():
        copies = found.get(sent.body, [])
        sure = losses.sure(sent.sent_at)
        findings.lost_in_window += sent.sent_at is not None and not sure and not copies
        if len(copies) > 1:
            findings.wrong("twice", f"{sent} at {[(r.log_offset, r.store_timestamp) for r in copies]}")
        if any(record.store_timestamp < sent.due_ms or record.queue_id != sent.queue_id for record in copies):
            findings.wrong("early", f"{sent} at {[(r.store_timestamp, r.queue_id) for r in copies]}")
        _JUDGES[sent.kind](sent, copies, sure, ledger, losses, last, findings)
    _judge_tries(ledger, records, losses, findings, whole=kind_disk)
    return findings


def _judge_level(
    sent: Odd, copies: list[RecordView], sure: bool, ledger: KindsLedger, losses: Losses, last: int, findings: Findings
) -> None:
    findings.ends[sent.kind] += sure
    if sure and not copies:
        findings.wrong("lost", sent)


def _judge_timer(
    sent: Odd, copies: list[RecordView], sure: bool, ledger: KindsLedger, losses: Losses, last: int, findings: Findings
) -> None:
    if losses.sure(sent.recalled_at) and copies:
        findings.wrong("recalled", sent)
    findings.ends["recalled" if losses.sure(sent.recalled_at) else sent.kind] += sure
    if sure and not copies and not sent.recall_asked:
        findings.wrong("lost", sent)


def _judge_transaction(
    sent: Odd, copies: list[RecordView], sure: bool, ledger: KindsLedger, losses: Losses, last: int, findings: Findings
) -> None:
    asked = last in ledger.asked[sent.body]
    decided = losses.sure(sent.decided_at)
    findings.ends["undecided" if asked else "committed" if sent.commits else "rolled back"] += sure
    if copies and not sent.commits:
        findings.wrong("rolled back", f"{sent} is visible")
    if any(record.store_timestamp < sent.told_ms or not sent.told_ms for record in copies):
        findings.wrong("early", sent)
    if sent.commits and sure and not copies:
        findings.wrong("lost", sent)
    if sure and not sent.told_ms:
        findings.wrong("unasked", sent)
    if asked and decided:
        findings.wrong("asked", f"{sent} in {ledger.asked[sent.body]}, the last is {last}")


def _judge_popped(
    sent: Odd, copies: list[RecordView], sure: bool, ledger: KindsLedger, losses: Losses, last: int, findings: Findings
) -> None:
    findings.ends["popped again" if sent.pops > 1 else "popped once"] += sure
    if sure and not copies:
        findings.wrong("lost", sent)
    if sure and not sent.asked_ack:
        findings.wrong("lost", f"{sent} was not acknowledged, and did not come again")


def _judge_failed(
    sent: Odd, copies: list[RecordView], sure: bool, ledger: KindsLedger, losses: Losses, last: int, findings: Findings
) -> None:
    if sure and not copies:
        findings.wrong("lost", sent)


def _judge_tries(
    ledger: KindsLedger, records: dict[str, list[RecordView]], losses: Losses, findings: Findings, *, whole: bool
) -> None:
    tries = Counter(
        (bytes(record.body), record.reconsume_times) for t in (RETRY, DEAD) for record in records.get(t, ())
    )
    dead = {bytes(record.body) for record in records.get(DEAD, ())}
    for (body, times), back in ledger.back.items():
        count = tries.pop((body, times + 1), 0)
        findings.ends["tries"] += losses.sure(back.at)
        if losses.sure(back.at) and not count:
            findings.wrong("lost", f"try {times + 1} of {body[:20]!r}")
        if count > back.attempts:
            findings.wrong("twice", f"try {times + 1} of {body[:20]!r}, {count} of {back.attempts}")
    for body, times in tries:
        if body in ledger.sent:
            findings.wrong("foreign", f"try {times} of {body[:20]!r}")
    for sent in ledger.of("failed") if whole else ():
        if losses.sure(sent.sent_at) and sent.body not in (dead if sent.failures > MOST_TRIES else ledger.consumed):
            findings.wrong("lost", f"{sent} was neither consumed nor given up")


def judge_commits(
    life: Life, ledger: KindsLedger, ends: list[float], interval_s: float, findings: Findings, *, may_lose: bool
) -> None:
    """`judge_offsets` of a broker that has just started; where messages may be lost offsets end with their queues."""
    committed = {queue: life.broker.offsets.committed(CONSUMERS, queue) or 0 for queue in ledger.highest}
    most = {queue: life.broker.store.bounds(queue).max_offset for queue in ledger.highest} if may_lose else {}
    judge_offsets(committed, most, ledger, ends, interval_s, findings)


def judge_offsets(
    committed: dict[Queue, int],
    most: dict[Queue, int],
    ledger: KindsLedger,
    ends: list[float],
    interval_s: float,
    findings: Findings,
) -> None:
    """Hold offsets against commits of processes that ended at *ends*.

    A commit older than *interval_s* at the end of its process was saved.
    """
    wanted: dict[Queue, int] = {}
    for at, queue, offset in ledger.commits:
        end = min(each for each in ends if each >= at)
        if at < end - interval_s:
            wanted[queue] = max(wanted.get(queue, 0), offset)
    for queue, highest in ledger.highest.items():
        least = min(wanted.get(queue, 0), most.get(queue, 1 << 62))
        if not least <= committed.get(queue, 0) <= highest:
            findings.wrong("back", f"{queue}: {committed.get(queue, 0)}, saved was {least}, asked for {highest}")


_JUDGES = {
    "level": _judge_level,
    "timer": _judge_timer,
    "transaction": _judge_transaction,
    "popped": _judge_popped,
    "failed": _judge_failed,
}
