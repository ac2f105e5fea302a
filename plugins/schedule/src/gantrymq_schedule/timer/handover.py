"""``config/timerHandover.json``: timed messages that another broker delivered, which the commit log does not show.

    {"delivered":[[read time ms, queue offset], ...]}

Of each pair: messages of the timer queue before the queue offset, with a slot before the read time, were delivered. An
acting master writes what it sent elsewhere; for a slot that it could not finish there is a pair of its own, with the
offset of the first message that was not sent. A returning master gets the pairs of its slaves (plugin replication).
Both read the file when they rebuild the wheel, at any later time as well, because what it says stays true.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import attrs

from gantrymq.errors import FormatError
from gantrymq.plugin.loose_json import dumps, loads
from gantrymq.plugin.world import FileReader, FileTree, make_durable_dirs

_FILE: Final = "timerHandover.json"
_MOST: Final = 100  # pairs; older ones are about messages that retention has removed


@attrs.frozen
class TimerHandover:
    """The pairs, the newest last."""

    delivered: tuple[tuple[int, int], ...] = ()

    @classmethod
    def read(cls, files: FileReader, root: Path) -> Self:
        """Read the file, which may be missing. Raises FormatError."""
        path = root / "config" / _FILE
        try:
            found = loads(files.read(path))
            return cls(tuple((int(time_ms), int(offset)) for time_ms, offset in found["delivered"]))
        except FileNotFoundError:
            return cls()
        except (FormatError, KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{path} cannot be read: {error!r}") from error

    def has(self, slot_ms: int, queue_offset: int) -> bool:
        """Return whether a message of the timer queue was delivered."""
        return any(slot_ms < time_ms and queue_offset < offset for time_ms, offset in self.delivered)

    def written(self, files: FileTree, root: Path, more: Sequence[tuple[int, int]]) -> None:
        """Write the file with *more* pairs. Raises OSError."""
        make_durable_dirs(files, root / "config")
        pairs = (*self.delivered, *more)[-_MOST:]
        files.replace(root / "config" / _FILE, dumps({"delivered": [list(each) for each in pairs]}))
