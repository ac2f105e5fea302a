"""Writing of long documents in slices of the event loop, with the same output as ``dumps(value, sort=True)``.

Members of `Entries` and `Items` are created while they are written, so that a large table is neither copied nor written
in one step. Everything else is written by `dumps` at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final

from gantrymq.errors import FormatError
from gantrymq.loose_json.writer import dumps, dumps_key

__all__ = ["Entries", "Items", "RawJson", "dumps_in_slices"]

_TOGETHER: Final = 1024  # pieces that are joined


class RawJson(str):
    """JSON text that is written unchanged, as a key or value of `Entries` or an item of `Items`."""

    __slots__ = ()


class Entries:
    """An object with the given members, in this order. Members that are None are omitted."""

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[tuple[Any, Any]] | AsyncGenerator[tuple[Any, Any], None]) -> None:
        self.entries = entries

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> Entries:
        """Return the members of a class, sorted by name like `dumps` sorts them."""
        return cls(sorted(members.items()))


class Items:
    """A list of the given items."""

    __slots__ = ("items",)

    def __init__(self, items: Iterable[Any] | AsyncGenerator[Any, None]) -> None:
        self.items = items


async def dumps_in_slices(value: Any, item_done: Callable[[], Awaitable[object]], *, max_bytes: int) -> bytes:
    """Write *value* like ``dumps(value, sort=True)``.

    Args:
        value: Entries, Items, RawJson, or any value of `dumps`. Entries and Items may contain each other; dicts and
            lists cannot contain them.
        item_done: awaited after each member of Entries and Items, such as `TimeSlices.item_done`. An exception ends
            the writing and closes the generators of *value*.
        max_bytes: maximum size of the result; checked only from time to time, but before it is returned.
    Raises:
        TypeError, FormatError: as `dumps`; FormatError if the result is longer than *max_bytes*.
    """
    writer = _SlicedWriter(item_done, max_bytes)
    await writer.write(value)
    return writer.result()


class _SlicedWriter:
    def __init__(self, item_done: Callable[[], Awaitable[object]], max_bytes: int) -> None:
        self._item_done = item_done
        self._left = max_bytes
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._joined: list[bytes] = []

    def result(self) -> bytes:
        self._join()
        return b"".join(self._joined)

    async def write(self, value: Any) -> None:
        kind = type(value)
        if kind is Entries:
            await self._each(value.entries, self._entry, b"{", b"}")
        elif kind is Items:
            await self._each(value.items, self._item, b"[", b"]")
        else:
            self._pieces.append(_text(value))

    async def _each(
        self, values: Any, write: Callable[[Any, bytes], Awaitable[bool]], begin: bytes, end: bytes
    ) -> None:
        lead = begin
        if isinstance(values, AsyncGenerator):
            async with aclosing(values):
                async for value in values:
                    if await write(value, lead):
                        lead = b","
        else:
            for value in values:
                if await write(value, lead):
                    lead = b","
        self._pieces.append(end if lead == b"," else begin + end)

    async def _entry(self, entry: tuple[Any, Any], lead: bytes) -> bool:
        key, value = entry
        if value is None:
            return False
        self._pieces += (lead, key.encode() if type(key) is RawJson else dumps_key(key), b":")
        await self._rest(value)
        return True

    async def _item(self, value: Any, lead: bytes) -> bool:
        self._pieces.append(lead)
        await self._rest(value)
        return True

    async def _rest(self, value: Any) -> None:
        if type(value) is Entries or type(value) is Items:
            await self.write(value)
        else:
            self._pieces.append(_text(value))
        if len(self._pieces) >= _TOGETHER:
            self._join()
        await self._item_done()

    def _join(self) -> None:
        joined = b"".join(self._pieces)
        self._pieces.clear()
        self._joined.append(joined)
        self._left -= len(joined)
        if self._left < 0:
            raise FormatError(f"the JSON is over the limit of {self._max_bytes} bytes")


def _text(value: Any) -> bytes:
    return value.encode() if type(value) is RawJson else dumps(value, sort=True)
