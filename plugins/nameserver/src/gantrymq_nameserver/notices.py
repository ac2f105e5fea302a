"""Who is told, and what, when the smallest broker id of a broker name changes (request 905).

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
    offline_address: str | None  # the broker that left, None when one came
    ha_address: str | None  # of the broker that came
    receivers: tuple[str, ...]  # host:port


def min_broker_id_change(
    addresses: Mapping[int, str], offline_address: str | None, ha_address: str | None
) -> MinBrokerIdChange | None:
    """Return the notice about a broker name whose *addresses* (by id) are these now, None when there is nobody left.

    Everyone hears of a broker that left; of one that came, everyone but itself, unless it is alone.
    """
    if not addresses:
        return None
    smallest = min(addresses)
    everyone = offline_address is not None or len(addresses) == 1
    receivers = tuple(addresses[i] for i in sorted(addresses) if everyone or i != smallest)
    return MinBrokerIdChange(smallest, addresses[smallest], offline_address, ha_address, receivers)
