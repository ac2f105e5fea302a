"""What a client's property text becomes in the record, worked out once per distinct text.

A broker reads the text into a map, adds MSG_REGION, TRACE_ON, CLUSTER and, if missing, UNIQ_KEY, takes POP_CK out (and,
as Java does not, queue offsets, which only the store may write), and writes the map in the order of Java's HashMap. The
messages of one producer mostly differ in UNIQ_KEY alone, so the result is kept with a gap where the id goes:

    TAGS 01 TagA 02 UNIQ_KEY 01 <id> 02 WAIT 01 true 02     ->   before the id | after the id, tags code, WAIT, ...

Source: apache/rocketmq broker/.../processor/SendMessageProcessor.java (sendMessage),
common/.../message/MessageDecoder.java (string2messageProperties, messageProperties2String).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from gantrymq.formats.tags_code import tags_code
from gantrymq.model import properties as props
from gantrymq.model.property_order import ordered_text

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
)
_BROKERS = (props.POP_CK, props.INNER_BASE, props.INNER_MULTI_QUEUE_OFFSET)  # a broker's own: nobody may send them
_KEPT_WITH = {props.TRAN_MSG, props.DELAY}  # special, and many messages of a producer have the same


def properties_too_long(size: int) -> str:
    """Why a message whose properties take *size* bytes is refused."""
    return (
        f"the properties have {size} bytes with those that the broker adds, the longest allowed is "
        f"{props.MAX_SENT_BYTES} (RocketMQ's {props.MAX_BYTES}, less {props.LATER_BYTES} for what a retry, a delay or "
        "a transaction adds later); put long values into the body"
    )


class RewriteResult(NamedTuple):
    """One message's properties, ready for its record."""

    text: bytes
    unique_id: str
    tags_code: int
    wait_stored: bool
    special: dict[str, str] | None  # properties, those at least that ask for more than being queued; None: none does


class PropertyTemplate(NamedTuple):
    """The stored form of texts that differ in their id alone: what stands before it and behind it, and the rest."""

    before: bytes
    after: bytes
    tags_code: int
    wait_stored: bool


_UNKNOWN: Final[tuple[PropertyTemplate | None, dict[str, str] | None]] = (None, None)


class StoredProperties:
    """Rewrites property texts for one broker."""

    def __init__(self, added: dict[str, str], special: Iterable[str] = ()) -> None:
        """*added*: names and values every message gets, in the order in which Java puts them; *special*: more names."""
        self._added = added
        self._special = frozenset((*_SPECIAL, *special))
        self._templates: dict[
            tuple[str, str], tuple[PropertyTemplate | None, dict[str, str] | None]
        ] = {}  # and what is special

    def envelope(self, text: str) -> dict[str, str]:
        """The properties of a send as a map, the broker's own added; no UNIQ_KEY is made up."""
        own = props.decode_text(text)
        own.update(self._added)
        for name in _BROKERS:
            own.pop(name, None)
        return own

    def template(self, text: str) -> tuple[PropertyTemplate | None, dict[str, str] | None]:
        """What is known of texts that differ from *text* in their id alone, and what of it is special."""
        before, _, rest = text.partition(_MARK)
        return self._templates.get((before, rest.partition("\x02")[2]), _UNKNOWN)

    def rewrite(self, text: str, new_id: str | None = None) -> RewriteResult:
        """The stored form of a single message's text.

        Args:
            text: as the send header has it; a *new_id* is put in where it has no UNIQ_KEY.
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
        """Keep what a text with these parts around its id becomes, or that it needs looking at each time."""
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
