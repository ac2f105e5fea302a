"""Settings of other processes that a slave needs to act for its master: of the name servers, and of the master.

    name server    supportActingMaster         otherwise consumers are not sent to the slave
                   notifyMinBrokerIdChanged    otherwise the slave learns only by its next question who is there
    master         enableSlaveActingMaster     otherwise it takes nothing over when it returns

A missing setting is noticed only when it is too late, so the slave reads them (319, 26) and reports what is missing. A
process that does not answer, or refuses, is ignored. RocketMQ's brokers do not check.

Source: apache/rocketmq common/.../namesrv/NamesrvConfig.java, common/.../BrokerConfig.java (the names).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.interfaces import Broker
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq_replication.peers import settings_in, settings_lines

log = logging.getLogger("gantrymq.replication")

_PERIOD_S: Final = 10.0
_CALL_S: Final = 2.0
OF_NAME_SERVERS: Final = {
    "supportActingMaster": "consumers are not sent to a slave that acts for its master",
    "notifyMinBrokerIdChanged": "a slave is not told at once that its master is missing",
}
OF_MASTERS: Final = {
    "enableSlaveActingMaster": "when it returns, it takes nothing over, and what this slave has delivered comes again"
}


class PeerSettings:
    """Asks for one slave."""

    def __init__(self, broker: Broker, client: RemotingClient, master: Callable[[], str | None]) -> None:
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
            await self._broker.world.clock.sleep(_PERIOD_S)

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
            found = problem_of(await settings_lines(self._client, address, code, _CALL_S), wanted)
        except GantryError:
            return None
        return f"{what} {address} has {found}" if found else ""


def problem_of(lines: Sequence[str], wanted: dict[str, str]) -> str:
    """Return the *wanted* settings, each with the consequence of its absence, that are not true in *lines*."""
    told = settings_in(lines)
    without = [f"{key}={told.get(key, 'false')}: {why}" for key, why in wanted.items() if told.get(key) != "true"]
    return ", and ".join(without) if told else ""
