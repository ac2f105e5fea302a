"""Rewriting a client's properties for the record, cached per distinct text.

The broker decodes the text into a map, adds MSG_REGION, TRACE_ON, CLUSTER and, if missing, UNIQ_KEY, removes POP_CK
(and, unlike Java, queue offsets, which only the store may write), and encodes the map in the order of Java's HashMap.
The messages of a producer mostly differ only in UNIQ_KEY, so the result is cached as a template with a gap for the id:

    TAGS 01 TagA 02 UNIQ_KEY 01 <id> 02 WAIT 01 true 02     ->   before the id | after the id, tags code, WAIT, ...

Source: apache/rocketmq broker/.../processor/SendMessageProcessor.java (sendMessage),
common/.../message/MessageDecoder.java (string2messageProperties, messageProperties2String).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from gantrymq.formats.tags_code import tags_code
from gantrymq.model import properties as props
from gantrymq.model.java import ordered_text

KEPT = 2048  # distinct texts
_GAP = "\x03gap\x03"
_MARK = props.UNIQ_KEY + "\x01"
_SPECIAL = (
    props.TRAN_MSG,
    props.DELAY,
    props.TIMER_DELAY_SEC,
    props.TIMER_DELAY_MS,
    props.TIMER_DELIVER_MS,
    props.INNER_NUM,
    props.INNER_MULTI_DISPATCH,
    props.PRIORITY,
)
_BROKERS = (props.POP_CK, props.INNER_BASE, props.INNER_MULTI_QUEUE_OFFSET)  # set by brokers only; removed from sends
_KEPT_WITH = {props.TRAN_MSG, props.DELAY}  # special, but worth caching: often equal for a producer's messages


def properties_too_long(size: int) -> str:
    """Return the error for properties of *size* bytes."""
    return (
        f"the properties have {size} bytes with those that the broker adds, the longest allowed is "
        f"{props.MAX_SENT_BYTES} (RocketMQ's {props.MAX_BYTES}, less {props.LATER_BYTES} for what a retry, a delay or "
        "a transaction adds later); put long values into the body"
    )


class RewriteResult(NamedTuple):
    """The properties of one message for its record."""

    text: bytes
    unique_id: str
    tags_code: int
    wait_stored: bool
    special: dict[str, str] | None  # includes all properties that need more than plain queueing; None: there are none


class PropertyTemplate(NamedTuple):
    """The stored form of texts that differ only in their id, split before and after the id."""

    before: bytes
    after: bytes
    tags_code: int
    wait_stored: bool


_UNKNOWN: Final[tuple[PropertyTemplate | None, dict[str, str] | None]] = (None, None)


class StoredProperties:
    """Rewrites property texts for one broker."""

    def __init__(self, added: dict[str, str], special: Iterable[str] = ()) -> None:
        """*added*: properties to add to every message, in Java's order; *special*: more names of special properties."""
        self._added = added
        self._special = frozenset((*_SPECIAL, *special))
        # text before and after the id, to the template and the special properties
        self._templates: dict[tuple[str, str], tuple[PropertyTemplate | None, dict[str, str] | None]] = {}

    def envelope(self, text: str) -> dict[str, str]:
        """Return the properties of a send as a map with the added ones, without creating a UNIQ_KEY."""
        own = props.decode_text(text)
        own.update(self._added)
        for name in _BROKERS:
            own.pop(name, None)
        return own

    def template(self, text: str) -> tuple[PropertyTemplate | None, dict[str, str] | None]:
        """Return the template for texts that differ from *text* only in their id, and their special properties."""
        before, _, rest = text.partition(_MARK)
        return self._templates.get((before, rest.partition("\x02")[2]), _UNKNOWN)

    def rewrite(self, text: str, new_id: str | None = None) -> RewriteResult:
        """Return the stored form of a message's properties.

        Args:
            text: the properties in the send header.
            new_id: the UNIQ_KEY to add if there is none.
        """
        head, mark, rest = text.partition(_MARK)
        if mark and (not head or head[-1] == "\x02"):
            unique_id, _, tail = rest.partition("\x02")
            template, special = self._templates.get((head, tail), _UNKNOWN)
            if template is not None and unique_id:
                return RewriteResult(
                    template.before + unique_id.encode("utf-8", "surrogatepass") + template.after,
                    unique_id,
                    template.tags_code,
                    template.wait_stored,
                    special,
                )
            if template is None and (head, tail) not in self._templates:
                self._learn(head, tail)
        own = self.envelope(text)
        if new_id is not None:
            own.setdefault(props.UNIQ_KEY, new_id)
        return RewriteResult(
            ordered_text(own),
            own.get(props.UNIQ_KEY, ""),
            tags_code(own.get(props.TAGS)),
            own.get(props.WAIT) != "false",
            None if self._special.isdisjoint(own) else own,
        )

    def _learn(self, head: str, tail: str) -> None:
        """Cache the template for texts with these parts around the id, or that they must be decoded each time."""
        if _MARK in tail or _GAP in head or _GAP in tail:
            return
        if len(self._templates) >= KEPT:
            self._templates.clear()
        self._templates[head, tail] = _UNKNOWN
        own = self.envelope(f"{head}{_MARK}{_GAP}\x02{tail}")
        special = {name: own[name] for name in self._special.intersection(own)} or None
        if own.get(props.UNIQ_KEY) != _GAP or not _KEPT_WITH.issuperset(special or ()):
            return
        before, _, after = ordered_text(own).partition(_GAP.encode())
        code = tags_code(own.get(props.TAGS))
        self._templates[head, tail] = PropertyTemplate(before, after, code, own.get(props.WAIT) != "false"), special
