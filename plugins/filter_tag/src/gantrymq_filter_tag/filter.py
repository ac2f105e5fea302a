"""The filter type TAG: which queue entries a tag subscription takes.

A queue entry holds 64 bits for the tag: its Java hash with the sign extended, 0 without a tag. An entry passes when the
low 32 bits are the hash of one of the subscription's tags. Nothing else is looked at: tags whose hashes are equal both
pass, and the client, which has the text, drops the wrong one.

Source: apache/rocketmq store/.../DefaultMessageFilter.java (isMatchedByConsumeQueue, isMatchedByCommitLog),
common/.../message/MessageExtBrokerInner.java (tagsString2tagsCode).
"""

from __future__ import annotations

from gantrymq.formats.record import RecordView
from gantrymq.interfaces import ExtUnit, MessageFilter
from gantrymq.model.java import string_hash
from gantrymq.model.subscription import ALL, TAG, Subscription
from gantrymq_filter_tag.expression import parse_tags

_LOW_32 = 0xFFFFFFFF


def tags_code(tag: str) -> int:
    """What a queue entry holds for *tag*: its Java hash as a signed number, 0 for the empty text."""
    return string_hash(tag)


class EveryMessage:
    """The compiled form of ``*``."""

    accepts_all = True
    needs_message = False

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """Always True."""
        return True

    def match_message(self, record: RecordView) -> bool:
        """Always True."""
        return True


class AnyOf:
    """The compiled form of a list of tags."""

    __slots__ = ("_hashes",)

    accepts_all = False
    needs_message = False

    def __init__(self, tags: tuple[str, ...]) -> None:
        """*tags* may be empty; then no entry passes."""
        self._hashes = frozenset(tags_code(tag) & _LOW_32 for tag in tags)

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """Whether the entry's hash is one of ours; with an ext unit the code is in there."""
        return (tags_code if ext is None else ext.tags_code) & _LOW_32 in self._hashes

    def match_message(self, record: RecordView) -> bool:
        """Always True: comparing texts is the client's part."""
        return True


class TagFilter:
    """Compiles tag expressions; keeps no state."""

    name = TAG

    def compile(self, subscription: Subscription) -> MessageFilter:
        """Prepare a subscription's expression.

        An empty type counts as TAG but its text is not read: it takes every message for ``*`` and none otherwise.

        Raises:
            SubscriptionParseFailed: the expression is made of separators only.
        """
        if subscription.class_filter or subscription.expression == ALL:
            return EveryMessage()
        if not subscription.type:
            return AnyOf(())
        tags = parse_tags(subscription.expression)
        return EveryMessage() if tags is None else AnyOf(tags)
