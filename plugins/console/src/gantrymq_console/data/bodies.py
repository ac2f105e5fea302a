"""Messages as lines of JSON or CSV, made while they are read.

A file that lacks messages because of a limit or an error ends with a line that says so.
"""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final

from gantrymq.client import ReceivedMessage
from gantrymq.errors import ClientError
from gantrymq.plugin.model import ALL, TAG, MessageQueue
from gantrymq_admin.asking import Asking, Missing
from gantrymq_admin.messages import as_json
from gantrymq_console.data.cluster import HEAD_BYTES, Cluster
from gantrymq_console.data.listing import SEARCHED_BYTES, Contains, Listing, Pace, Row, Walk, Wanted, by_key

FORMATS: Final = ("jsonl", "csv")
MOST: Final = 100_000  # messages of a file
_MOST_BYTES: Final = 256 * 1024 * 1024  # read for a file
BYTES_PER_S: Final = 8 * 1024 * 1024
ROUND_S: Final = 10.0
SMALL: Final = HEAD_BYTES  # larger bodies are read again when it is their turn
MOST_EXPORTED_BYTES: Final = 4 * 1024 * 1024  # of a compressed body; a larger one is shortened
_PART_BYTES: Final = 256 * 1024  # given to the server at a time, because it copies bytes that it cannot send at once
_COLUMNS: Final = (
    "topic", "broker", "queue", "queue_offset", "message_id", "offset_id", "tags", "keys", "born_ms", "born_host",
    "stored_ms", "store_host", "reconsume_times", "flag", "sys_flag", "properties", "body", "body_base64",
    "body_problem",
)  # fmt: skip
_BLANKS: Final = " \n\ufeff\u3000"  # before the signs of a formula


Place = tuple[MessageQueue, int]
Held = ReceivedMessage | Place


def walk_of(cluster: Cluster, wanted: Wanted, test: Contains | None) -> Walk[Held]:
    """Return a walk for `of_walk`, to be started."""

    def keep(message: ReceivedMessage) -> Held | None:
        if test is not None and not test(message):
            return None
        if len(message.body) <= SMALL and not message.is_shortened:
            return message
        return MessageQueue(wanted.topic, message.broker_name, message.queue_id), message.queue_offset

    return Walk(cluster, wanted, keep, rows=200, body_bytes=SMALL if test is None else SEARCHED_BYTES)


async def of_walk(
    cluster: Cluster, walk: Walk[Held], form: str, most: int, test: Contains | None = None
) -> AsyncIterator[bytes]:
    """Yield the file of up to *most* messages of a started walk."""
    lines, count, pace = _Lines(form), 0, Pace(cluster.world.clock, BYTES_PER_S)
    yield lines.head()
    try:
        while not walk.is_done and walk.read_bytes < _MOST_BYTES:
            before = walk.read_bytes
            found = await walk.more(ROUND_S)
            walk.check_expression()
            for held in found:
                if count == most:
                    yield lines.incomplete(f"the limit of {most} messages was reached")
                    return
                count += 1
                line = lines.of(held if isinstance(held, ReceivedMessage) else await _again(cluster, *held))
                for at in range(0, len(line), _PART_BYTES):
                    yield line[at : at + _PART_BYTES]
            await pace.spend(walk.read_bytes - before)
    except ClientError as problem:
        yield lines.incomplete(str(problem))
        return
    problems = [_sentence(each) for each in walk.missing]
    if not walk.is_done:
        problems.append(f"the limit of {_MOST_BYTES // 2**20} MiB was reached; older messages are missing")
    if walk.unreadable:
        problems.append(f"{walk.unreadable} records could not be read")
    if test is not None and test.half_searched:
        problems.append(f"of {test.half_searched} bodies only the first {SEARCHED_BYTES // 2**20} MiB was searched")
    for each in problems:
        yield lines.incomplete(each)


async def of_rows(cluster: Cluster, rows: Sequence[Row], form: str) -> AsyncIterator[bytes]:
    """Yield the file of messages that a page listed before."""
    lines, pace = _Lines(form), Pace(cluster.world.clock, BYTES_PER_S)
    yield lines.head()
    async for part in _of_rows(cluster, rows, lines, pace):
        yield part


