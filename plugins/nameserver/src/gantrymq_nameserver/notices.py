"""Notices about a changed smallest broker id of a broker name, and their receivers (request 905).

Source: apache/rocketmq namesrv/.../routeinfo/RouteInfoManager.java (notifyMinBrokerIdChanged,
chooseBrokerAddrsToNotify).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class MinBrokerIdChange(NamedTuple):
    """One notice and the broker addresses it goes to."""

    minimum_id: int
    minimum_address: str
    offline_address: str | None  # the broker that left, None if one joined
    ha_address: str | None  # of the broker that joined
    receivers: tuple[str, ...]  # host:port


def min_broker_id_change(
    addresses: Mapping[int, str], offline_address: str | None, ha_address: str | None
) -> MinBrokerIdChange | None:
    """Return the notice for a broker name with the current *addresses* by id, None without any.

    All brokers receive a notice about one that left; about one that joined, all others, or itself if it is alone.
    """
    if not addresses:
        return None
    smallest = min(addresses)
    everyone = offline_address is not None or len(addresses) == 1
    receivers = tuple(addresses[i] for i in sorted(addresses) if everyone or i != smallest)
    return MinBrokerIdChange(smallest, addresses[smallest], offline_address, ha_address, receivers)
