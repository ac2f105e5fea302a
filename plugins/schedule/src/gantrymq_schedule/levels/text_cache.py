"""Cache of the property texts of waiting messages.

A waiting message has its own properties plus its target topic and queue, in the order of Java's HashMap. Messages of
one producer mostly differ in their unique id only, so the computed text is cached with a gap for that id.
"""

from __future__ import annotations

from typing import Final, NamedTuple

KEPT: Final = 1024  # distinct texts
_MARK: Final = b"UNIQ_KEY\x01"
_ENDS: Final = (b"", b"\x02")  # what may precede a property name


class TextTemplate(NamedTuple):
    """Stored text of similar messages, without the unique id."""

    before: bytes  # text before the unique id
    after: bytes  # text after it
    level: int


class StoredTextCache:
    """Templates by property text without the unique id, topic and queue id."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes, str, int], TextTemplate] = {}

    def of(self, text: bytes, topic: str, queue_id: int) -> tuple[bytes, int] | None:
        """Return the stored text and the level of a message with these properties, None if they are not cached."""
        before, _, rest = text.partition(_MARK)
        unique_id, _, after = rest.partition(b"\x02")
        known = self._known.get((before, after, topic, queue_id))
        if known is None or not unique_id or not unique_id.isascii():
            return None
        return known.before + unique_id + known.after, known.level

    def learn(self, text: bytes, topic: str, queue_id: int, stored: bytes, level: int) -> None:
        """Cache that a message with the properties *text* got the text *stored* and *level*."""
        before, _, rest = text.partition(_MARK)
        unique_id, end, after = rest.partition(b"\x02")
        gap = _MARK + unique_id + b"\x02"
        if before[-1:] not in _ENDS or not unique_id.isascii() or not unique_id or not end or _MARK in after:
            return
        if stored.count(gap) != 1 or stored.count(_MARK) != 1:
            return  # the id, or the name UNIQ_KEY, also occurs elsewhere in the text
        start, _, rest = stored.partition(gap)
        if len(self._known) >= KEPT:
            self._known.clear()
        self._known[before, after, topic, queue_id] = TextTemplate(start + _MARK, b"\x02" + rest, level)
