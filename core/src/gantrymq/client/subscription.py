"""What a consumer would get: expressions evaluated here as the broker and the consumer do it.

    wanted = Subscription("Orders", "price > 10 AND region = 'DE'", "SQL92")
    wanted.matches(message)            # of one that was received, or that is about to be sent

The filter types are those that the installed plugins offer, the same objects that a broker uses.

Source: apache/rocketmq client/.../impl/consumer/PullAPIWrapper.java (tags are compared once more).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from gantrymq.client.decoding import parse_tags
from gantrymq.client.errors import FilterRaised, PluginAbsent, client_error
from gantrymq.client.message import Message, ReceivedMessage
from gantrymq.errors import GantryError
from gantrymq.formats.record import encode_record, read_record
from gantrymq.formats.tags_code import tags_code
from gantrymq.interfaces import FilterType, MessageFilter
from gantrymq.model import properties as names
from gantrymq.model.subscription import ALL, TAG
from gantrymq.model.subscription import Subscription as Asked
from gantrymq.plugins import load_plugins

__all__ = ["Subscription"]


class Subscription:
    """One topic with an expression; compiled once, and good for any number of messages."""

    def __init__(self, topic: str, expression: str = ALL, expression_type: str = TAG, *, group: str = "") -> None:
        """Compile *expression*.

        Args:
            topic: whose messages are wanted.
            expression: ``TagA || TagB``, ``*``, or what the type understands; of SQL92 also ``NAME:: text``, which is
                *text* for the filter type NAME.
            expression_type: TAG, SQL92, or what a plugin offers.
            group: for filter types that want to know it.

        Raises:
            SubscriptionParseFailed: the expression is wrong.
            ClientError: bars without any tag.
            PluginAbsent: no installed plugin offers the type.
        """
        asked = Asked(topic, expression or ALL, expression_type, group=group).resolved()
        self.topic, self.expression, self.expression_type = topic, expression, expression_type
        self._tags = parse_tags(asked.expression) if asked.type == TAG else frozenset[str]()
        self._filter = self._compiled(asked)

    def matches(self, message: Message | ReceivedMessage) -> bool:
        """Whether a consumer with this subscription gets *message*.

        Raises:
            FilterRaised: the filter raised; a `ClientError` and a FilterFailed.
        """
        if message.topic != self.topic:
            return False
        compiled = self._filter
        if compiled is None or compiled.accepts_all:
            return True
        found = message.all_properties() if isinstance(message, Message) else message.properties
        tag = found.get(names.TAGS, "")
        if self._tags and tag not in self._tags:
            return False
        try:
            if not compiled.match_entry(tags_code(tag), None):
                return False
            return not compiled.needs_message or compiled.match_message(read_record(_record(message, found)))
        except GantryError as problem:
            raise client_error(problem) from problem
        except Exception as error:
            raise FilterRaised(f"{type(error).__name__}: {error}") from error

    @staticmethod
    def _compiled(asked: Asked) -> MessageFilter | None:
        """None: every message."""
        types = _types()
        if asked.type in types:
            return types[asked.type]().compile(asked)
        if asked.type == TAG and asked.expression == ALL:
            return None
        known = ", ".join(sorted(types)) or "none"
        raise PluginAbsent(
            f"no installed plugin offers the filter type {asked.type} (there is {known}); install one that does"
        )

    def __repr__(self) -> str:
        return f"Subscription({self.topic!r}, {self.expression!r}, {self.expression_type!r})"


@cache
def _types() -> Mapping[str, Callable[[], FilterType]]:
    """Filter types of the installed plugins, which are loaded once."""
    return load_plugins(strict=False, only_hooks=("gantry_register_filters",)).filters


def _record(message: Message | ReceivedMessage, found: Mapping[str, str]) -> bytes:
    """The record as filters see it; its body as it was sent."""
    if isinstance(message, Message):
        return encode_record(
            topic=message.topic, queue_id=0, body=message.body, properties=names.encode(found), flag=message.flag
        )
    return encode_record(
        topic=message.topic,
        queue_id=message.queue_id,
        body=message.body,
        properties=names.encode(found),
        queue_offset=message.queue_offset,
        log_offset=message.log_offset,
        store_timestamp=message.store_timestamp,
        born_timestamp=message.born_timestamp,
        flag=message.flag,
        sys_flag=message.sys_flag,
        reconsume_times=message.reconsume_times,
        prepared_offset=message.prepared_offset,
    )
