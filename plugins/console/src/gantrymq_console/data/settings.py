"""Settings of running servers: value, default, meaning and source, with secrets masked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from gantrymq.client.admin import RequestNotServed
from gantrymq.plugin.settings import BROKER_DEFAULTS, NAME_SERVER_DEFAULTS
from gantrymq_admin.explained_settings import ExplainedSetting, explained_settings
from gantrymq_console.access.masking import is_secret, mask
from gantrymq_console.data.cluster import Aged, Cluster

__all__ = ["SettingRow", "broker_settings", "name_server_settings"]

AGE_S: Final = 5.0
OF_COMMANDS: Final = (
    "gantrymq ",
    "quickstart",
    "neither bindAddress nor brokerIP1 is set",
    "bindAddress is not set",
    "the name server of this process",
)
"""Starts of the sources of values that commands set if no user did."""
COMPUTED: Final = "the filter bit map"  # source of a value that follows from other settings
AT_RUN_TIME: Final = "UPDATE_BROKER_CONFIG"  # start of the source of a value that a request set


@attrs.frozen
class SettingRow:
    """One setting."""

    key: str
    value: str
    default: str | None  # None: not known
    differs: bool | None  # whether a user set another value than the default; None: not known
    origin: str  # default, request (gone at restart), command, computed, given (by a file, an option ...), unknown
    source: str  # in the broker's words
    help: str  # in English, empty if not known
    kind: str  # number, flag, text
    choices: tuple[str, ...]
    at_least: int | None
    at_most: int | None
    changeable: bool | None  # while the server runs; None: not known
    secret: bool
    own: bool  # GantryMQ's own, unknown to RocketMQ


async def broker_settings(cluster: Cluster, address: str) -> Aged[tuple[SettingRow, ...]]:
    """Return the settings of a broker, sorted by key, at most 5 s old."""

    async def ask() -> tuple[SettingRow, ...]:
        try:
            return tuple(map(_explained, await explained_settings(cluster.admin, address)))
        except RequestNotServed:
            return _plain(await cluster.admin.broker_settings(address), BROKER_DEFAULTS)

    return await cluster.shared(("settings", address), AGE_S, ask)


async def name_server_settings(cluster: Cluster, server: str) -> Aged[tuple[SettingRow, ...]]:
    """Return the settings of a name server, sorted by key, at most 5 s old."""

    async def ask() -> tuple[SettingRow, ...]:
        return _plain(await cluster.admin.name_server_settings(server), NAME_SERVER_DEFAULTS)

    return await cluster.shared(("settings", server), AGE_S, ask)


def _explained(each: ExplainedSetting) -> SettingRow:
    secret = each.secret or is_secret(each.key)
    origin = _origin(each.source)
    return SettingRow(
        each.key,
        mask(each.key, each.value) if not each.secret else each.value,
        each.default,
        each.value != each.default and origin in ("request", "given"),
        origin,
        each.source,
        each.help,
        each.kind,
        each.choices,
        each.at_least,
        each.at_most,
        each.runtime,
        secret,
        each.rocketmq_default is None,
    )


def _origin(source: str) -> str:
    if source.startswith(AT_RUN_TIME):
        return "request"
    if source.startswith(OF_COMMANDS):
        return "command"
    return {"default": "default", COMPUTED: "computed"}.get(source, "given")


def _plain(values: Mapping[str, str], defaults: Mapping[str, str]) -> tuple[SettingRow, ...]:
    """Return settings of which only the values are known."""
    return tuple(
        SettingRow(
            key,
            mask(key, value),
            default := defaults.get(key) or None,  # empty: depends on the machine
            None if default is None else value != default,
            "unknown",
            "",
            "",
            "flag" if value in ("true", "false") else "text",
            (),
            None,
            None,
            None,
            is_secret(key),
            key not in defaults,
        )
        for key, value in sorted(values.items())
    )
