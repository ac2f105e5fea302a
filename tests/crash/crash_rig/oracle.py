"""Compares a restarted store with the ledger.

    lost        acknowledged, but not at its position with its bytes
    duplicated  present more than once
    gaps        queue offsets with holes that the start did not report, or used twice
    foreign     present, but never sent, or with other bytes, or in another queue
    back        belongs to a deleted topic
    unseen      a consumer saw it, but it is gone
    passed      a committed offset is after a message that its group never read
    index       a query by key misses the message, or returns another; only in a store with an index
    light       a light queue lacks a message, has one twice, or has another order than the log
    twice       a queue offset was used twice
    refusal     a message was accepted that had to be refused: after a failed sync of the log, or an invalid one
    topics      an acknowledged topic is gone
    base        the previous content of the store has changed
    rebuilt     queue files (and index files, see index) rebuilt from the log differ from the existing ones

If a power cut loses pages in the middle of unsynced data, recovery gives up their messages (acknowledged with
asynchronous flush, or not at all) and reports their number per queue (docs/operations/recovery.md, section 3). Their
offsets are then holes, and a reader that begins at one gets the adjacent message again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from inspect import isawaitable

import attrs

from crash_rig.ledger import DIGITS, Ledger, Sent, number_of
from crash_rig.lives import ALL_KINDS, Life
from crash_rig.records import messages_in
from crash_rig.starts import NEW, ROOT, Start, copy_of
from crash_rig.workload import GROUP
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import GetLimit, MessageStore
from gantrymq.model.light_queues import LIGHT_QUEUE_ID, is_light
from gantrymq.model.queue import Queue
from gantrymq.world import World
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES, read_batch_entry
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES, is_ext_address, is_pre_blank
from gantrymq_testing.simulated import SimulatedFiles

DERIVED = {"consumequeue", "batchconsumequeue", "consumequeue_ext", "index"}  # data that can be rebuilt from the log
TOLD = re.compile(r"queue (\S+)/(\d+): (\d+) messages are not in the log")

Content = dict[Queue, dict[int, bytes]]  # bodies by queue offset


@attrs.define
class Findings:
    """Result of one run."""

    sent: int = 0
    acknowledged: int = 0
    refused: int = 0  # answered with an error
    found: int = 0
    lost: int = 0
    expired: int = 0  # taken by retention
    cleaned: bool = False  # retention was at work
    holes: int = 0  # queue offsets of messages that recovery has given up
    given_up: set[tuple[Queue, int]] = attrs.field(factory=set)  # which
    lost_in_window: int = 0  # acknowledged in asynchronous mode so late that it may be lost
    problems: list[str] = attrs.field(factory=list)

    def wrong(self, kind: str, sentence: object) -> None:
        """One problem more."""
        self.problems.append(f"{kind}: {sentence}")


async def content_of(store: MessageStore, repeated: set[Queue] | None = None) -> Content:
    """Every message of every queue, as consumers get them; *repeated* gets the queues that gave one out twice."""
    found: Content = {}
    for queue in store.queues():
        bounds = store.bounds(queue)
        messages = found[queue] = {}
        at = bounds.min_offset
        while at < bounds.max_offset:
            result = store.get(queue, at, GetLimit(), None)
            if isawaitable(result):
                result = await result
            for buffer in result.buffers:
                for queue_offset, body in [m for record in iter_records(buffer) for m in messages_in(queue, record)]:
                    if queue_offset in messages and repeated is not None:
                        assert messages[queue_offset] == body, f"{queue} {queue_offset}"
                        repeated.add(queue)
                    messages[queue_offset] = body
            assert result.next_offset > at, f"{queue} at {at} of {bounds}: {result.status}"
            at = result.next_offset
    return found


def told(said: Sequence[str]) -> dict[Queue, int]:
    """How many messages of each queue starts have said to be gone."""
    found: Counter[Queue] = Counter()
    for topic, queue_id, count in (match.groups() for line in said for match in TOLD.finditer(line)):
        found[Queue(topic, int(queue_id))] += int(count)
    return found


async def judge(
    life: Life, ledger: Ledger, base: Content, said: Sequence[str], *, lost_from: float | None = None
) -> Findings:
    """Check a broker that has just restarted.

    Args:
        life: of the broker.
        ledger: of the run before.
        base: content of the store before the run.
        said: messages to the operator from it and from earlier starts that were ended.
        lost_from: monotonic time from which acknowledged messages may be lost (asynchronous flush and a power cut).
            None: nothing may be lost.
    """
    findings = Findings(len(ledger.sent), len(ledger.acknowledged), refused=len(ledger.refusals))
    findings.problems += ledger.problems
    store = life.broker.store
    repeated: set[Queue] = set()
    content = await content_of(store, repeated)
    given_up = told(said)
    for queue, messages in content.items():
        bounds = store.bounds(queue)
        missing = set(range(bounds.min_offset, bounds.max_offset)) - set(messages)
        findings.holes += len(missing)
        findings.given_up |= {(queue, queue_offset) for queue_offset in missing}
        if len(missing) > given_up.get(queue, 0) or not set(messages) <= set(range(*bounds)):
            findings.wrong("gaps", f"{queue} is {bounds}, found {sorted(messages)}, told {given_up.get(queue, 0)}")
        if queue in repeated and not missing:
            findings.wrong("duplicated", f"{queue} gives a message twice, and has no hole")
    for queue, messages in base.items():
        least = store.bounds(queue).min_offset if ledger.cleaned else 0
        if {at: body for at, body in messages.items() if at >= least} != content.get(queue, {}):
            findings.wrong("base", f"{queue} had {len(messages)} messages, now {len(content.get(queue, {}))}")
    places = _places(content, base, ledger, findings)
    findings.found = sum(map(len, places.values()))
    findings.cleaned = ledger.cleaned

    newest = max([store.state().max_log_offset - 1, *(sent.log_offset for sent in ledger.acknowledged)])

    def expired(sent: Sent) -> bool:
        """Whether retention may have taken it: never from the file of the newest record, acknowledged or not."""
        older = sent.log_offset // life.log_file_bytes < newest // life.log_file_bytes
        return ledger.cleaned and older and sent.log_offset < store.state().min_log_offset

    half_deleted = [
        sent
        for sent in ledger.acknowledged
        if sent.queue.topic == ledger.deleting
        and not expired(sent)
        and (lost_from is None or sent.acknowledged_at < lost_from)
    ]
    gone = [sent for sent in half_deleted if not _there(sent, content)]
    if gone and len(gone) < len(half_deleted):
        findings.wrong("lost", f"{len(gone)} of {len(half_deleted)} messages of {ledger.deleting}, half deleted")
    for sent in ledger.acknowledged:
        if sent.queue.topic == ledger.deleting or _there(sent, content):
            continue
        if expired(sent):
            findings.expired += 1
            continue
        if lost_from is not None and sent.acknowledged_at >= lost_from:
            findings.lost_in_window += 1
            continue
        findings.lost += 1
        findings.wrong("lost", f"{sent.body[:8]!r} of {sent.queue} at {sent.queue_offset}")
    _judge_light(content, ledger, findings, expired if lost_from is None else lambda sent: True)
    _judge_topics(life, ledger, findings)
    await _judge_index(store, ledger, content, findings)
    _judge_consumers(life, ledger, content, findings, may_lose=lost_from is not None)
    return findings


def _places(content: Content, base: Content, ledger: Ledger, findings: Findings) -> dict[int, list[tuple[Queue, int]]]:
    places: dict[int, list[tuple[Queue, int]]] = {}
    for queue, messages in content.items():
        if queue in base or is_light(queue.topic):
            continue
        for queue_offset, body in messages.items():
            number = number_of(body)
            if not 0 <= number < len(ledger.sent) or ledger.sent[number].body != body:
                findings.wrong("foreign", f"{body[:20]!r} in {queue} at {queue_offset}")
                continue
            sent = ledger.sent[number]
            if sent.queue != queue:
                findings.wrong("foreign", f"{body[:8]!r} of {sent.queue} is in {queue}")
            if sent.deleted:
                findings.wrong("back", f"{body[:8]!r} in {queue} at {queue_offset}")
            places.setdefault(number, []).append((queue, queue_offset))
    for number, found in places.items():
        if len(found) > 1:
            findings.wrong("duplicated", f"{number} is at {found}")
    return places


def _there(sent: Sent, content: Content) -> bool:
    return content.get(sent.queue, {}).get(sent.queue_offset or 0) == sent.body


def _judge_light(content: Content, ledger: Ledger, findings: Findings, may_lack: Callable[[Sent], bool]) -> None:
    """Light queues list every message that named them, once, in the log's order."""
    for queue, messages in content.items():
        if not is_light(queue.topic):
            continue
        numbers = [number_of(messages[at]) for at in sorted(messages)]
        if len(set(numbers)) != len(numbers) or -1 in numbers:
            findings.wrong("light", f"{queue} lists {numbers}")
            continue
        known = [ledger.sent[number] for number in numbers if ledger.sent[number].queue_offset is not None]
        if known != sorted(known, key=lambda sent: sent.log_offset):
            findings.wrong("light", f"{queue} is not in the log's order: {numbers}")
    for sent in ledger.acknowledged:
        for name in sent.light:
            there = content.get(Queue(name, LIGHT_QUEUE_ID), {}).values()
            if sent.body not in there and not may_lack(sent) and sent.queue.topic != ledger.deleting:
                findings.wrong("light", f"{name} lacks {sent.body[:DIGITS]!r}")


