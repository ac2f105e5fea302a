"""Dead letters of a group: the newest ones, their causes, and sending them again one by one.

Of the letters that were read, only rows are kept, not bodies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

import attrs

from gantrymq.client import Producer, ReceivedMessage
from gantrymq.errors import CallTimeout, GantryError, GroupNotExist, NoMessageFound
from gantrymq.plugin.model import MessageQueue
from gantrymq_admin.asking import Asking
from gantrymq_admin.dead_letters import DeadQueue, dead_queues, origin_of, pages, place_of, why
from gantrymq_admin.resending import Outcome, Resend, Resent
from gantrymq_console.data import messages
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.groups import group_configs
from gantrymq_console.values import Long
from gantrymq_console.web.jobs import Job

_MOST_READ: Final = 1000  # newest letters of each broker
KNOWN_S: Final = 1.0  # for the question whether a group exists
_MOST_FAILURES: Final = 500  # kept of a run


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

    count: Long  # in the range, at all brokers
    letters: Sequence[Letter]  # newest first, at most `_MOST_READ` of each broker
    causes: Sequence[Cause]  # of `letters`, the latest first


@attrs.frozen
class Selection:
    """Letters to send again."""

    group: str
    target: str  # group, retry or topic; see `gantrymq_admin.resending`
    once_more: bool = False  # also letters that were sent again before
    since_ms: int = 0  # all since this store time, unless places are given
    places: Sequence[str] = ()  # ``broker:offset``


@attrs.define
class Progress:
    """Results of a run so far."""

    group: str
    total: Long
    sent: int = 0
    sent_before: int = 0
    failed: int = 0
    failures: list[tuple[str, str]] = attrs.field(factory=list)  # place and sentence
    by_topic: dict[str, int] = attrs.field(factory=dict)
    next_offset: dict[str, int] = attrs.field(factory=dict)  # by broker, where to continue


async def letters_of(cluster: Cluster, group: str, since_ms: int) -> Letters:
    """Return the dead letters stored since *since_ms*, 0 for all.

    Raises:
        GroupNotExist: no broker knows the group.
        ClientError: of the requests.
    """
    found: list[Letter] = []
    count = 0
    try:
        queues = await _queues(cluster, group, since_ms)
    except GroupNotExist:
        if not await _is_known(cluster, group):
            raise
        queues = []  # a group without failures so far
    for each in queues:
        count += each.count
        start = max(each.min_offset, each.max_offset - _MOST_READ)
        async for page in pages(cluster.reader, each.queue, start, each.max_offset):
            found += [_letter(message, group) for message in page]
    found.sort(key=lambda letter: (letter.since_ms, letter.queue_offset), reverse=True)
    return Letters(Long(count), found, _causes(found))


async def resend(cluster: Cluster, producer: Producer | None, selection: Selection, job: Job[Progress]) -> None:
    """Send the selected letters again, each on its own so that one failure does not stop the others.

    Without a producer nothing is sent, and the progress counts the letters that would be sent. Ends early if the job is
    asked to stop.
    """
    progress = job.progress
    search = None if selection.once_more else Resent(cluster.admin, selection.group)

    def fail(place: str, reason: str) -> None:
        progress.failed += 1
        if len(progress.failures) < _MOST_FAILURES:
            progress.failures.append((place, reason))

    def report(outcome: Outcome) -> None:
        if outcome.reason:
            fail(outcome.place, outcome.reason)

    run = Resend(selection.group, cluster.reader, producer, target=selection.target, resent=search, report=report)
    async for letter in _selected(cluster, selection):
        if job.stop_asked:
            return
        try:
            await run.page([letter])
        except GantryError as problem:
            fail(place_of(letter), str(problem))
        progress.sent, progress.sent_before = run.sent, run.sent_before
        progress.by_topic = dict(run.by_topic)
        progress.next_offset[letter.broker_name] = letter.queue_offset + 1


async def sent_again(cluster: Cluster, group: str, letters: Sequence[Letter]) -> dict[str, int]:
    """Return when letters were sent again, by place. Raises ClientError: that is not known."""
    return await Resent(cluster.admin, group).times(letters)


async def count_selected(cluster: Cluster, selection: Selection) -> int:
    """Return how many letters are selected. Raises NoMessageFound: one of the places has no letter."""
    queues = await _queues(cluster, selection.group, selection.since_ms)
    if not selection.places:
        return sum(each.count for each in queues)
    ranges = {each.queue.broker_name: range(each.min_offset, each.max_offset) for each in queues}
    for place in selection.places:
        broker, _, offset = place.rpartition(":")
        if int(offset) not in ranges.get(broker, ()):
            raise NoMessageFound(f"group {selection.group} has no dead letter {place}")
    return len(selection.places)


async def _selected(cluster: Cluster, selection: Selection) -> AsyncIterator[ReceivedMessage]:
    wanted: dict[str, set[int]] = {}
    for place in selection.places:
        broker, _, number = place.rpartition(":")
        wanted.setdefault(broker, set()).add(int(number))
    for each in await _queues(cluster, selection.group, selection.since_ms):
        if not selection.places:
            async for page in pages(cluster.reader, each.queue, each.min_offset, each.max_offset):
                for letter in page:
                    yield await messages.whole(cluster, letter)
            continue
        for offset in sorted(wanted.get(each.queue.broker_name, ())):
            async for page in pages(cluster.reader, each.queue, offset, offset + 1):
                yield await messages.whole(cluster, page[0])


async def _queues(cluster: Cluster, group: str, since_ms: int) -> list[DeadQueue]:
    """Return the ranges of letters stored since *since_ms*."""
    queues = await dead_queues(cluster.reader, group)
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
