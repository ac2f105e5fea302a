"""Settings of a broker with their meaning, default and source.

A request of GantryMQ's own (65026), served by brokers with gantrymq-diagnosis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import attrs

from gantrymq.client import Admin
from gantrymq.plugin.remoting import RequestCode
from gantrymq_admin.answers import read, texts

__all__ = ["ExplainedSetting", "explained_settings"]

EXPLAINED_SETTINGS: Final = cast(RequestCode, 65026)


@attrs.frozen
class ExplainedSetting:
    """One setting of a running broker; values are texts as in its file."""

    key: str
    value: str
    default: str
    rocketmq_default: str | None  # None: a setting of GantryMQ
    source: str  # of the value, such as "default" or the path of a file
    help: str
    kind: str  # number, flag, text
    choices: tuple[str, ...]  # allowed texts; empty: any
    at_least: int | None
    at_most: int | None
    runtime: bool  # whether it can be changed while the broker runs
    secret: bool  # its value is masked


async def explained_settings(admin: Admin, address: str) -> tuple[ExplainedSetting, ...]:
    """Return the settings of one broker, sorted by key.

    Raises:
        RequestNotServed: it is a broker of RocketMQ, or lacks gantrymq-diagnosis.
        BrokerRefused: it is stopping.
        AnswerUnreadable, ConnectFailed, ConnectionLost, CallTimeout: no usable response.
    """
    return await admin.request_parsed(address, EXPLAINED_SETTINGS, _settings, what=f"settings of {address}")


def _settings(found: Mapping[str, Any]) -> tuple[ExplainedSetting, ...]:
    return tuple(read(ExplainedSetting, each, choices=texts(each["choices"])) for each in found["settings"])
