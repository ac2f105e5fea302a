"""Settings of consumers of a group, with RocketMQ's defaults and bounds, and the installed allocation strategies.

Source: apache/rocketmq client/.../consumer/DefaultMQPushConsumer.java,
client/.../impl/consumer/DefaultMQPushConsumerImpl.java (checkConfig).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import attrs
from attrs.validators import optional

from gantrymq.client.argument_types import check_mapping, check_text, number_from
from gantrymq.client.errors import client_errors
from gantrymq.client.tracing.instrumentation import InstrumentationOptions
from gantrymq.errors import InvalidParameter
from gantrymq.interfaces import AllocationStrategy
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import ALL, TAG
from gantrymq.plugins import load_plugins

ConsumeFrom = Literal["last", "first"] | int  # or ms since 1970
RebalanceListener = Callable[[tuple[MessageQueue, ...], tuple[MessageQueue, ...]], object]
UNLIMITED: Final = 0x7FFFFFFF  # Java's Integer.MAX_VALUE


def _text(_: object, field: attrs.Attribute[Any], value: object) -> None:
    check_text(field.name, value)


def _mapping(_: object, field: attrs.Attribute[Any], value: object) -> None:
    check_mapping(field.name, value)


def _start(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value in ("last", "first") or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return
    raise InvalidParameter(f"{field.name} is {value!r}; expected 'last', 'first' or milliseconds since 1970")


@attrs.frozen(kw_only=True)
class ConsumerSettings:
    """Settings of a consumer. Raises InvalidParameter for a value out of bounds."""

    expression: str = ALL
    """For a single topic: ``TagA || TagB``, ``*`` for all, or the syntax of another filter type."""

    expression_type: str = TAG
    """TAG or SQL92; for all topics."""

    auto_ack: bool = True
    """Requesting the next message acknowledges the one before; False to use `Consumer.ack`."""

    on_rebalance: RebalanceListener | None = None
    """Called with the queues taken and the queues given up; plain or async, the next rebalance waits for it. Its
    exceptions are logged.
    """

    offsets_folder: str | None = None
    """For broadcasting, instead of ~/.rocketmq_offsets."""

    orderly: bool = False
    """Deliver the messages of a queue one after the other, retrying each until it is consumed."""

    broadcasting: bool = False
    """Deliver every message to every member; offsets are stored in a file, failed messages are not redelivered."""

    consume_from: ConsumeFrom = attrs.field(default="last", validator=_start)
    """Start of a group without stored offsets: "last", "first", or a store time in ms since 1970."""

    allocation: str = attrs.field(default="AVG", validator=_text)
    """Name of the allocation strategy, as registered by a plugin; the same for all members."""

    allocation_settings: Mapping[str, str] = attrs.field(factory=dict, validator=_mapping)
    """Settings of the allocation strategy."""

    pull_batch: int = attrs.field(default=256, validator=number_from(1, 1024))
    """Maximum number of messages per pull; 1 to 1024. Brokers may be configured to return fewer."""

    pull_pause_s: float = attrs.field(default=0.0, validator=number_from(0, 65.535))
    """Seconds to wait after a pull that returned messages; 0 to 65.535."""

    max_span: int = attrs.field(default=2000, validator=number_from(1, 65535))
    """Maximum distance between the offsets of unfinished messages of a queue; 1 to 65535. Not for orderly consumers."""

    max_queue_messages: int = attrs.field(default=1000, validator=number_from(1, 65535))
    """Maximum number of unfinished messages of a queue; 1 to 65535. At the limit, pulls wait."""

    max_queue_mib: int = attrs.field(default=100, validator=number_from(1, 1024))
    """Maximum size of unfinished messages of a queue in MiB; 1 to 1024."""

    max_topic_messages: int | None = attrs.field(default=None, validator=optional(number_from(1, 6553500)))
    """Maximum messages of a topic, divided among its queues; replaces ``max_queue_messages``; 1 to 6553500."""

    max_topic_mib: int | None = attrs.field(default=None, validator=optional(number_from(1, 102400)))
    """Maximum size of unfinished messages of a topic in MiB, divided among its queues; 1 to 102400."""

    max_tries: int | None = attrs.field(default=None, validator=optional(number_from(0, UNLIMITED)))
    """Redeliveries until a message becomes a dead letter; None for 16, or no limit for orderly consumers."""

    consume_timeout_s: float = attrs.field(default=900.0, validator=number_from(1, 86400))
    """Seconds that a message may be in flight before it is sent back; 1 to 86400. Not for orderly consumers."""

    failure_chars: int = attrs.field(default=200, validator=number_from(0, 2000))
    """Characters of a handler's exception, class and text, that dead letters have in CONSUME_FAILURE; 0 to 2000."""

    suspend_s: float = attrs.field(default=1.0, validator=number_from(0.01, 30))
    """Seconds that a queue of an orderly consumer waits after a failed message; 0.01 to 30."""

    commit_every_s: float = attrs.field(default=5.0, validator=number_from(0.1, 3600))
    """Seconds between two commits of the offsets; 0.1 to 3600."""

    rebalance_every_s: float = attrs.field(default=20.0, validator=number_from(1, 3600))
    """Seconds between two rebalances without changes reported by brokers; 1 to 3600."""

    check_crcs: bool = False
    """Verify bodies against the CRC of their records; a mismatch is reported by `body_problem`."""

    @property
    def tries(self) -> int:
        """Redeliveries until a message becomes a dead letter: 16, or no limit for orderly consumers."""
        return (UNLIMITED if self.orderly else 16) if self.max_tries is None else self.max_tries

    @property
    def message_model(self) -> str:
        """RocketMQ's name of the message model."""
        return "BROADCASTING" if self.broadcasting else "CLUSTERING"

    @property
    def consume_from_where(self) -> str:
        """RocketMQ's name of the start position."""
        if isinstance(self.consume_from, int):
            return "CONSUME_FROM_TIMESTAMP"
        return f"CONSUME_FROM_{self.consume_from.upper()}_OFFSET"


@attrs.frozen(kw_only=True)
class LitePullSettings(ConsumerSettings):
    """Settings of a lite pull consumer. Those of `ConsumerSettings` for order and failed messages have no effect."""

    auto_commit: bool = True
    """Store the offsets every ``commit_every_s`` seconds and at `close`."""


class ConsumerOptions(InstrumentationOptions, total=False):
    """Options of `Client.consumer`, each may be omitted: the fields of `ConsumerSettings`, hooks and trace."""

    expression: str
    expression_type: str
    auto_ack: bool
    on_rebalance: RebalanceListener | None
    offsets_folder: str | None
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
    failure_chars: int
    suspend_s: float
    commit_every_s: float
    rebalance_every_s: float
    check_crcs: bool


class LitePullOptions(ConsumerOptions, total=False):
    """Options of `Client.lite_pull`, except those for order and failed messages."""

    auto_commit: bool


def allocation_strategy(name: str, settings: dict[str, str], tell: Callable[[str], object]) -> AllocationStrategy:
    """Return the strategy *name*, built with its *settings*.

    Args:
        name: as registered by plugins, such as "AVG".
        settings: the strategy's own settings.
        tell: called with a sentence for each broken plugin.

    Raises:
        PluginAbsent: no plugin provides it; the message lists the available strategies or the package to install.
        OptionUnusable: the strategy rejects its settings.
    """
    with client_errors():
        loaded = load_plugins(strict=False, only_hooks=("gantry_register_allocations",))
        for problem in loaded.problems:
            tell(problem)
        return loaded.allocation(name)(settings)