async def of_key(
    cluster: Cluster, wanted: Wanted, key: str, first: Listing, missing: list[Missing], form: str, most: int
) -> AsyncIterator[bytes]:
    """Yield the file of up to *most* messages with *key*.

    Args:
        cluster: where they are.
        wanted: their topic and times.
        key: one of their keys, or their unique id.
        first: the newest ones; later pages are read one by one.
        missing: the failed requests of *first*.
        form: of the file.
        most: number of messages.
    """
    lines, pace, page, left = _Lines(form), Pace(cluster.world.clock, BYTES_PER_S), first, most
    problems = [_sentence(each) for each in missing]
    crowded, read_bytes = first.more_in_one_second, 0
    yield lines.head()
    while True:
        rows, is_cut = page.rows[:left], len(page.rows) > left
        async for part in _of_rows(cluster, rows, lines, pace):
            yield part
        left, read_bytes = left - len(rows), read_bytes + page.read_bytes
        if is_cut or (left == 0 and page.next_ms is not None):
            problems.append(f"the limit of {most} messages was reached")
            break
        if page.next_ms is None:
            break
        if read_bytes >= _MOST_BYTES:
            problems.append(f"the limit of {_MOST_BYTES // 2**20} MiB was reached; older messages are missing")
            break
        asking = Asking(cluster.world.clock, ROUND_S)
        try:
            page = await by_key(
                cluster, asking, wanted.topic, key, with_body=False, begin_ms=wanted.begin_ms, end_ms=page.next_ms
            )
        except ClientError as problem:
            problems.append(f"older messages are missing: {problem}")
            break
        problems += [_sentence(each) for each in asking.missing]
        crowded = crowded or page.more_in_one_second
    if crowded:
        problems.append(
            "more than 64 messages with this key were stored within one second at a broker, which returns no more than "
            "64: some are missing"
        )
    for each in dict.fromkeys(problems):
        yield lines.incomplete(each)


async def _of_rows(cluster: Cluster, rows: Sequence[Row], lines: _Lines, pace: Pace) -> AsyncIterator[bytes]:
    for row in rows:
        try:
            message = await _again(cluster, MessageQueue(row.topic, row.broker, row.queue_id), row.queue_offset)
        except ClientError as problem:
            yield lines.incomplete(f"{row.id}: {problem}")
            continue
        line = lines.of(message)
        for at in range(0, len(line), _PART_BYTES):
            yield line[at : at + _PART_BYTES]
        await pace.spend(message.store_size)


async def _again(cluster: Cluster, queue: MessageQueue, offset: int) -> ReceivedMessage:
    reader = cluster.reader_of(MOST_EXPORTED_BYTES)
    result = await reader.pull(queue, offset, max_count=1, expression=ALL, expression_type=TAG)
    if not result.messages or result.messages[0].queue_offset != offset:
        raise ClientError(f"{queue.broker_name}:{queue.queue_id} has no message at {offset} any more")
    return result.messages[0]


def _sentence(missing: Missing) -> str:
    return f"messages of {missing.what} are missing: {missing.sentence}"


class _Lines:
    """Lines of a file."""

    def __init__(self, form: str) -> None:
        self._is_csv = form == "csv"

    def head(self) -> bytes:
        """Return the first line."""
        return csv_line(_COLUMNS) if self._is_csv else b""

    def of(self, message: ReceivedMessage) -> bytes:
        """Return the line of a message."""
        members = as_json(message)
        if not self._is_csv:
            return json.dumps(members, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        properties = json.dumps(members["properties"], ensure_ascii=False)
        return csv_line(members.get(name) if name != "properties" else properties for name in _COLUMNS)

    def incomplete(self, why: str) -> bytes:
        """Return the line that says that messages are missing."""
        if not self._is_csv:
            return json.dumps({"incomplete": why}, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        return csv_line([f"incomplete: {why}"])


def csv_line(values: Iterable[Any]) -> bytes:
    """Return a line of CSV, in which no spreadsheet takes a cell for a formula."""
    line = io.StringIO()
    csv.writer(line).writerow([_cell(each) for each in values])
    return line.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    text = base64.b64encode(value).decode() if isinstance(value, bytes) else "" if value is None else str(value)
    is_formula = text.lstrip(_BLANKS)[:1] in ("=", "+", "-", "@", "\t", "\r", "\uff1d")
    return f"'{text}" if is_formula and not isinstance(value, int) else text
