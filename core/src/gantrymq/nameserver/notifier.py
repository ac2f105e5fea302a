"""Tells brokers that the smallest id of their broker name changed: request 905, oneway, over a connection of its own.

A broker takes the request on its listening port, not on the connection it registered over. What does not arrive within
300 ms is lost, as in RocketMQ: brokers also ask for their group by themselves.

Source: apache/rocketmq namesrv/.../routeinfo/RouteInfoManager.java (notifyMinBrokerIdChanged).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gantrymq.model.hosts import parse_address
from gantrymq.nameserver.notices import MinimumChange
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import encode, request
from gantrymq.remoting.headers.nameserver import NotifyMinBrokerIdChangeRequest
from gantrymq.world import World

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 0.3


class Notifier:
    """Sends notices without anyone waiting for them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sending: set[asyncio.Task[None]] = set()

    def tell(self, change: MinimumChange) -> None:
        """Start sending *change* to its receivers; failures are logged."""
        header = NotifyMinBrokerIdChangeRequest(
            min_broker_id=change.minimum_id,
            min_broker_addr=change.minimum_address,
            offline_broker_addr=change.offline_address,
            ha_broker_addr=change.ha_address,
        )
        data = encode(request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, header.to_ext(), oneway=True))
        for address in change.receivers:
            task = asyncio.get_running_loop().create_task(self._send(address, data))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def close(self) -> None:
        """Give up what is still being sent."""
        sending = list(self._sending)
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)

    async def _send(self, address: str, data: bytes) -> None:
        this_task = asyncio.current_task()
        assert this_task is not None
        expired = False

        def expire() -> None:
            nonlocal expired
            expired = True
            this_task.cancel()

        timer = self._world.clock.call_later(TIMEOUT_S, expire)
        try:
            host, port = parse_address(address)
            transport, _ = await self._world.network.connect(host, port, asyncio.Protocol)
            transport.write(data)
            transport.close()
        except (OSError, ValueError) as error:
            log.warning("broker %s was not told of the new smallest broker id: %s", address, error)
        except asyncio.CancelledError:
            if not expired:
                raise
            log.warning("broker %s was not told of the new smallest broker id within %s s", address, TIMEOUT_S)
        finally:
            timer.cancel()
