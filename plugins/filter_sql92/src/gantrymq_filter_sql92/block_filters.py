"""Block filters: a Bloom filter over the values that a property has in a block, `BLOCK_ENTRIES` entries of a queue.

    first reading      the block is marked as scanned
    second reading     the values are collected; at the block's end they become a Bloom filter, or the block is marked
                       as not worth one because it has too many
    later readings     a pull whose values are in none of the filters skips the blocks

A reading is a pull, by any group, with an expression that requires equalities of the property. Only sealed blocks
count, that is blocks that end before the queue does: consumers that keep up cost nothing.

Everything is in memory, least recently used first out, and belongs to the event loop. The blocks of a queue are
forgotten with its version: it is another one after a truncation, a rebuilding of entries, and a deletion.

A filter has one key for each value of the property, and one for each number that a value parses to:

    = value            the value as stored, one character per byte
    # number           by the rules of the evaluator
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from gantrymq.plugin.interfaces import Broker, Candidates, MetricFamily, ValuesOf
from gantrymq.plugin.model import Queue, Role
from gantrymq_filter_sql92.settings import BLOCK_ENTRIES, BYTES, VALUES
from gantrymq_filter_sql92.values import EvaluationFailed, to_double, to_integer

if TYPE_CHECKING:
    from gantrymq_filter_sql92.filter import MatchingMessages

_ERROR_RATE: Final = 0.01
_MOST_LOOKUPS: Final = 256  # keys looked up by one pull: 1 ms
_BLOCKS_AHEAD: Final = 4  # blocks after the first candidate that one pull may reach
STEP_ENTRIES: Final = 16  # fewest entries whose values are collected at a time
_MOST_VALUE_BYTES: Final = 16 * 1024  # of the values of a block
_EACH_BYTES: Final = 300  # memory of a block without values
_BLOOM_BYTES: Final = 900  # memory of a Bloom filter besides its bits
_VALUE_BYTES: Final = 120  # memory of a collected value besides its bytes


class RequiredKeys(NamedTuple):
    """A property, and keys of which each matching message has one."""

    name: str
    keys: frozenset[str]


@lru_cache(maxsize=256)
def keys_of(value: bytes) -> frozenset[str]:
    """Return the keys of a stored value."""
    text = value.decode("utf-8", "replace")
    numbers: set[float] = set()
    with suppress(EvaluationFailed):
        numbers.add(to_double(text) + 0.0)  # 0.0 for -0.0
    with suppress(EvaluationFailed):
        numbers.add(float(to_integer(text, 64)))
    return frozenset(("=" + value.decode("latin-1"), *map(key_of, numbers)))


def key_of(value: str | float) -> str:
    return "=" + value.encode().decode("latin-1") if isinstance(value, str) else f"#{value!r}"


class _Key(NamedTuple):
    queue: Queue
    name: str  # of the property
    number: int  # of the block: its first queue offset is a multiple of BLOCK_ENTRIES


class _Mark:
    """The state of a block without values."""


class _Collecting:
    """The state of a block whose values are being collected."""

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.values: set[bytes] = set()


class _Bloom:
    """The state of a block with a Bloom filter."""

    def __init__(self, values: set[bytes]) -> None:
        from pybloom_live import BloomFilter  # most brokers have no such block

        keys = {key for value in values for key in keys_of(value)}
        self._filter = BloomFilter(max(len(keys), 1), _ERROR_RATE)
        for key in keys:
            self._filter.add(key, skip_check=True)
        self.bytes = _BLOOM_BYTES + int(self._filter.num_bits) // 8

    def excludes(self, keys: Set[str]) -> bool:
        """Return whether the block has no value with one of *keys*."""
        return not any(each in self._filter for each in keys)


_State = _Mark | _Collecting | _Bloom
_SCANNED: Final = _Mark()  # read once
_NOT_WORTH: Final = _Mark()  # too many values


class BlockFilters:
    """The block filters of one store."""

    def __init__(self) -> None:
        self.bytes = self.hits = self.misses = 0
        self._most_bytes = self._most_values = 0
        self._blocks: OrderedDict[_Key, tuple[_State, int]] = OrderedDict()  # with bytes; least recently used first
        self._versions: dict[Queue, int] = {}  # that the blocks of the queue are of

    def candidates(self, required: RequiredKeys, queue: Queue, version: int, begin: int, end: int) -> Candidates:
        """See `gantrymq.interfaces.SkippingFilter.candidates`."""
        if self._versions.setdefault(queue, version) != version:
            self._forget(lambda key, _: key.queue == queue)
            self._versions[queue] = version
        queue_end, left = end, max(_MOST_LOOKUPS // len(required.keys), 1)
        number = begin // BLOCK_ENTRIES
        while begin < end and left > 0 and self._excludes(_Key(queue, required.name, number), required):
            self.hits += 1
            left -= 1
            number += 1
            begin = min(number * BLOCK_ENTRIES, end)
        collects = self._collects(_Key(queue, required.name, number), begin)
        for later in range(number + 1, number + 1 + _BLOCKS_AHEAD):
            key = _Key(queue, required.name, later)
            if self._excludes(key, required) or self._collects(key, later * BLOCK_ENTRIES) is not collects:
                end = min(later * BLOCK_ENTRIES, end)
                break
        return Candidates(queue, version, begin, end, queue_end)

    def narrowed(
        self, required: RequiredKeys, part: Candidates, end: int, values: ValuesOf
    ) -> tuple[list[int], int] | None:
        """See `gantrymq.interfaces.SkippingFilter.narrowed`."""
        found: list[int] = []
        known = part.begin
        for key in self._sealed(required, part, end):
            if not self._collects(key, known):
                break
            first, state = key.number * BLOCK_ENTRIES, self._state(key)
            if not isinstance(state, _Collecting):
                state = _Collecting(first)
            stop = min(first + BLOCK_ENTRIES, end)
            runs = self._collect(key, state, known, stop, values)
            if runs is None:
                break
            for (offset, of_run), (after, _) in pairwise([*runs, (stop, set())]):
                if any(not required.keys.isdisjoint(keys_of(value)) for value in of_run):
                    found += range(offset, after)
            known = stop
            if found:  # they may fill the get, and what is after them would be collected in vain
                break
        self._evict()
        return (found, known) if known > part.begin else None

    def examined(self, required: RequiredKeys, part: Candidates, end: int) -> None:
        """See `gantrymq.interfaces.SkippingFilter.examined`."""
        for key in self._sealed(required, part, end):
            if part.begin <= key.number * BLOCK_ENTRIES:
                state = self._state(key)
                if state is None:
                    self._put(key, _SCANNED)
                self.misses += isinstance(state, _Bloom)
        self._evict()

    def deleted(self, topic: str) -> None:
        """Forget the blocks of a topic."""
        self._forget(lambda key, _: key.queue.topic == topic)
        self._versions = {queue: version for queue, version in self._versions.items() if queue.topic != topic}

    def limit(self, most_bytes: int, most_values: int) -> None:
        """Apply the settings: bytes of memory, and values of a block."""
        if most_values != self._most_values:
            self._forget(lambda _, state: state is _NOT_WORTH)
        self._most_bytes, self._most_values = most_bytes, most_values
        self._evict()

    # --- states -----------------------------------------------------------------------------------------------------

    def _state(self, key: _Key) -> _State | None:
        found = self._blocks.get(key)
        return None if found is None else found[0]

    def _collects(self, key: _Key, begin: int) -> bool:
        """Return whether the values of a block are collected by a reading that goes on at *begin*."""
        state = self._state(key)
        if isinstance(state, _Collecting):
            return begin <= state.next_offset
        return state is _SCANNED and begin <= key.number * BLOCK_ENTRIES

    def _excludes(self, key: _Key, required: RequiredKeys) -> bool:
        found = self._state(key)
        if not isinstance(found, _Bloom):
            return False
        self._blocks.move_to_end(key)
        return found.excludes(required.keys)

    def _sealed(self, required: RequiredKeys, part: Candidates, end: int) -> Iterator[_Key]:
        """Yield the keys of the sealed blocks that a get reads at least in part."""
        if self._most_bytes and self._versions.get(part.queue) == part.version:
            sealed = part.queue_end // BLOCK_ENTRIES
            for number in range(part.begin // BLOCK_ENTRIES, min(-(-end // BLOCK_ENTRIES), sealed)):
                yield _Key(part.queue, required.name, number)

    def _collect(
        self, key: _Key, state: _Collecting, begin: int, end: int, values: ValuesOf
    ) -> list[tuple[int, set[bytes]]] | None:
        """Collect the values from *begin* to *end*; return them, None if they are not in memory, or too many."""
        runs: list[tuple[int, set[bytes]]] = []
        at = begin
        while at < end:
            step = end
            if 4 * len(runs) >= at - begin:  # values change often: stop soon after there are too many
                step = min(at + max(self._most_values + 1 - len(state.values), STEP_ENTRIES), end)
            more = values(key.name, at, step)
            if more is None:  # the next reading tries again
                self._put(key, _SCANNED)
                return None
            runs += more
            state.values.update(*(of_run for _, of_run in more))
            if len(state.values) > self._most_values or sum(map(len, state.values)) > _MOST_VALUE_BYTES:
                self._put(key, _NOT_WORTH)
                return None
            at = step
        state.next_offset = max(state.next_offset, end)
        self._put(key, _Bloom(state.values) if end == (key.number + 1) * BLOCK_ENTRIES else state)
        return runs

    def _put(self, key: _Key, state: _State) -> None:
        self._remove(key)
        size = _bytes_of(state)
        self._blocks[key] = state, size
        self.bytes += size

    def _remove(self, key: _Key) -> None:
        _, size = self._blocks.pop(key, (None, 0))
        self.bytes -= size

    def _evict(self) -> None:
        while self.bytes > self._most_bytes:
            self._remove(next(iter(self._blocks)))

    def _forget(self, which: Callable[[_Key, _State], bool]) -> None:
        for key in [key for key, (state, _) in self._blocks.items() if which(key, state)]:
            self._remove(key)


def _bytes_of(state: _State) -> int:
    """Return roughly the memory that a block takes."""
    match state:
        case _Bloom():
            return _EACH_BYTES + state.bytes
        case _Collecting():
            return _EACH_BYTES + sum(map(len, state.values)) + _VALUE_BYTES * len(state.values)
    return _EACH_BYTES


class BlockFilterService:
    """The service ``block_filters``; may be started again after a stop, without filters."""

    name = "block_filters"
    roles = frozenset(Role)  # also on a replica

    def __init__(self) -> None:
        self._broker: Broker | None = None
        self._filters: BlockFilters | None = None
        self._revision = -1
        self._cancel: Callable[[], None] = lambda: None

    def filter_of(self, found: MatchingMessages) -> MatchingMessages:
        """Return the filter of an expression that uses block filters, if the expression allows that."""
        from gantrymq_filter_sql92.skipping import SkippingMessages, required_keys

        required = required_keys(found.expression.tree)
        return found if required is None else SkippingMessages(found.expression, required, self._current)

    async def start(self, broker: Broker) -> None:
        """Start without filters."""
        self._broker, self._revision = broker, -1
        self._filters = filters = BlockFilters()
        self._cancel = broker.topics.on_deleted(filters.deleted)
        for figure in self._metrics(filters):
            broker.metrics.register(figure)

    async def stop(self) -> None:
        """Forget the filters. Idempotent."""
        self._cancel()
        self._broker = self._filters = None

    def _current(self) -> BlockFilters | None:
        broker, filters = self._broker, self._filters
        if broker is not None and filters is not None and self._revision != broker.settings.revision:
            self._revision = broker.settings.revision
            filters.limit(broker.settings.number(BYTES), broker.settings.number(VALUES))
        return filters

    def _metrics(self, filters: BlockFilters) -> list[Callable[[], MetricFamily]]:
        def asked() -> MetricFamily:
            text = "Block filters that SQL92 pulls asked: hit: the block was skipped; miss: it was read."
            values: dict[tuple[str, ...], float] = {("hit",): filters.hits, ("miss",): filters.misses}
            return MetricFamily("gantrymq_filter_blocks_asked_total", text, ("outcome",), values, counter=True)

        def size() -> MetricFamily:
            self._current()  # applies a lower limit
            text = "Memory of block filters, bytes."
            return MetricFamily("gantrymq_filter_blocks_bytes", text, (), {(): filters.bytes})

        return [asked, size]
