"""Messages of a topic: the newest ones, the first ones of each queue, one by its offset id; and their output.

An offset id contains the address that the broker had when it stored the message, and the log offset. If nothing answers
there, or another broker, all registered brokers are asked for the message at that log offset. A record has its own
offset id, so that another record at the same offset is not taken for it.

The first offset of a queue is queried just before the queue is read, so that the first messages of a topic with a
thousand queues take a few requests. The remaining messages of all queues are counted with one query each at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import click

from gantrymq.client import Reader, ReceivedMessage
from gantrymq.errors import ClientError, InvalidParameter, NoMessageFound
from gantrymq.plugin.client import SLICE, Backwards, each_of, first_ends, read
from gantrymq.plugin.commands import body_members, body_text, local_time, print_json
from gantrymq.plugin.model import MessageQueue, format_address, parse_offset_id

if TYPE_CHECKING:
    from gantrymq.client import Admin

_NAMED = 5  # queues named in a warning


async def newest_of(
    reader: Reader,
    queues: Sequence[MessageQueue],
    *,
    expression: str,
    expression_type: str,
    begin_ms: int = 0,
    end_ms: int | None = None,
    end_offset: int | None = None,
) -> AsyncGenerator[ReceivedMessage, None]:
    """Yield messages, the newest first; within one millisecond in the order of broker and log offset.

    Args:
        reader: of any group.
        queues: of one topic.
        expression: selects messages, see `Reader.read_back`.
        expression_type: of the expression.
        begin_ms: lowest store time.
        end_ms: highest store time; None for no limit.
        end_offset: highest queue offset in each queue; None for no limit.

    Raises as `Reader.pull`.
    """
    reading: Backwards[ReceivedMessage] = Backwards(
        reader,
        lambda message: message,
        begin_ms=begin_ms,
        expression=expression,
        expression_type=expression_type,
        **({} if end_ms is None else {"end_ms": end_ms}),
    )
    size = max(1, min(SLICE, -(-4 * SLICE // max(1, len(queues)))))  # most of a slice of each would not be needed
    for queue, end in (await first_ends(reader, queues, None if end_ms is None else end_ms + 1)).items():
        reading.add(queue, 0, end if end_offset is None else min(end, end_offset + 1), size=size)
    while not reading.is_done:
        for _, message in reading.take():
            yield message
        await each_of(reading.reads().values())


class Starts:
    """The start offset of each queue, and the present one."""

    def __init__(
        self,
        reader: Reader,
        queues: Sequence[MessageQueue],
        offset: int | None,
        time_ms: int | None,
        tell: Callable[[str], object],
    ) -> None:
        """Prepare reading, without a request.

        Args:
            queues: in their order.
            offset: start there in each queue; None for its first message.
            time_ms: start with messages stored then or later.
            tell: receives warnings about queues without *offset*.
        """
        self.reader = reader
        self.queues = list(queues)
        self._offset, self._time_ms, self._tell = offset, time_ms, tell
        self._at: dict[MessageQueue, int] = {}

    async def known(self) -> None:
        """With an offset, skip the queues that end before it, with a warning. Raises as `Reader.pull`."""
        if self._offset is None:
            return
        bounds = await asyncio.gather(*map(self._bounds, self.queues))
        beyond, gone, there = [], [], []
        for queue, (low, end) in zip(self.queues, bounds, strict=True):
            name = f"{queue.broker_name}:{queue.queue_id}"
            if end < self._offset:
                beyond.append(f"{name} (it ends at {end})")
                continue
            if self._offset < low:
                gone.append(f"{name} (at {low})")
            there.append(queue)
            self._at[queue] = max(low, self._offset)
        self.queues = there
        self._say(f"offset {self._offset} is beyond the end of", beyond)
        self._say(f"offset {self._offset} is no longer there; begun with the first of", gone)

    async def of(self, queue: MessageQueue) -> int:
        """Return the queue offset to continue at. Raises as `Reader.pull`."""
        if queue not in self._at:
            at_time, time_ms = self.reader.offset_for_timestamp, self._time_ms
            found = self.reader.min_offset(queue) if time_ms is None else at_time(queue, time_ms)
            self._at[queue] = await found
        return self._at[queue]

    def passed(self, queue: MessageQueue, queue_offset: int) -> None:
        """Record that the message at *queue_offset* was read."""
        self._at[queue] = queue_offset + 1

    def done(self, queue: MessageQueue) -> None:
        """Record that the queue was read to its end."""
        self.queues.remove(queue)

    async def behind(self) -> int:
        """Count the messages after the present offsets of unfinished queues. Raises as `of`."""
        return sum(await asyncio.gather(*map(self._behind, self.queues)))

    async def _behind(self, queue: MessageQueue) -> int:
        at, end = await asyncio.gather(self.of(queue), self.reader.max_offset(queue))
        return max(0, end - at)

    async def _bounds(self, queue: MessageQueue) -> tuple[int, int]:
        return await asyncio.gather(self.reader.min_offset(queue), self.reader.max_offset(queue))

    def _say(self, what: str, queues: Sequence[str]) -> None:
        if not queues:
            return
        more = f" and of {len(queues) - _NAMED} more" if len(queues) > _NAMED else ""
        self._tell(f"{what} {', '.join(queues[:_NAMED])}{more}")


async def first_of(
    starts: Starts, most: int, *, expression: str, expression_type: str
) -> AsyncGenerator[ReceivedMessage, None]:
    """Yield the first *most* messages of all queues, one queue after the other. Raises as `Reader.pull`."""
    await starts.known()
    for queue in list(starts.queues):
        stream = read(
            starts.reader, queue, await starts.of(queue), expression=expression, expression_type=expression_type
        )
        async with aclosing(stream) as messages:
            async for found in messages:
                starts.passed(queue, found.queue_offset)
                yield found
                most -= 1
                if not most:
                    return
        starts.done(queue)


async def find_by_offset_id(admin: Admin, offset_id: str) -> tuple[str, ReceivedMessage]:
    """Return the message with an offset id, and the address of the broker that has it.

    Raises:
        InvalidParameter: *offset_id* is malformed.
        NoMessageFound: all brokers answered, and none has it.
        BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: of the broker that the id names, if no other has it.
    """
    try:
        host, port, _ = parse_offset_id(offset_id)
    except ValueError as malformed:
        raise InvalidParameter(str(malformed)) from None
    named = format_address(host, port)
    problem: ClientError = NoMessageFound(f"no registered broker has a message with the offset id {offset_id}")
    try:
        found = await _at(admin, offset_id, named)
    except ClientError as refusal:
        problem = refusal
    else:
        if found is not None:
            return named, found
    for address, other in await _elsewhere(admin, offset_id, named):
        if other is not None:
            return address, other
    raise problem


async def _elsewhere(admin: Admin, offset_id: str, named: str) -> list[tuple[str, ReceivedMessage | None]]:
    """Return the messages of the other brokers, masters first; a slave is asked if its master is not registered."""
    try:
        brokers = (await admin.clusters()).brokers
    except ClientError:
        return []
    brokers = tuple(sorted(brokers, key=lambda each: each.master is None))
    places = [(each.name, address) for each in brokers if (address := each.readable()) not in (None, named)]

    async def ask(name: str, address: str) -> tuple[str, ReceivedMessage | None]:
        try:
            found = await _at(admin, offset_id, address)
        except ClientError:
            return address, None
        if found is not None:
            found.broker_name = name
        return address, found

    return list(await asyncio.gather(*(ask(name, str(address)) for name, address in places)))


async def _at(admin: Admin, offset_id: str, address: str) -> ReceivedMessage | None:
    """Return the message if the broker at *address* has it. Raises as `Admin.view_message`."""
    found = await admin.view_message(offset_id, address=address)
    return found if found.offset_id.lower() == offset_id.lower() else None


def show(found: ReceivedMessage, output: str) -> None:
    """Print one message on a line, or with *output* "json" as JSON."""
    if output == "json":
        print_json(as_json(found))
        return
    stored = local_time(found.store_timestamp)
    marks = "".join(f" {name}={value}" for name, value in (("tags", found.tags), ("keys", found.keys)) if value)
    where = f"{found.broker_name}:{found.queue_id} @{found.queue_offset}"
    click.echo(f"{where} {stored}{marks} {body_text(found.body, found.body_problem)}")


def as_json(found: ReceivedMessage) -> dict[str, Any]:
    """Return one message as JSON members."""
    return {
        "topic": found.topic,
        "broker": found.broker_name,
        "queue": found.queue_id,
        "queue_offset": found.queue_offset,
        "message_id": found.message_id,
        "offset_id": found.offset_id,
        "tags": found.tags,
        "keys": found.keys,
        "properties": found.properties,
        "flag": found.flag,
        "sys_flag": found.sys_flag,
        "born_ms": found.born_timestamp,
        "born_host": found.born_host,
        "stored_ms": found.store_timestamp,
        "store_host": found.store_host,
        "reconsume_times": found.reconsume_times,
        **body_members(found.body, found.body_problem),
    }
