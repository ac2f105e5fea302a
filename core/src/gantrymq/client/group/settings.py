"""Settings of a group's consumer, with RocketMQ's defaults and bounds.

Source: apache/rocketmq client/.../consumer/DefaultMQPushConsumer.java,
client/.../impl/consumer/DefaultMQPushConsumerImpl.java (checkConfig).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypedDict

import attrs

from gantrymq.errors import InvalidParameter

__all__ = ["UNLIMITED", "ConsumeFrom", "ConsumerSettings", "SettingOptions"]

ConsumeFrom = Literal["last", "first"] | int  # or ms since 1970
UNLIMITED: Final = 0x7FFFFFFF


def _within(least: float, most: float) -> Any:
    def check(_: object, field: attrs.Attribute[Any], value: float) -> None:
        if not least <= value <= most:
            raise InvalidParameter(f"{field.name} is {value}; expected {least:g} to {most:g}")

    return check


def _start(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value in ("last", "first") or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return
    raise InvalidParameter(f"{field.name} is {value!r}; expected 'last', 'first' or milliseconds since 1970")


@attrs.frozen(kw_only=True)
class ConsumerSettings:
    """How a consumer works. Raises InvalidParameter for a value out of bounds."""

    orderly: bool = False
    """The messages of a queue one after the other, each again until it is consumed."""

    broadcasting: bool = False
    """Every member gets every message; progress is kept in a file, and what failed does not come again."""

    consume_from: ConsumeFrom = attrs.field(default="last", validator=_start)
    """Where a group without progress begins: "last", "first", or with what was stored at a time, ms since 1970."""

    allocation: str = "AVG"
    """Strategy that shares out queues, by the name under which a plugin registers it; the same for all members."""

    allocation_settings: Mapping[str, str] = attrs.field(factory=dict)
    """Settings of the strategy, as it names them."""

    pull_batch: int = attrs.field(default=256, validator=_within(1, 1024))
    """Messages of one pull, at most; 1 to 1024. Brokers give fewer where they are told to."""

    pull_pause_s: float = attrs.field(default=0.0, validator=_within(0, 65.535))
    """Seconds between pulls of a queue that found messages; 0 to 65.535."""

    max_span: int = attrs.field(default=2000, validator=_within(1, 65535))
    """Offsets between the first and the last message held of a queue, at most; 1 to 65535. Not when orderly."""

    max_queue_messages: int = attrs.field(default=1000, validator=_within(1, 65535))
    """Messages held of one queue, at most; 1 to 65535. More are not pulled until some are consumed."""

    max_queue_mib: int = attrs.field(default=100, validator=_within(1, 1024))
    """MiB of bodies held of one queue, at most; 1 to 1024."""

    max_topic_messages: int | None = attrs.field(default=None, validator=attrs.validators.optional(_within(1, 6553500)))
    """Messages held of a topic, shared out among its queues held: replaces ``max_queue_messages``; 1 to 6553500."""

    max_topic_mib: int | None = attrs.field(default=None, validator=attrs.validators.optional(_within(1, 102400)))
    """The same in MiB of bodies; 1 to 102400."""

    max_tries: int | None = attrs.field(default=None, validator=attrs.validators.optional(_within(0, UNLIMITED)))
    """Deliveries after the first one until a message is a dead letter; None for 16, and without end when orderly."""

    consume_timeout_s: float = attrs.field(default=900.0, validator=_within(1, 86400))
    """Seconds that a message may be in hand before it goes back to its broker; 1 to 86400. Not when orderly."""

    suspend_s: float = attrs.field(default=1.0, validator=_within(0.01, 30))
    """When orderly: seconds that a queue waits after a message failed; 0.01 to 30."""

    commit_every_s: float = attrs.field(default=5.0, validator=_within(0.1, 3600))
    """Seconds after which progress is stored again; 0.1 to 3600."""

    rebalance_every_s: float = attrs.field(default=20.0, validator=_within(1, 3600))
    """Seconds after which queues are shared out again, besides when brokers tell of changes; 1 to 3600."""

    check_crcs: bool = False
    """Whether bodies are compared with the check sums of their records; `body_problem` says where they differ."""

    @property
    def tries(self) -> int:
        """Deliveries after the first one until a message is a dead letter: 16, orderly without end."""
        return (UNLIMITED if self.orderly else 16) if self.max_tries is None else self.max_tries

    @property
    def message_model(self) -> str:
        """RocketMQ's name."""
        return "BROADCASTING" if self.broadcasting else "CLUSTERING"

    @property
    def consume_from_where(self) -> str:
        """RocketMQ's name."""
        if isinstance(self.consume_from, int):
            return "CONSUME_FROM_TIMESTAMP"
        return f"CONSUME_FROM_{self.consume_from.upper()}_OFFSET"


class SettingOptions(TypedDict, total=False):
    """`ConsumerSettings` as keywords, each of which may be left out; meanings and bounds are said there."""

    orderly: bool
    broadcasting: bool
    consume_from: ConsumeFrom
    allocation: str
    allocation_settings: Mapping[str, str]
    pull_batch: int
    pull_pause_s: float
    max_span: int
    max_queue_messages: int
    max_queue_mib: int
    max_topic_messages: int | None
    max_topic_mib: int | None
    max_tries: int | None
    consume_timeout_s: float
    suspend_s: float
    commit_every_s: float
    rebalance_every_s: float
    check_crcs: bool
