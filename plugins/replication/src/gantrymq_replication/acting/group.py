"""The group of a broker at the name servers: heartbeats (904) and members (901), and the settings that acting needs.

All name servers are asked at once, and a broker counts as alive if any of them lists it: one that was restarted, or
that a broker cannot reach, must not make a slave act beside its master.

RocketMQ's brokers use requests that name servers of 4.9 know as well, unless compatibleWithOldNameSrv=false. Those have
no acting masters, so they are not asked here.

To act for its master, a slave needs settings of other processes:

    name server    supportActingMaster         otherwise consumers are not sent to the slave
                   notifyMinBrokerIdChanged    otherwise the slave learns only by its next question who is there
    master         enableSlaveActingMaster     otherwise it takes nothing over when it returns

A missing setting is noticed only when it is too late, so the slave reads them (319, 26) and reports what is missing. A
process that does not answer, or refuses, is ignored. RocketMQ's brokers do not check.

Source: apache/rocketmq broker/.../out/BrokerOuterAPI.java (sendHeartbeat, syncBrokerMemberGroup),
remoting/.../protocol/header/ExchangeHAInfo{Request,Response}Header.java, common/.../namesrv/NamesrvConfig.java,
common/.../BrokerConfig.java (the names).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from gantrymq.errors import BrokerRefused, ClientError, FormatError, GantryError
from gantrymq.plugin.headers import Header, Int64, RequestHeader, header_of
from gantrymq.plugin.interfaces import BrokerCluster
from gantrymq.plugin.loose_json import loads
from gantrymq.plugin.network import RemotingClient
from gantrymq.plugin.remoting import RequestCode, request
from gantrymq_replication.peers import ask, settings_in, settings_lines

log = logging.getLogger("gantrymq.replication")

_CALL_S: Final = 1.0  # sendHeartbeatTimeoutMillis
_SETTINGS_PERIOD_S: Final = 10.0
_SETTINGS_CALL_S: Final = 2.0
OF_NAME_SERVERS: Final = {
    "supportActingMaster": "consumers are not sent to a slave that acts for its master",
    "notifyMinBrokerIdChanged": "a slave is not told at once that its master is missing",
}
OF_MASTERS: Final = {
    "enableSlaveActingMaster": "when it returns, it takes nothing over, and what this slave has delivered comes again"
}


class Group:
    """Asks the name servers of one broker."""

    def __init__(self, broker: BrokerCluster, client: RemotingClient, timeout_ms: int) -> None:
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


class PeerSettings:
    """Asks for one slave."""

    def __init__(self, broker: BrokerCluster, client: RemotingClient, master: Callable[[], str | None]) -> None:
        """*master* returns the master's address; nothing if it is not known."""
        self._broker, self._client, self._master = broker, client, master
        self.problem = ""  # the settings that others lack; empty if none is known to be missing
        self._of_master = ""  # the part about the last master that answered

    async def run(self) -> None:
        """Ask periodically, until cancelled."""
        while True:
            try:
                await self._look()
            except Exception:
                log.exception("the settings of name servers and master could not be compared")
            await self._broker.world.clock.sleep(_SETTINGS_PERIOD_S)

    async def _look(self) -> None:
        if master := self._master():
            told = await self._ask(master, "master", RequestCode.GET_BROKER_CONFIG, OF_MASTERS)
            self._of_master = self._of_master if told is None else told
        name_servers = [
            self._ask(address, "name server", RequestCode.GET_NAMESRV_CONFIG, OF_NAME_SERVERS)
            for address in self._broker.registration.states()
        ]
        problem = "; ".join(filter(None, (*await asyncio.gather(*name_servers), self._of_master)))
        if problem and problem != self.problem:
            log.warning("settings for acting masters: %s", problem)
        self.problem = problem

    async def _ask(self, address: str, what: str, code: RequestCode, wanted: dict[str, str]) -> str | None:
        """Return the missing settings; None without an answer."""
        try:
            found = problem_of(await settings_lines(self._client, address, code, _SETTINGS_CALL_S), wanted)
        except GantryError:
            return None
        return f"{what} {address} has {found}" if found else ""


def problem_of(lines: Sequence[str], wanted: dict[str, str]) -> str:
    """Return the *wanted* settings, each with the consequence of its absence, that are not true in *lines*."""
    told = settings_in(lines)
    without = [f"{key}={told.get(key, 'false')}: {why}" for key, why in wanted.items() if told.get(key) != "true"]
    return ", and ".join(without) if told else ""
