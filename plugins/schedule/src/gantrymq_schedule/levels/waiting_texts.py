"""The property text of messages that wait, worked out once per distinct text.

What one has besides the message's own properties is the topic and the queue that it goes to when it is due, in the
order of Java's HashMap. The messages of one producer mostly differ in their unique id alone, so the result is kept with
a gap where that goes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["Known", "WaitingTexts"]

KEPT: Final = 1024  # distinct texts
_MARK: Final = b"UNIQ_KEY\x01"
_ENDS: Final = (b"", b"\x02")  # of what may stand before a name


class Known(NamedTuple):
    """What becomes of messages that are alike."""

    before: bytes  # the unique id
    after: bytes
    level: int


class WaitingTexts:
    """Remembers them, by text without the unique id, topic and queue id."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes, str, int], Known] = {}

    def of(self, text: bytes, topic: str, queue_id: int) -> tuple[bytes, int] | None:
        """The stored text and the level of a message with these properties; None where nobody has said them."""
        before, _, rest = text.partition(_MARK)
        unique_id, _, after = rest.partition(b"\x02")
        known = self._known.get((before, after, topic, queue_id))
        if known is None or not unique_id or not unique_id.isascii():
            return None
        return known.before + unique_id + known.after, known.level

    def learn(self, text: bytes, topic: str, queue_id: int, stored: bytes, level: int) -> None:
        """Of a message with the properties *text* came *stored* and *level*; of those like it comes the like."""
        before, _, rest = text.partition(_MARK)
        unique_id, end, after = rest.partition(b"\x02")
        gap = _MARK + unique_id + b"\x02"
        if before[-1:] not in _ENDS or not unique_id.isascii() or not unique_id or not end or _MARK in after:
            return
        if stored.count(gap) != 1 or stored.count(_MARK) != 1:
            return  # the id, or the name, is part of something else too
        start, _, rest = stored.partition(gap)
        if len(self._known) >= KEPT:
            self._known.clear()
        self._known[before, after, topic, queue_id] = Known(start + _MARK, b"\x02" + rest, level)
