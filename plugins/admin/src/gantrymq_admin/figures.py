"""Figures of a broker's plugins, such as the number of delayed messages or suspended filters.

A request of GantryMQ's own (65022), served by brokers with gantrymq-diagnosis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import attrs

from gantrymq.client import Admin
from gantrymq.plugin.remoting import RequestCode
from gantrymq_admin.asking import read, texts

__all__ = ["Figure", "plugin_figures"]

SHOWN_FIGURES: Final = cast(RequestCode, 65022)


@attrs.frozen
class Figure:
    """A metric of a plugin, summed over its labels."""

    name: str
    help: str
    counts: bool  # whether it only grows
    value: float
    sentences: tuple[str, ...]  # explanations, such as why a filter is suspended


async def plugin_figures(admin: Admin, address: str) -> tuple[Figure, ...]:
    """Return the figures of one broker's plugins, sorted by name.

    Raises:
        RequestNotServed: it is a broker of RocketMQ, or lacks gantrymq-diagnosis.
        BrokerRefused: it is stopping.
        AnswerUnreadable, ConnectFailed, ConnectionLost, CallTimeout: no usable response.
    """
    return await admin.request_parsed(address, SHOWN_FIGURES, _figures, what=f"figures of {address}")


def _figures(found: Mapping[str, Any]) -> tuple[Figure, ...]:
    return tuple(read(Figure, each, sentences=texts(each["sentences"])) for each in found["figures"])
