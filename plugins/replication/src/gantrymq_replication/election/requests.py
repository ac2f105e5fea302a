"""Request 65031: an operator changes the master of a set, at one of its brokers.

    act         handover   of the master: refuse messages until the set has all, then have another member elected
                demote     of the master: the same at once, without waiting for the set
                promote    without a master: elect a broker, see `Engine.admit`
                forget     of the master: forget a broker that is gone for good, see `ElectedBroker.forget`
    brokerId    that is to be the master, or to be forgotten; not needed for handover and demote
    unclean     promote: it may lack acknowledged messages
    host        forget: of a slave with a fixed role, which has no id in a set
    epoch       promote: the newest epoch that a broker knows, see `Engine.admit`

Only the master can end its mastership without loss, because it must refuse messages first, and the election ends
with its lease. So the request is sent to brokers, which need no further rights at the engine. The response
is sent when there is another master, as far as this broker knows.

Responses: JSON with brokerId and epoch of the new master, and refusedMillis, for how long this broker refused messages
before it knew that there is another one; for forget the brokerId, 0 of a slave with a fixed role, and the
present epoch.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from gantrymq.errors import RequestRefused
from gantrymq.plugin.headers import Header, Int64, header_of
from gantrymq.plugin.model import Action
from gantrymq.plugin.remoting import Command, Connection, response_to, serves
from gantrymq.plugin.world import Clock
from gantrymq_replication.election.elected_broker import ElectedBroker
from gantrymq_replication.election.engine import EngineError
from gantrymq_replication.election.machine import Machine
from gantrymq_replication.election.service import CHANGE_MASTER, ElectionService
from gantrymq_replication.traffic import Departures

_FIXED: Final = "this broker has a fixed role: the master of its set is not elected (enableControllerMode=false)"
_SEEN_S: Final = 12.0  # for the other broker to be elected
_LOOK_S: Final = 0.005


@header_of(CHANGE_MASTER)
class _ChangeMasterRequest(Header):
    """See the module."""

    act: str
    broker_id: Int64 | None = None
    unclean: bool = False
    epoch: Int64 | None = None
    host: str | None = None


class ElectionRequests:
    """The handler."""

    def __init__(self, election: ElectionService, departures: Callable[[], Departures | None] = lambda: None) -> None:
        """*departures*: of slaves with fixed roles; None from a broker that is no master."""
        self._election, self._departures = election, departures

    @serves(CHANGE_MASTER, action=Action.UPDATE)
    async def change_master(self, asked: Command, connection: Connection) -> Command:
        """65031: see the module.

        Raises:
            RequestRefused: code 1, with a sentence; nothing has changed then, unless it says so.
        """
        wish = _ChangeMasterRequest.from_ext(asked.ext)
        service = self._election.elected if self._election.enabled else None
        if service is None and wish.act == "forget" and wish.host:
            self._forget_host(wish.host)
            return _answer(asked, {"brokerId": 0, "epoch": 0})
        if service is None:
            raise RequestRefused(1, _FIXED)
        machine = service.machine
        if machine is None:
            raise RequestRefused(1, service.election.problem if service.election is not None else _FIXED)
        epoch, began = machine.epoch, service.now
        try:
            if wish.act == "forget" and wish.broker_id is not None:
                await service.forget(wish.broker_id)
                return _answer(asked, {"brokerId": wish.broker_id, "epoch": epoch})
            await self._change(wish, service, machine)
        except EngineError as error:
            raise RequestRefused(1, str(error)) from error
        found = await self._seen(machine, epoch, service.clock, own=wish.broker_id == machine.own_id)
        return _answer(asked, {**found, "refusedMillis": round(1000 * (service.now - began))})

    def _forget_host(self, host: str) -> None:
        departures = self._departures()
        if departures is None or not departures.forget(host):
            raise RequestRefused(1, f"this broker has lost no slave at {host}, or it is not the master")

    async def _change(self, wish: _ChangeMasterRequest, service: ElectedBroker, machine: Machine) -> None:
        election, engine = service.election, service.engine
        assert election is not None
        if wish.act in ("handover", "demote"):
            await election.hand_over(wish.broker_id, waits=wish.act == "handover")
        elif wish.act == "promote" and wish.broker_id is not None:
            if wish.broker_id == election.own_id and wish.unclean:
                election.take_as_whole()
            if wish.broker_id == election.own_id and machine.unelectable:
                raise RequestRefused(1, f"broker id {wish.broker_id} must not be the master: {machine.unelectable}")
            if machine.data_lost and not wish.unclean:
                raise RequestRefused(1, machine.data_lost)
            await engine.admit(wish.broker_id, unclean=wish.unclean, epoch=max(machine.epoch, wish.epoch or 0))
        else:
            raise RequestRefused(1, "65031: act is handover or demote, or promote or forget with a brokerId")

    async def _seen(self, machine: Machine, epoch: int, clock: Clock, *, own: bool) -> dict[str, Any]:
        """Wait for the master of a later epoch; *own*: this broker is to be it, and may have been named before."""
        until = clock.monotonic() + _SEEN_S
        while (machine.epoch <= epoch or machine.master is None) and not (own and machine.is_master):
            if clock.monotonic() > until:
                raise RequestRefused(
                    1,
                    f"no other master was seen within {_SEEN_S:g} s; 'gantrymq cluster explain' says how it stands",
                )
            await clock.sleep(_LOOK_S)
        return {"brokerId": machine.master, "epoch": machine.epoch}


def _answer(asked: Command, body: dict[str, Any]) -> Command:
    return response_to(asked, 0, None, None, json.dumps(body, separators=(",", ":")).encode())
