"""Settings of the gRPC protocol, under RocketMQ's key names where it has them.

Source: apache/rocketmq proxy/.../config/ProxyConfig.java.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gantrymq.plugin.settings import Setting, Settings
from gantrymq_grpc.transport.limits import MIB, Limits

SCHEMA: Final = (
    Setting.number(
        "grpcMaxInboundMessageSize",
        16 * MIB,
        "Largest request of gRPC clients, bytes; larger ones are refused.",
        at_least=MIB,
        at_most=130 * MIB,
    ),
    Setting.number(
        "grpcMaxConcurrentCallsPerConnection",
        1000,
        "Calls in progress on one connection of a gRPC client, held receives among them; further ones wait.",
        at_least=10,
        at_most=100_000,
    ),
    Setting.number(
        "grpcClientIdleTimeMills",
        120_000,
        "Connections of gRPC clients without a call are closed after this time, milliseconds; 0: never.",
        at_least=0,
    ),
    Setting.number(
        "grpcMaxConnectionAgeMills",
        0,
        "Connections of gRPC clients are closed in order at this age, varied by a tenth, milliseconds; 0: never.",
        at_least=0,
    ),
    Setting.number(
        "minInvisibleTimeMillsForRecv",
        10_000,
        "Shortest invisible time that a receive of a gRPC client may ask for, milliseconds.",
        at_least=0,
    ),
    Setting.number(
        "grpcClientConsumerMinLongPollingTimeoutMillis",
        5_000,
        "Shortest wait of a receive of a gRPC client for messages, milliseconds; a nearer deadline is refused.",
        at_least=0,
        at_most=20_000,
    ),
    Setting.number(
        "userPropertyMaxNum", 128, "Most user properties of a message of a gRPC client.", at_least=1, runtime=True
    ),
    Setting.number(
        "maxUserPropertySize",
        16 * 1024,
        "Largest user properties, tag and keys of a message of a gRPC client together, bytes.",
        at_least=1,
        at_most=32_767,
        runtime=True,
    ),
    Setting.number(
        "maxMessageGroupSize",
        64,
        "Message groups of gRPC clients are shorter than this, bytes.",
        at_least=2,
        at_most=32_767,
        runtime=True,
    ),
    Setting.number(
        "maxDelayTimeMills",
        24 * 3600 * 1000,
        "Longest delay of a message of a gRPC client, milliseconds; timerMaxDelaySec applies too.",
        at_least=1,
        runtime=True,
    ),
    Setting.number(
        "maxTransactionRecoverySecond",
        3600,
        "Longest time that a gRPC producer may set before the first check of a transaction, seconds.",
        at_least=1,
        runtime=True,
    ),
    Setting.number(
        "grpcClientProducerMaxAttempts",
        3,
        "How often gRPC producers try to send a message; they learn it when they connect.",
        at_least=1,
        runtime=True,
    ),
    Setting.number(
        "grpcClientProducerBackoffInitialMillis",
        10,
        "First pause of gRPC producers after an answer TOO_MANY_REQUESTS, milliseconds; it doubles with each attempt.",
        at_least=1,
        runtime=True,
    ),
    Setting.number(
        "grpcClientProducerBackoffMaxMillis",
        1000,
        "Longest such pause, milliseconds.",
        at_least=1,
        runtime=True,
    ),
)


class ReceiveLimits(NamedTuple):
    """Lower bounds of what receives may ask; the defaults are those of RocketMQ's proxy."""

    least_invisible_ms: int = 10_000
    least_polling_ms: int = 5_000


def transport_limits(settings: Settings) -> Limits:
    """Return the limits of the gRPC server of a broker."""
    return Limits(
        max_message_bytes=settings.number("grpcMaxInboundMessageSize"),
        max_streams=settings.number("grpcMaxConcurrentCallsPerConnection"),
        idle_timeout_s=settings.number("grpcClientIdleTimeMills") / 1000,
        max_age_s=settings.number("grpcMaxConnectionAgeMills") / 1000,
    )


def receive_limits(settings: Settings) -> ReceiveLimits:
    """Return the lower bounds of what receives may ask."""
    return ReceiveLimits(
        settings.number("minInvisibleTimeMillsForRecv"),
        settings.number("grpcClientConsumerMinLongPollingTimeoutMillis"),
    )
