"""Settings of a producer, with RocketMQ's defaults.

Source: apache/rocketmq client/.../producer/DefaultMQProducer.java, ProduceAccumulator.java.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypedDict

import attrs

from gantrymq.client.selectors import Balancing, Selector
from gantrymq.client.user_functions import check_function
from gantrymq.client.validation import MAX_MESSAGE_BYTES
from gantrymq.errors import InvalidParameter
from gantrymq.model.names import DEFAULT_TOPIC

__all__ = ["SEND_TIMEOUT_S", "Batching", "ProducerOptions", "ProducerSettings"]

SEND_TIMEOUT_S: Final = 3.0
MOST_SENDS: Final = 512
MOST_BYTES: Final = 16 * 1024 * 1024


def _at_least(least: float, most: float = math.inf) -> Any:
    def check(_: object, field: attrs.Attribute[Any], value: float) -> None:
        if not least <= value <= most:
            up_to = f"to {most:g}" if most < math.inf else "or more"
            raise InvalidParameter(f"{field.name} is {value}; expected {least:g} {up_to}")

    return check


@attrs.frozen(kw_only=True)
class Batching:
    """When messages that are gathered are sent; docs/client-producing.md says which are not.

    Raises:
        InvalidParameter: a value is out of bounds.
    """

    max_wait_ms: float = attrs.field(default=10, validator=_at_least(0, 30_000))
    """Milliseconds that a message waits for others at most; 0 for those that are sent in the same turn of the loop."""

    max_bytes: int = attrs.field(default=32 * 1024, validator=_at_least(1, 2 * 1024 * 1024))
    """Of a batch's body. Longer messages go by themselves."""

    max_messages: int = attrs.field(default=1024, validator=_at_least(1))
    """Of a batch."""


@attrs.frozen(kw_only=True)
class ProducerSettings:
    """How a producer works. Raises InvalidParameter for a value out of bounds."""

    default_timeout_s: float = attrs.field(default=SEND_TIMEOUT_S, validator=_at_least(0))
    """Seconds of a send that names none, all its attempts together."""

    retries: int = attrs.field(default=2, validator=_at_least(0))
    """Further attempts of `send`, `send_soon` and `send_batch`."""

    async_retries: int = attrs.field(default=2, validator=_at_least(0))
    """Further attempts of `send_async`."""

    retry_not_stored: bool = False
    """Try another broker as well when a message is stored less safely than promised."""

    attempt_timeout_s: float | None = attrs.field(default=None, validator=attrs.validators.optional(_at_least(0)))
    """The longest one attempt may take while another is left; None for all the time there is."""

    selector: Selector | Balancing = Balancing.ROUND_ROBIN
    """Where messages go whose send does not say, see `Selector` and `Balancing`."""

    latency_fault_tolerance: bool = False
    """Leave brokers alone for a while that failed or were slow, as docs/client-producing.md says."""

    detect_faults: bool = False
    """With it: ask brokers that gave no answer whether they are there again."""

    batching: Batching | bool = False
    """Gather single sends into batches; true for RocketMQ's limits."""

    default_topic: str = DEFAULT_TOPIC
    """A topic that does not exist is created after its likeness, if brokers allow it."""

    default_topic_queues: int = attrs.field(default=4, validator=_at_least(1))
    """Queues per broker of such a topic, at most."""

    compress_over_bytes: int = attrs.field(default=4096, validator=_at_least(0))
    """Bodies of so many bytes and more are compressed, where that makes them shorter."""

    compression: str = "zlib"
    """zlib, which every client reads, or lz4 or zstd, which those from 5.0 on do and which need their packages."""

    compress_level: int = 5
    """0 to 9; LZ4 has none."""

    max_message_bytes: int = attrs.field(default=MAX_MESSAGE_BYTES, validator=_at_least(1))
    """The longest body, before compression, and the longest batch."""

    max_under_way: int = attrs.field(default=MOST_SENDS, validator=_at_least(1))
    """Sends to one broker whose answers are not there yet; further ones wait in a line."""

    max_under_way_bytes: int = attrs.field(default=MOST_BYTES, validator=_at_least(1))
    """The same of their bodies before compression; a larger one goes by itself."""

    def __attrs_post_init__(self) -> None:
        if self.detect_faults and not self.latency_fault_tolerance:
            raise InvalidParameter("detect_faults looks for what latency_fault_tolerance found; set that as well")
        if not isinstance(self.selector, Balancing):
            check_function(self.selector, "the selector", plain="it is not awaited")


class ProducerOptions(TypedDict, total=False):
    """`ProducerSettings` as keywords, each of which may be left out; meanings and bounds are said there."""

    default_timeout_s: float
    retries: int
    async_retries: int
    retry_not_stored: bool
    attempt_timeout_s: float | None
    selector: Selector | Balancing
    latency_fault_tolerance: bool
    detect_faults: bool
    batching: Batching | bool
    default_topic: str
    default_topic_queues: int
    compress_over_bytes: int
    compression: str
    compress_level: int
    max_message_bytes: int
    max_under_way: int
    max_under_way_bytes: int
