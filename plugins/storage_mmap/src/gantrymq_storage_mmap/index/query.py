"""Lookup of messages by key: the files that may hold the key, the chain of its hash, and the records that contain it.

A query finds every message that was published before it. Files and their newest entries are collected on the event
loop, where entries are added; chains and records are read there too if they are few and in memory, else in a thread.
The newest messages up to the limit are returned, oldest first. RocketMQ returns whatever matches the hash and lets the
client filter; here messages of another key or topic are left out and do not count towards the limit.

Source: apache/rocketmq store/.../index/IndexService.java (queryOffset), DefaultMessageStore.java (queryMessage).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from functools import partial
from typing import NamedTuple

import attrs

from gantrymq.errors import StoreError
from gantrymq.plugin.interfaces import QueryResult
from gantrymq_storage_mmap.index.builder import IndexBuilder
from gantrymq_storage_mmap.index.file import IndexFile
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.reading.bounded_workers import BoundedWorkers
from gantrymq_storage_mmap.reading.cold_record import CachedReads, DiskReads, NotInMemory, read_cold
from gantrymq_store_files.index import IndexHeader, overlaps, walk
from gantrymq_store_files.index_hash import index_hash, index_keys

MAX_ANSWER_BYTES = (
    8 * 1024 * 1024
)  # of the records of one query, unless the first is larger: a frame may hold twice that
_MOST_OTHERS = 10_000  # limit of entries with the same hash but another key; then the query ends


class _IndexQuery(NamedTuple):
    """One query."""

    topic: str
    key: str
    key_hash: int
    window_ms: tuple[int, int]  # first and last store time
    wanted: int  # maximum number of messages


class _FileSearch(NamedTuple):
    """One file to search in a thread."""

    file: IndexFile
    header: IndexHeader  # at the start of the query
    newest: int | None  # entry in the slot, None if it must be read from the file


class _SearchResult(NamedTuple):
    """Result of a search."""

    records: list[bytes]  # newest first
    mismatches: int  # number of entries whose record has another key or topic
    gone: int  # number of entries whose record is not in the log


@attrs.frozen(eq=False)
class IndexReader:
    """Answers queries from the files of an `IndexBuilder`."""

    _log: CommitLog
    _workers: BoundedWorkers
    _builder: IndexBuilder
    _most: int  # maximum number of messages per answer (``maxMsgsNumBatch``)

    def query(
        self, topic: str, key: str, begin_ms: int, end_ms: int, limit: int
    ) -> QueryResult | Awaitable[QueryResult]:
        """Return records of *topic* with *key* stored in ``[begin_ms, end_ms]``; the index has a resolution of 1 s.

        Raises:
            StoreError: the disk cannot be read.
        """
        asked = _IndexQuery(topic, key, index_hash(topic, key), (begin_ms, end_ms), min(limit, self._most))
        if self._builder.up_to_date:
            return self._look_up(asked, complete=True)
        return self._catch_up(asked)

    async def _catch_up(self, asked: _IndexQuery) -> QueryResult:
        complete = await self._builder.catch_up()
        found = self._look_up(asked, complete=complete)
        return found if isinstance(found, QueryResult) else await found

    def _look_up(self, asked: _IndexQuery, *, complete: bool) -> QueryResult | Awaitable[QueryResult]:
        """Search at once if everything is in memory."""
        begin_ms, end_ms = asked.window_ms
        searched: list[_FileSearch] = []
        for file in reversed(self._builder.files.all):
            header = file.header
            if overlaps(header, begin_ms, end_ms) and header.index_count > 1:
                searched.append(_FileSearch(file, header, file.newest(asked.key_hash)))
            if header.begin_timestamp < begin_ms:
                break
        if not searched or asked.wanted <= 0:
            return self._result(asked, searched, _SearchResult([], 0, 0), complete=complete)
        try:
            found = self._search(CachedReads(), searched, asked)
        except NotInMemory:
            return self._from_disk(searched, asked, complete=complete)
        except OSError as error:
            raise _unreadable(error) from error
        return self._result(asked, searched, found, complete=complete)

    async def _from_disk(self, searched: list[_FileSearch], asked: _IndexQuery, *, complete: bool) -> QueryResult:
        self._builder.files.reading(1)
        try:
            found = await self._workers.run(self._search, DiskReads(), searched, asked)
        except OSError as error:
            raise _unreadable(error) from error
        finally:
            self._builder.files.reading(-1)
        return self._result(asked, searched, found, complete=complete)

    def _result(
        self, asked: _IndexQuery, searched: list[_FileSearch], found: _SearchResult, *, complete: bool
    ) -> QueryResult:
        files = self._builder.files.all
        last = files[-1].header if files else IndexHeader()
        complete = complete or not self._builder.enabled
        if not found.records:
            problem = self._reason(asked.topic, asked.key, searched, found, complete)
        elif not complete:
            problem = f"newer messages may be missing: {self._lag()}"
        else:
            problem = ""
        return QueryResult(found.records[::-1], last.end_timestamp, last.end_offset, problem, complete)

    def _search(self, source: DiskReads, searched: list[_FileSearch], asked: _IndexQuery) -> _SearchResult:
        """Runs in a thread if *source* may block."""
        topic, key, key_hash, window_ms, wanted = asked
        records: list[bytes] = []
        size = mismatches = gone = 0
        text = key.encode("utf-8", "surrogatepass")
        before = -1
        for log_offset in _offsets(source, searched, key_hash, window_ms):
            if log_offset == before:  # keys of this message were added twice, after a crash
                continue
            before = log_offset
            record = read_cold(self._log, log_offset, source)
            if record is None:
                gone += 1
            elif record.topic != topic or text not in index_keys(bytes(record.properties_bytes), record.sys_flag):
                mismatches += 1
            elif records and size + record.total_size > MAX_ANSWER_BYTES:
                break
            else:
                records.append(bytes(record.raw))
                size += record.total_size
            if len(records) == wanted or mismatches + gone > _MOST_OTHERS:
                break
        return _SearchResult(records, mismatches, gone)

    def _reason(self, topic: str, key: str, searched: list[_FileSearch], found: _SearchResult, complete: bool) -> str:
        """Return why nothing was found."""
        builder = self._builder
        files = builder.files.all
        about = f"no message of topic {topic} with key {key} was found"
        if not complete:
            return f"{about}, but it may be stored: {self._lag()}"
        if found.mismatches:
            return f"{about}: {found.mismatches} with the same hash have another key"
        if found.gone:
            return f"{about}: {found.gone} messages in the index are no longer in the log"
        if not builder.enabled:
            return f"{about}: messages are not indexed, messageIndexEnable is false"
        if not files:
            return f"{about}: no message with a key was stored yet"
        if not searched:
            return (
                f"{about}: no index file covers that time; the index holds messages stored from "
                f"{files[0].header.begin_timestamp} to {files[-1].header.end_timestamp}"
            )
        return f"{about} in that time"

    def _lag(self) -> str:
        """Return why the index is incomplete."""
        builder = self._builder
        if builder.failure:
            return f"{builder.failure}; it ends at log offset {builder.files.place.log_offset}"
        return f"the index lags {builder.lag} bytes behind the log and is being caught up; try again"


def _unreadable(error: OSError) -> StoreError:
    return StoreError(f"the index cannot be read: {error}")


def _offsets(
    source: DiskReads, searched: list[_FileSearch], key_hash: int, window_ms: tuple[int, int]
) -> Iterator[int]:
    """Iterate over the log offsets under *key_hash*, newest first."""
    read = source.index
    for file, header, newest in searched:
        first = file.slot(key_hash, read) if newest is None else newest
        yield from walk(header, first, partial(file.entry, read=read), key_hash, window_ms)