def _judge_topics(life: Life, ledger: Ledger, findings: Findings) -> None:
    there = set(life.broker.topics.view)
    for topic in ledger.topics - there - {ledger.deleting}:
        findings.wrong("topics", topic)


async def _judge_index(store: MessageStore, ledger: Ledger, content: Content, findings: Findings) -> None:
    """Every message that is there is found by its key, and by that alone."""
    for number, sent in enumerate(ledger.sent):
        if sent.inner:
            continue
        found = store.query(sent.queue.topic, sent.body[:DIGITS].decode(), 0, 1 << 50, 8)
        if isawaitable(found):
            found = await found
        if "which this version does not build" in found.problem:
            return
        bodies = [bytes(record.body) for raw in found.records for record in iter_records(raw)]
        there = [sent.body] if sent.body in content.get(sent.queue, {}).values() else []
        if bodies != there and not sent.deleted and sent.queue.topic != ledger.deleting:
            findings.wrong(
                "index", f"{number} of {sent.queue}: {len(bodies)} found, {len(there)} there; {found.problem}"
            )


def _judge_consumers(life: Life, ledger: Ledger, content: Content, findings: Findings, *, may_lose: bool) -> None:
    for queue, seen in ledger.seen.items():
        if queue.topic == ledger.deleting:
            continue
        for queue_offset, body in seen.items():
            expired = ledger.cleaned and queue_offset < life.broker.store.bounds(queue).min_offset
            if content.get(queue, {}).get(queue_offset) != body and not may_lose and not expired:
                findings.wrong("unseen", f"{body[:8]!r} of {queue} at {queue_offset}")
    for topic in life.broker.topics.view:
        for queue in [Queue(topic, number) for number in range(8)]:
            committed = life.broker.offsets.committed(GROUP, queue)
            if committed is None or topic == ledger.deleting:
                continue
            if committed > ledger.committed.get(queue, 0):
                findings.wrong("passed", f"{queue}: {committed}, the group committed {ledger.committed.get(queue, 0)}")
            bounds = life.broker.store.bounds(queue)
            if committed > bounds.max_offset:
                findings.wrong("passed", f"{queue}: {committed} is behind the end, {bounds.max_offset}")
            for queue_offset, body in content.get(queue, {}).items():
                if queue_offset < committed and ledger.seen[queue].get(queue_offset) != body:
                    findings.wrong("passed", f"{queue}: {committed}, and {queue_offset} was never read")


