"""The filter type TAG: which queue entries match a tag subscription.

A queue entry has a 64-bit tags code: the sign-extended Java hash of the tag, 0 without a tag. An entry matches if its
low 32 bits are the hash of one of the subscription's tags. Tags with equal hashes both match, and the client, which has
the tag itself, drops the wrong one.

Source: apache/rocketmq store/.../DefaultMessageFilter.java (isMatchedByConsumeQueue, isMatchedByCommitLog),
common/.../message/MessageExtBrokerInner.java (tagsString2tagsCode).
"""

from __future__ import annotations

from typing import Final

from gantrymq.errors import SubscriptionParseFailed
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import ExtUnit, MessageFilter
from gantrymq.plugin.model import ALL, TAG, Subscription, string_hash

_LOW_32 = 0xFFFFFFFF
MAX_CHARACTERS: Final = 65_536  # of an expression: a thousand long tags; a million would hold up the broker for seconds


def tags_code(tag: str) -> int:
    """Return the tags code of *tag*: its Java hash as a signed number, 0 for the empty string."""
    return string_hash(tag)


class EveryMessage:
    """Compiled filter of ``*``."""

    accepts_all = True
    needs_message = False

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """Return True."""
        return True

    def match_message(self, record: RecordView) -> bool:
        """Return True."""
        return True


class AnyOf:
    """Compiled filter of a list of tags."""

    __slots__ = ("_hashes",)

    accepts_all = False
    needs_message = False

    def __init__(self, tags: tuple[str, ...]) -> None:
        """*tags* may be empty; then no entry matches."""
        self._hashes = frozenset(tags_code(tag) & _LOW_32 for tag in tags)

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """Return whether the entry's hash is one of the tags'; with an ext unit, its tags code is used."""
        return (tags_code if ext is None else ext.tags_code) & _LOW_32 in self._hashes

    def match_message(self, record: RecordView) -> bool:
        """Return True: the client compares the tags themselves."""
        return True


class TagFilter:
    """Compiles tag expressions; stateless."""

    name = TAG

    def compile(self, subscription: Subscription) -> MessageFilter:
        """Compile a subscription's expression.

        An empty type counts as TAG, but its expression is not parsed: ``*`` matches every message, anything else none.

        Raises:
            SubscriptionParseFailed: the expression consists of separators only, or is too long.
        """
        if subscription.class_filter or subscription.expression == ALL:
            return EveryMessage()
        if not subscription.type:
            return AnyOf(())
        tags = parse_tags(subscription.expression)
        return EveryMessage() if tags is None else AnyOf(tags)


_SEPARATOR = "||"

_JAVA_BLANKS = "".join(map(chr, range(0x21)))


def parse_tags(expression: str | None) -> tuple[str, ...] | None:
    """Return the distinct tags of an expression, in order; None means every message.

    Pieces between separators are one tag each, without surrounding blanks; empty ones are dropped. An empty expression
    and exactly ``*`` mean every message. Source: apache/rocketmq common/.../filter/FilterAPI.java.

    Raises:
        SubscriptionParseFailed: the expression consists of separators only, or is too long.
    """
    if not expression or expression == ALL:
        return None
    if len(expression) > MAX_CHARACTERS:
        raise SubscriptionParseFailed(
            f"tag expression {expression[:80]!r}... has {len(expression)} characters, the longest allowed has "
            f"{MAX_CHARACTERS}; name fewer tags"
        )
    pieces = expression.split(_SEPARATOR)
    if not any(pieces):
        raise SubscriptionParseFailed(
            f"tag expression {expression[:80]!r} has separators but no tag between them; write * for every message or "
            f"name tags as in TagA || TagB"
        )
    tags = (piece.strip(_JAVA_BLANKS) for piece in pieces)
    return tuple(dict.fromkeys(tag for tag in tags if tag))
