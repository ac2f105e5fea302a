"""Dead letters of a group: the newest ones, their causes, and sending them again one by one.

Of the letters that were read, only rows are kept, not bodies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import attrs

from gantrymq.client import Producer, ReceivedMessage
from gantrymq.errors import CallTimeout, ClientError, GantryError, GroupNotExist, NoMessageFound
from gantrymq.plugin.model import MessageQueue
from gantrymq_admin.asking import Asking, Missing
from gantrymq_admin.dead_letters import (
    DeadQueue,
    dead_queue,
    dead_queues,
    origin_of,
    pages,
    place_of,
    queues_of_dead,
    why,
)
from gantrymq_admin.resend_lock import ResendBusy
from gantrymq_admin.resending import Outcome, Resend
from gantrymq_admin.resent import SoughtLetter
from gantrymq_console.data import messages, resends
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.groups import group_configs
from gantrymq_console.data.resend_notes import ResendNotes
from gantrymq_console.values import Long
from gantrymq_console.web.jobs import Job

_MOST_READ: Final = 1000  # newest letters of each broker
KNOWN_S: Final = 1.0  # for the question whether a group exists
_MOST_FAILURES: Final = 500  # kept of a run
_LETTERS_S: Final = 1.5  # for the letters of a page, which needs time for their copies too
_BATCH: Final = 8  # letters that are sent at once
_BATCH_BYTES: Final = 2 * 1024 * 1024
MOST_COUNTED: Final = 200  # letters of a preview that are looked up


@attrs.frozen
class Letter:
    """One dead letter."""

    broker: str
    queue_offset: Long
    origin_topic: str  # empty if unknown
    keys: str
    tags: str
    id: str
    offset_id: str
    failures: int
    since_ms: int  # store time
    why: str  # in the words of `gantrymq group dlq`

    @property
    def place(self) -> str:
        """``broker:offset``, as the commands write it."""
        return f"{self.broker}:{self.queue_offset}"


@attrs.frozen
class Cause:
    """Letters with the same origin and number of failures that died within one hour."""

    origin_topic: str
    failures: int
    hour_ms: int  # its begin
    count: Long
    last_ms: int


@attrs.frozen
class Letters:
    """Dead letters of a group since some time."""

    count: Long  # in the range, at all brokers that answered
    letters: Sequence[Letter]  # newest first, at most `_MOST_READ` of each broker
    causes: Sequence[Cause]  # of `letters`, the latest first
    missing: Sequence[Missing] = ()  # brokers that did not answer; the letters there are not counted


@attrs.frozen
class Selection:
    """Letters to send again."""

    group: str
    target: str  # group, retry or topic; see `gantrymq_admin.resending`
    once_more: bool = False  # also letters that were sent again before
    unknown_too: bool = False  # also letters that may have been: the answer was lost
    since_ms: int = 0  # all since this store time, unless places are given
    places: Sequence[str] = ()  # ``broker:offset``
    ends: Mapping[str, int] | None = None  # all before this offset, by broker; None: all that are there


@attrs.frozen
class Split:
    """How many selected letters will be sent, and how many will be left out."""

    to_send: int
    sent_before: int
    unknown: int


@attrs.define
class Progress:
    """Results of a run so far."""

    group: str
    total: Long
    sent: int = 0
    sent_before: int = 0
    failed: int = 0
    unknown: int = 0  # may have been sent: by this run, or by an earlier one
    failures: list[tuple[str, str]] = attrs.field(factory=list)  # place and sentence, also of unknown ones
    by_topic: dict[str, int] = attrs.field(factory=dict)
    next_offset: dict[str, int] = attrs.field(factory=dict)  # by broker, where to continue
    first_ms: int = 0  # store times of the letters that were sent, or may have been; 0: none was
    last_ms: int = 0


async def letters_of(cluster: Cluster, group: str, since_ms: int, until_ms: int = 0) -> Letters:
    """Return the dead letters stored since *since_ms*, and not after *until_ms*; 0 is no bound.

    Raises:
        GroupNotExist: no broker knows the group.
        ClientError: no broker answers.
    """
    try:
        queues = await queues_of_dead(cluster.reader, group)
    except GroupNotExist:
        if not await _is_known(cluster, group):
            raise
        queues = []  # a group without failures so far
    asking = Asking(cluster.world.clock, _LETTERS_S)
    asked = {
        f"{each.broker_name} {each.queue_id or ''}".strip(): _letters_at(cluster, each, group, since_ms, until_ms)
        for each in queues
    }
    parts = await asking.all(asked)
    if asking.missing and not parts:
        raise CallTimeout(f"{asking.missing[0].what}: {asking.missing[0].sentence}")
    found = [letter for _, letters in parts.values() for letter in letters]
    found.sort(key=lambda letter: (letter.since_ms, letter.queue_offset), reverse=True)
    return Letters(Long(sum(count for count, _ in parts.values())), found, _causes(found), asking.missing)


async def _letters_at(
    cluster: Cluster, queue: MessageQueue, group: str, since_ms: int, until_ms: int
) -> tuple[int, list[Letter]]:
    """Return the number of the dead letters at a broker, and the newest of them."""
    there = await dead_queue(cluster.reader, queue)
    if since_ms:
        there = attrs.evolve(there, min_offset=await _first_since(cluster, there, since_ms))
    if until_ms:
        end = await _first_since(cluster, there, until_ms + 1)
        there = attrs.evolve(there, max_offset=max(end, there.min_offset))
    start = max(there.min_offset, there.max_offset - _MOST_READ)
    listed = pages(cluster.reader, queue, start, there.max_offset)
    return there.count, [_letter(message, group) async for page in listed for message in page]


async def resend(
    cluster: Cluster, producer: Producer | None, notes: ResendNotes, selection: Selection, job: Job[Progress]
) -> None:
    """Send the selected letters again; one failure does not stop the others.

    Without a producer nothing is sent, and the progress counts the letters that would be sent. Ends early if the job is
    asked to stop.

    Raises:
        ResendBusy: another run sends letters of the group.
        GantryError: the notes cannot be read, or brokers do not answer at the beginning.
    """
    progress = job.progress
    reported = set[str]()
    times = dict[str, int]()  # store times of the batch

    def report(outcome: Outcome) -> None:
        reported.add(outcome.place)
        if outcome.place in times and outcome.result in ("sent", "unknown"):
            at_ms = times[outcome.place]
            progress.first_ms, progress.last_ms = min(progress.first_ms or at_ms, at_ms), max(progress.last_ms, at_ms)
        progress.failures = [each for each in progress.failures if each[0] != outcome.place]
        if outcome.reason and len(progress.failures) < _MOST_FAILURES:
            progress.failures.append((outcome.place, outcome.reason))

    def count() -> None:
        progress.sent, progress.sent_before, progress.unknown = run.sent, run.sent_before, run.unknown
        progress.failed = run.failed + run.left_out + lost
        progress.by_topic = dict(run.by_topic)

    await notes.load()
    lost = 0  # letters of batches that failed as a whole
    run = Resend(
        *(selection.group, cluster.reader, producer, cluster.admin, cluster.world.clock),
        target=selection.target,
        by=job.owner,
        report=report,
        once_more=selection.once_more,
        unknown_too=selection.unknown_too,
        notes=notes,
    )
    try:
        async with run:
            async for batch in _batches(cluster, selection):
                if job.stop_asked:
                    break
                reported.clear()
                times = {place_of(letter): letter.store_timestamp for letter in batch}
                try:
                    if not selection.once_more or notes.unknown(selection.group):
                        await _check_searchable(cluster)
                    await run.page(batch)
                except ResendBusy:
                    raise
                except GantryError as problem:
                    for place in [place_of(letter) for letter in batch if place_of(letter) not in reported]:
                        lost += 1
                        report(Outcome(place, "failed", reason=str(problem)))
                count()
                last = batch[-1]
                progress.next_offset[last.broker_name] = last.queue_offset + 1
    finally:
        count()
        resends.forget(cluster, selection.group)


async def split(cluster: Cluster, notes: ResendNotes, selection: Selection) -> Split:
    """Return how many of the selected letters will be sent. Raises ClientError: brokers cannot search now."""
    if selection.once_more and selection.unknown_too:
        return Split(await count_selected(cluster, selection), 0, 0)
    await notes.load()
    letters = [SoughtLetter.of(each, selection.group) async for each in _selected(cluster, selection, whole=False)]
    try:
        found = await resends.states_of(cluster, notes, selection.group, letters)
    except ClientError as problem:
        raise ClientError(f"it is not known which dead letters were sent again before: {problem}") from problem
    states = [each.state for each in found.values()]
    before = 0 if selection.once_more else states.count("yes")
    unknown = 0 if selection.unknown_too else states.count("unknown")
    return Split(len(states) - before - unknown, before, unknown)


async def bounded(cluster: Cluster, selection: Selection) -> Selection:
    """Return *selection* without the letters that will be stored from now on."""
    if selection.places or selection.ends is not None:
        return selection
    queues = await dead_queues(cluster.reader, selection.group)
    return attrs.evolve(selection, ends={each.queue.broker_name: each.max_offset for each in queues})


async def count_selected(cluster: Cluster, selection: Selection) -> int:
    """Return how many letters are selected. Raises NoMessageFound: one of the places has no letter."""
    queues = await _queues(cluster, selection.group, selection.since_ms, selection.ends)
    if not selection.places:
        return sum(each.count for each in queues)
    ranges = {each.queue.broker_name: range(each.min_offset, each.max_offset) for each in queues}
    for place in selection.places:
        broker, _, offset = place.rpartition(":")
        if int(offset) not in ranges.get(broker, ()):
            raise NoMessageFound(f"group {selection.group} has no dead letter {place}")
    return len(selection.places)


async def _check_searchable(cluster: Cluster) -> None:
    """Check that no broker is gone at this moment. Raises ClientError: a copy may be there."""
    cluster.forget("brokers")
    try:
        await resends.check_searchable(cluster)
    except ClientError as problem:
        raise ClientError(f"it is not known which dead letters were sent again before: {problem}") from problem


async def _batches(cluster: Cluster, selection: Selection) -> AsyncIterator[list[ReceivedMessage]]:
    """Yield a few letters of one broker at a time."""
    batch, size = list[ReceivedMessage](), 0
    async for letter in _selected(cluster, selection, whole=True):
        if batch and (len(batch) == _BATCH or size > _BATCH_BYTES or batch[0].broker_name != letter.broker_name):
            yield batch
            batch, size = [], 0
        batch.append(letter)
        size += len(letter.body)
    if batch:
        yield batch


async def _selected(cluster: Cluster, selection: Selection, *, whole: bool) -> AsyncIterator[ReceivedMessage]:
    """Yield the selected letters, with whole bodies if *whole*."""
    wanted: dict[str, set[int]] = {}
    for place in selection.places:
        broker, _, number = place.rpartition(":")
        wanted.setdefault(broker, set()).add(int(number))
    for each in await _queues(cluster, selection.group, selection.since_ms, selection.ends):
        numbers = sorted(wanted.get(each.queue.broker_name, ()))
        ranges = [(at, at + 1) for at in numbers] if selection.places else [(each.min_offset, each.max_offset)]
        for start, end in ranges:
            async for page in pages(cluster.reader, each.queue, start, end):
                for letter in page:
                    yield await messages.whole(cluster, letter) if whole else letter


async def _queues(
    cluster: Cluster, group: str, since_ms: int, ends: Mapping[str, int] | None = None
) -> list[DeadQueue]:
    """Return the ranges of letters stored since *since_ms*, before the offsets *ends* if they are given."""
    queues = await dead_queues(cluster.reader, group)
    if ends is not None:
        queues = [
            attrs.evolve(each, max_offset=max(each.min_offset, min(each.max_offset, ends[each.queue.broker_name])))
            for each in queues
            if each.queue.broker_name in ends
        ]
    if not since_ms:
        return queues
    return [attrs.evolve(each, min_offset=await _first_since(cluster, each, since_ms)) for each in queues]


async def _is_known(cluster: Cluster, group: str) -> bool:
    """Return whether a broker has settings or offsets of a group. Raises CallTimeout: that is not known."""
    asking = Asking(cluster.world.clock, KNOWN_S)
    if any(group in part for part in (await group_configs(cluster, asking)).values()):
        return True
    readers = await cluster.readers()
    found = await asking.all({name: cluster.admin.topics_of_group(at, group) for name, at in readers.items()})
    silent = [each for each in asking.missing if each.reason not in ("refused", "slave")]
    if silent and not any(found.values()):
        raise CallTimeout(f"{silent[0].what}: {silent[0].sentence}")
    return any(found.values())


async def _first_since(cluster: Cluster, dead: DeadQueue, since_ms: int) -> int:
    if not dead.count:
        return dead.min_offset
    queue: MessageQueue = dead.queue
    found = await cluster.admin.offset_for_timestamp(queue, since_ms)
    first = min(max(found, dead.min_offset), dead.max_offset)
    # A broker answers the last message if all are older, so it is compared.
    async for page in pages(cluster.reader, queue, first, min(first + 1, dead.max_offset)):
        return first if page[0].store_timestamp >= since_ms else first + 1
    return first


def _letter(message: ReceivedMessage, group: str) -> Letter:
    return Letter(
        message.broker_name,
        Long(message.queue_offset),
        origin_of(message, group) or "",
        message.keys or "",
        message.tags or "",
        message.message_id,
        message.offset_id,
        message.reconsume_times,
        message.store_timestamp,
        why(message),
    )


def _causes(letters: Sequence[Letter]) -> list[Cause]:
    found: dict[tuple[str, int, int], list[int]] = {}
    for each in letters:
        hour = each.since_ms // 3_600_000 * 3_600_000
        found.setdefault((each.origin_topic, each.failures, hour), []).append(each.since_ms)
    causes = [
        Cause(topic, failures, hour, Long(len(times)), max(times)) for (topic, failures, hour), times in found.items()
    ]
    return sorted(causes, key=lambda cause: cause.last_ms, reverse=True)
