"""delayLevels.json: the setting ``messageDelayLevel`` with which the due times of a store were written. GantryMQ's own.

    {
    "<log offset>": "1s 5s 10s ...",
    ...
    }

Due times are the tags codes of delayed messages, and the log does not contain the levels that they depend on. The
levels apply to records from that log offset on, up to the next one in the file. The first also apply to records before
it. A Java broker ignores the file and does not write it.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from pathlib import Path

import attrs

from gantrymq import strict_json
from gantrymq.errors import ConfigError, FormatError
from gantrymq.formats.tags_code import DEFAULT_DELAY_LEVELS, parse_delay_levels
from gantrymq.world.files import FileReader

DELAY_LEVELS = "delayLevels.json"  # in the store's folder


@attrs.frozen
class DelayLevels:
    """Delay levels by log offset. Plain values, because they are sent to other processes."""

    starts: tuple[int, ...]  # log offsets, ascending
    texts: tuple[str, ...]  # messageDelayLevel from each on
    _levels_ms: tuple[tuple[int, ...], ...] = attrs.field(init=False, repr=False)

    @_levels_ms.default
    def _parse(self) -> tuple[tuple[int, ...], ...]:
        return tuple(map(parse_delay_levels, self.texts))

    @classmethod
    def of(cls, text: str = DEFAULT_DELAY_LEVELS) -> DelayLevels:
        """Return levels that apply to the whole log. Raises ConfigError if *text* is malformed."""
        return cls((0,), (text,))

    def at(self, log_offset: int) -> tuple[int, ...]:
        """Return the durations in ms, from level 1 on, for the record at *log_offset*."""
        return self._levels_ms[max(0, bisect_right(self.starts, log_offset) - 1)]

    @property
    def newest_ms(self) -> tuple[int, ...]:
        """The durations in ms of the newest levels."""
        return self._levels_ms[-1]

    def with_setting(self, text: str, log_end: int, log_min: int) -> DelayLevels:
        """Return these levels, with *text* from *log_end* on, and without those before the log's start *log_min*.

        Raises ConfigError if *text* is malformed.
        """
        kept = [each for each in zip(self.starts, self.texts, strict=True) if each[0] < log_end]
        while len(kept) > 1 and kept[1][0] <= log_min:
            del kept[0]
        if not kept or parse_delay_levels(kept[-1][1]) != parse_delay_levels(text):
            kept.append((log_end, text))
        return DelayLevels(tuple(start for start, _ in kept), tuple(text for _, text in kept))

    def pack(self) -> bytes:
        """Return the content of the file."""
        return json.dumps(dict(zip(map(str, self.starts), self.texts, strict=True)), indent=0).encode()


def read_delay_levels(files: FileReader, root: Path) -> DelayLevels | None:
    """Read the file of the store *root*; None without one.

    Raises:
        FormatError: the content is not valid.
        OSError: the disk failed.
    """
    path = root / DELAY_LEVELS
    try:
        content = files.read(path)
    except FileNotFoundError:
        return None
    try:
        found = {int(start): str(text) for start, text in strict_json.loads(content).items()}
        if not found or sorted(found) != list(found):
            raise ValueError("log offsets must be ascending")
        return DelayLevels(tuple(found), tuple(found.values()))
    except (ValueError, AttributeError, ConfigError) as problem:
        raise FormatError(f"{path} is not a JSON object of delay levels by log offset ({problem})") from problem
