"""Settings of a producer, with RocketMQ's defaults.

Source: apache/rocketmq client/.../producer/DefaultMQProducer.java, ProduceAccumulator.java.
"""

from __future__ import annotations

from typing import Final

import attrs

from gantrymq.client.argument_types import number_from
from gantrymq.client.sending.selectors import Balancing, Selector
from gantrymq.client.sending.validation import MAX_MESSAGE_BYTES
from gantrymq.client.user_functions import check_function
from gantrymq.errors import InvalidParameter
from gantrymq.model.names import DEFAULT_TOPIC

SEND_TIMEOUT_S: Final = 3.0  # sendMsgTimeout of DefaultMQProducer
_MOST_SENDS: Final = 512
MOST_BYTES: Final = 16 * 1024 * 1024


@attrs.frozen(kw_only=True)
class Batching:
    """Limits of automatic batching; docs/client/producing.md lists the messages that are not batched.

    Raises:
        InvalidParameter: a value is out of bounds.
    """

    max_wait_ms: float = attrs.field(default=10, validator=number_from(0, 30_000))
    """Maximum milliseconds that a message waits for others; 0 batches only sends of the same turn of the event loop."""

    max_bytes: int = attrs.field(default=32 * 1024, validator=number_from(1, 2 * 1024 * 1024))
    """Maximum size of a batch's body. Longer messages are sent on their own."""

    max_messages: int = attrs.field(default=1024, validator=number_from(1))
    """Maximum messages in a batch."""


@attrs.frozen(kw_only=True)
class ProducerSettings:
    """Settings of a producer. Raises InvalidParameter if a value is out of bounds."""

    default_timeout_s: float = attrs.field(default=SEND_TIMEOUT_S, validator=number_from(0))
    """Timeout in seconds of a send without its own, for all attempts together."""

    retries: int = attrs.field(default=2, validator=number_from(0))
    """Additional attempts of `send`, `send_soon` and `send_batch`."""

    async_retries: int = attrs.field(default=2, validator=number_from(0))
    """Additional attempts of `send_async`."""

    retry_not_stored: bool = False
    """Also retry at another broker if a message is stored less safely than promised."""

    attempt_timeout_s: float | None = attrs.field(default=None, validator=attrs.validators.optional(number_from(0)))
    """Maximum duration of one attempt while more are left; None for all the remaining time."""

    selector: Selector | Balancing = Balancing.ROUND_ROBIN
    """Chooses the queue of sends that do not name one, see `Selector` and `Balancing`."""

    latency_fault_tolerance: bool = False
    """Avoid slow or failed brokers for a while, see docs/client/producing.md."""

    detect_faults: bool = False
    """With latency_fault_tolerance: probe brokers that did not answer until they do."""

    batching: Batching | bool = False
    """Collect single sends into batches; true for RocketMQ's limits."""

    default_topic: str = DEFAULT_TOPIC
    """Template for a topic that does not exist, if brokers create topics automatically."""

    default_topic_queues: int = attrs.field(default=4, validator=number_from(1))
    """Maximum queues per broker of an automatically created topic."""

    compress_over_bytes: int = attrs.field(default=4096, validator=number_from(0))
    """Bodies of this size or larger are compressed, if that makes them shorter."""

    compression: str = "zlib"
    """zlib, which every client reads, or lz4 or zstd, which need 5.0 clients and the codec's package."""

    compress_level: int = 5
    """0 to 9; ignored for LZ4."""

    max_message_bytes: int = attrs.field(default=MAX_MESSAGE_BYTES, validator=number_from(1))
    """Maximum size of a body before compression, and of a batch."""

    max_under_way: int = attrs.field(default=_MOST_SENDS, validator=number_from(1))
    """Maximum unanswered sends to one broker; further sends wait in a queue."""

    max_under_way_bytes: int = attrs.field(default=MOST_BYTES, validator=number_from(1))
    """Maximum body bytes, before compression, of unanswered sends to one broker; a larger body is sent alone."""

    def __attrs_post_init__(self) -> None:
        if self.detect_faults and not self.latency_fault_tolerance:
            raise InvalidParameter("detect_faults needs latency_fault_tolerance; set that as well")
        if not isinstance(self.selector, Balancing):
            check_function(self.selector, "the selector", plain="it is not awaited")
