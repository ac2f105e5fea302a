"""Notifies brokers that the smallest id of their broker name changed: request 905, oneway, over separate connections.

A broker accepts the request on its listening port, not on the connection it registered over. A broker that cannot be
reached within 300 ms is skipped, as in RocketMQ: brokers also query their group periodically.

Source: apache/rocketmq namesrv/.../routeinfo/RouteInfoManager.java (notifyMinBrokerIdChanged).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.plugin.network import Limits, inner_client
from gantrymq.plugin.remoting import RequestCode, request
from gantrymq.plugin.settings import Settings
from gantrymq.plugin.world import World
from gantrymq_nameserver.headers import NotifyMinBrokerIdChangeRequest
from gantrymq_nameserver.notices import MinBrokerIdChange

log = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S: Final = 0.3


class Notifier:
    """Sends notices in the background."""

    def __init__(self, world: World, settings: Settings) -> None:
        """Raises ConfigError like `inner_client`."""
        self._client = inner_client(world, settings, limits=Limits(connect_timeout_s=_CONNECT_TIMEOUT_S))
        self._sending: set[asyncio.Task[None]] = set()

    def notify(self, change: MinBrokerIdChange) -> None:
        """Start sending *change* to its receivers; failures are logged."""
        header = NotifyMinBrokerIdChangeRequest(
            min_broker_id=change.minimum_id,
            min_broker_addr=change.minimum_address,
            offline_broker_addr=change.offline_address,
            ha_broker_addr=change.ha_address,
        )
        for address in change.receivers:
            task = asyncio.get_running_loop().create_task(self._send(address, header))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def close(self) -> None:
        """Cancel unsent notices and close the connections."""
        await self._client.close()
        await asyncio.gather(*self._sending)

    async def _send(self, address: str, header: NotifyMinBrokerIdChangeRequest) -> None:
        command = request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, header.to_ext(), oneway=True)
        try:
            await self._client.oneway(address, command)
        except GantryError as error:
            log.warning("broker %s was not told of the new smallest broker id: %s", address, error)
