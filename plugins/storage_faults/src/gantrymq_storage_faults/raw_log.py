"""A raw log whose calls fail on request, for tests of code that copies logs, such as replication.

The disk under a store fails with `FaultyFiles`; this wrapper breaks the calls themselves, so it works for any store.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from gantrymq.errors import StoreError
from gantrymq.plugin.interfaces import LogRange, RawLog, Segment

_CALLS = (
    "log_range",
    "read_log",
    "append_raw",
    "truncate",
    "hide",
    "limit_visibility",
    "retain_from",
    "sealed_segments",
)


class FaultyRawLog:
    """A `RawLog` over another one. Reads are cut at random places; the calls named in `fail` raise an error."""

    def __init__(self, inner: RawLog, seed: int = 0) -> None:
        """*seed* determines where reads and appends are cut."""
        self.calls: Counter[str] = Counter()  # number of calls by name, failed ones included
        self._inner = inner
        self._random = random.Random(seed)
        self._failures: dict[str, list[Exception]] = {}

    def fail(self, call: str, error: Exception | None = None, times: int = 1) -> None:
        """Let the next *times* calls of the method *call* raise *error*; by default a StoreError.

        A failing ``append_raw`` appends some of the records, as on a full disk.

        Raises:
            ValueError: there is no such method.
        """
        if call not in _CALLS:
            raise ValueError(f"{call} is not one of {', '.join(_CALLS)}")
        self._failures.setdefault(call, []).extend([error or StoreError(f"{call} fails on request")] * times)

    def _failure(self, call: str) -> Exception | None:
        self.calls[call] += 1
        failures = self._failures.get(call)
        return failures.pop(0) if failures else None

    def _check(self, call: str) -> None:
        if (error := self._failure(call)) is not None:
            raise error

    def log_range(self) -> LogRange:
        """See `RawLog`."""
        self._check("log_range")
        return self._inner.log_range()

    def read_log(self, start: int, max_bytes: int) -> bytes | Awaitable[bytes]:
        """Like `RawLog.read_log`, but return at least one byte and at most *max_bytes*, if there are any."""
        self._check("read_log")
        return self._inner.read_log(start, self._random.randint(1, max_bytes) if max_bytes > 0 else max_bytes)

    def append_raw(self, log_offset: int, data: bytes | memoryview) -> int:
        """See `RawLog` and `fail`."""
        if (error := self._failure("append_raw")) is not None:
            self._inner.append_raw(log_offset, bytes(data)[: self._random.randrange(len(data) + 1)])
            raise error
        return self._inner.append_raw(log_offset, data)

    async def truncate(self, log_offset: int) -> None:
        """See `RawLog`; a failing call removes nothing."""
        self._check("truncate")
        await self._inner.truncate(log_offset)

    async def hide(self, log_offset: int) -> None:
        """See `RawLog`; a failing call hides nothing."""
        self._check("hide")
        await self._inner.hide(log_offset)

    @property
    def visibility_limit(self) -> int | None:
        """See `RawLog`."""
        return self._inner.visibility_limit

    def limit_visibility(self, log_offset: int | None) -> None:
        """See `RawLog`."""
        self._check("limit_visibility")
        self._inner.limit_visibility(log_offset)

    def retain_from(self, floor: Callable[[], int]) -> Callable[[], None]:
        """See `RawLog`."""
        self._check("retain_from")
        return self._inner.retain_from(floor)

    def sealed_segments(self) -> Sequence[Segment]:
        """See `RawLog`."""
        self._check("sealed_segments")
        return self._inner.sealed_segments()

    def on_sealed(self, listener: Callable[[Segment], object]) -> Callable[[], None]:
        """See `RawLog`."""
        return self._inner.on_sealed(listener)

    def on_appended(self, listener: Callable[[int], object]) -> Callable[[], None]:
        """See `RawLog`."""
        return self._inner.on_appended(listener)

    def on_limit_moved(self, listener: Callable[[], object]) -> Callable[[], None]:
        """See `RawLog`."""
        return self._inner.on_limit_moved(listener)

    def on_truncated(self, listener: Callable[[int], object]) -> Callable[[], None]:
        """See `RawLog`."""
        return self._inner.on_truncated(listener)