# --- queues from the log ----------------------------------------------------------------------------------------------


async def judge_rebuilt(world: World, disk: SimulatedFiles, start: Start, findings: Findings) -> None:
    """Rebuild the queues of a cleanly stopped store and compare every entry with the existing ones."""
    live, index = entries_of(disk), index_of(disk)
    kept = {path: data for path, data in copy_of(disk).items() if not DERIVED & set(path.parts)}
    again = Start(start.name, start.sizes, kept)
    bare = again.disk(world.clock.now_ms)
    bare.open(ROOT / "abort", create=True).close()
    bounds: dict[Queue, tuple[int, int]] = {}

    async def look(life: Life) -> None:
        bounds.update({queue: life.broker.store.bounds(queue) for queue in life.broker.store.queues()})
        await life.world.clock.sleep(30)  # an index catches up in the background

    await Life(world, bare, again, None, ALL_KINDS).run(look)
    # Java's files begin where Java began them; a file keeps the keys of messages that were given up, or have expired.
    if start.name == NEW and not findings.holes and not findings.cleaned and index_of(bare) != index:
        findings.wrong("index", f"{len(index)} files, made anew {len(index_of(bare))}, and they differ")
    made = entries_of(bare)
    for queue in live.keys() | made.keys():
        ours, theirs = live.get(queue, {}), made.get(queue, {})
        # The entry of a message that was given up repeats an adjacent one; which one depends on the state at that time.
        # The entry of a batch stays, and the log does not show that.
        unsure = _repeated(ours) | _repeated(theirs) | {at for name, at in findings.given_up if name == queue}
        difference = {each for each in ours.items() ^ theirs.items() if each[0] not in unsure}
        if difference:
            findings.wrong("rebuilt", f"{queue}: {sorted(difference)[:4]}, bounds {bounds.get(queue)}")


