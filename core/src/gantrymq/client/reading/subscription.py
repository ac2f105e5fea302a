"""Local evaluation of subscription expressions, as the broker and the consumer evaluate them.

    wanted = Subscription("Orders", "price > 10 AND region = 'DE'", "SQL92")
    wanted.matches(message)            # a received message, or one to be sent

Filter types are provided by the installed plugins, with the same objects that a broker uses.

Source: apache/rocketmq client/.../impl/consumer/PullAPIWrapper.java (tags are compared once more).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from gantrymq.client.calls.decoding import parse_tags
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


class Subscription:
    """A topic with an expression, compiled once for any number of messages."""

    def __init__(self, topic: str, expression: str = ALL, expression_type: str = TAG, *, group: str = "") -> None:
        """Compile *expression*.

        Args:
            topic: topic of the messages.
            expression: ``TagA || TagB``, ``*``, or an expression of the type; for SQL92 also ``NAME:: text``, which is
                *text* for the filter type NAME.
            expression_type: TAG, SQL92, or a type of a plugin.
            group: for filter types that use it.

        Raises:
            SubscriptionParseFailed: the expression is invalid.
            ClientError: separators without any tag.
            PluginAbsent: no installed plugin provides the type.
        """
        asked = Asked(topic, expression or ALL, expression_type, group=group).resolved()
        self.topic, self.expression, self.expression_type = topic, expression, expression_type
        self._tags = parse_tags(asked.expression) if asked.type == TAG else frozenset[str]()
        self._filter = self._compiled(asked)

    def matches(self, message: Message | ReceivedMessage) -> bool:
        """Return whether a consumer with this subscription receives *message*.

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
        """Return the compiled filter, or None if every message matches."""
        types = _types()
        if asked.type in types:
            return types[asked.type]().compile(asked)
        if asked.type == TAG and asked.expression == ALL:
            return None
        known = ", ".join(sorted(types)) or "none"
        raise PluginAbsent(
            f"no installed plugin offers the filter type {asked.type} (available: {known}); install one that does"
        )

    def __repr__(self) -> str:
        return f"Subscription({self.topic!r}, {self.expression!r}, {self.expression_type!r})"


@cache
def _types() -> Mapping[str, Callable[[], FilterType]]:
    """Return the filter types of the installed plugins; loads them once."""
    return load_plugins(strict=False, only_hooks=("gantry_register_filters",)).filters


def _record(message: Message | ReceivedMessage, found: Mapping[str, str]) -> bytes:
    """Return the record as filters see it, with an uncompressed body."""
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
