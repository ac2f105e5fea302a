"""The group of a broker as name servers know it: heartbeats (904) and members (901).

All name servers are asked at once, and a broker counts as alive if any of them lists it: one that was restarted, or
that a broker cannot reach, must not make a slave act beside its master.

RocketMQ's brokers use requests that name servers of 4.9 know as well, unless compatibleWithOldNameSrv=false. Those have
no acting masters, so they are not asked here.

Source: apache/rocketmq broker/.../out/BrokerOuterAPI.java (sendHeartbeat, syncBrokerMemberGroup), and
remoting/.../protocol/header/ExchangeHAInfo{Request,Response}Header.java.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from gantrymq.errors import BrokerRefused, ClientError, FormatError
from gantrymq.interfaces import Broker
from gantrymq.loose_json import loads
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request
from gantrymq.remoting.headers.base import Header, Int64, RequestHeader, header_of
from gantrymq_replication.peers import ask

log = logging.getLogger("gantrymq.replication")

_CALL_S: Final = 1.0  # sendHeartbeatTimeoutMillis


class Group:
    """Asks the name servers of one broker."""

    def __init__(self, broker: Broker, client: RemotingClient, timeout_ms: int) -> None:
        """*timeout_ms*: after which name servers remove a broker without heartbeats."""
        self._registration, self._client = broker.registration, client
        self._timeout_ms = timeout_ms
        self._warned = False

    async def heartbeat(self) -> None:
        """Send a heartbeat to each name server that this broker is registered with; failures count for nothing."""
        own = self._registration
        fields = {
            "clusterName": own.cluster,
            "brokerName": own.broker_name,
            "brokerAddr": own.address,
            "brokerId": str(own.broker_id),
            "heartbeatTimeoutMills": str(self._timeout_ms),
        }
        known = [address for address, problem in own.states().items() if problem is None]
        sends = [
            self._client.oneway(each, request(RequestCode.BROKER_HEARTBEAT, fields, oneway=True), _CALL_S)
            for each in known
        ]
        await asyncio.gather(*sends, return_exceptions=True)

    async def members(self) -> dict[int, str] | None:
        """Return the addresses of the registered brokers by id; None if no name server answers."""
        answers = await asyncio.gather(*map(self._ask, self._registration.states()), return_exceptions=True)
        found: dict[int, str] = {}
        known = False
        for answer in answers:
            if isinstance(answer, dict):
                found, known = {**answer, **found}, True
            elif isinstance(answer, BrokerRefused | FormatError):
                self._warn(answer)
            elif not isinstance(answer, ClientError):
                raise answer
        return found if known else None

    async def _ask(self, address: str) -> dict[int, str]:
        own = self._registration
        fields = {"clusterName": own.cluster, "brokerName": own.broker_name}
        reply = await ask(self._client, address, RequestCode.GET_BROKER_MEMBER_GROUP, _CALL_S, fields)
        try:
            body: Any = loads(reply.payload)
            return {int(each): str(at) for each, at in body["brokerMemberGroup"]["brokerAddrs"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"name server {address}: its members of {own.broker_name} cannot be read") from error

    def _warn(self, problem: Exception) -> None:
        if not self._warned:
            self._warned = True
            log.warning("a name server does not tell the members of this group, which acting masters need: %s", problem)


@header_of(RequestCode.EXCHANGE_BROKER_HA_INFO)
class ExchangeHaInfo(RequestHeader):
    """Addresses of a returning master, sent to a slave; without fields, a slave asks for them."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


@header_of(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE)
class MinBrokerIdChange(Header):
    """Notification of a name server: another broker of the group has the smallest id now."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