def entries_of(disk: SimulatedFiles) -> dict[Queue, dict[int, bytes]]:
    """Return packed entries by queue and offset, from the files, without those with deleted records."""
    log = [int(name) for name in disk.list(ROOT / "commitlog")]
    found: dict[Queue, dict[int, bytes]] = {}
    for path, data in copy_of(disk, ROOT / "consumequeue").items():
        queue = Queue(path.parts[-3], int(path.parts[-2]))
        for at in range(0, len(data), ENTRY_BYTES):
            raw = data[at : at + ENTRY_BYTES]
            log_offset, size, code = ENTRY.unpack(raw)
            if any(raw) and not is_pre_blank(log_offset, size) and log_offset >= min(log):
                if is_ext_address(code):  # address of a unit, which may differ after a rebuild
                    raw = ENTRY.pack(log_offset, size, 0)
                found.setdefault(queue, {})[(int(path.name) + at) // ENTRY_BYTES] = raw
    for path, data in copy_of(disk, ROOT / "batchconsumequeue").items():
        queue = Queue(path.parts[-3], int(path.parts[-2]))
        for at in range(0, len(data) - BATCH_ENTRY_BYTES + 1, BATCH_ENTRY_BYTES):
            entry = read_batch_entry(data, at // BATCH_ENTRY_BYTES)
            if entry is not None and entry.log_offset >= min(log):
                found.setdefault(queue, {})[entry.base_offset] = data[at : at + BATCH_ENTRY_BYTES]
    return found


def index_of(disk: SimulatedFiles) -> list[bytes]:
    """Return the index files, oldest first; their names are their creation times."""
    return [data for _, data in sorted(copy_of(disk, ROOT / "index").items())]


def _repeated(entries: dict[int, bytes]) -> set[int]:
    """Return the queue offsets whose entry occurs more than once."""
    counts = Counter(entries.values())
    return {queue_offset for queue_offset, raw in entries.items() if counts[raw] > 1}
