"""The filter type PREFIX: messages with a property that begins with a given text.

colour=bl      property colour exists and begins with "bl"
colour=        property colour exists
*              every message
"""

from __future__ import annotations

from gantrymq.errors import SubscriptionParseFailed
from gantrymq.formats.record import RecordView
from gantrymq.interfaces import ExtUnit, MessageFilter
from gantrymq.model.subscription import ALL, Subscription


class EveryMessage:
    """The compiled form of ``*``; the store never calls it."""

    accepts_all = True
    needs_message = False

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """Always True."""
        return True

    def match_message(self, record: RecordView) -> bool:
        """Always True."""
        return True


class BeginsWith:
    """The compiled form of ``name=prefix``."""

    accepts_all = False
    needs_message = True  # properties are in the record, not in the queue entry

    def __init__(self, name: str, prefix: str) -> None:
        self._name = name
        self._prefix = prefix

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """True: unsure."""
        return True

    def match_message(self, record: RecordView) -> bool:
        """Whether the property exists and begins with the prefix."""
        value = record.properties.get(self._name)
        return value is not None and value.startswith(self._prefix)


class PrefixFilter:
    """Compiles expressions; keeps no state."""

    name = "PREFIX"

    def compile(self, subscription: Subscription) -> MessageFilter:
        """Prepare an expression.

        Raises:
            SubscriptionParseFailed: no ``=``, or no name before it.
        """
        expression = subscription.expression
        if expression == ALL:
            return EveryMessage()
        name, mark, prefix = expression.partition("=")
        if not mark or not name.strip():
            raise SubscriptionParseFailed(
                f"{expression!r} is not a prefix expression; write name=prefix, such as colour=bl"
            )
        return BeginsWith(name.strip(), prefix)
