"""The return of a master whose slave may have acted for it: takes its progress over before it serves anybody.

    members of the group (901)  ->  906 to each slave, which stops acting  ->  43, 45, 60 from each  ->  install

The broker is a replica meanwhile, so no service runs and no message is accepted. It becomes the master when all slaves
have answered, when there are none, or after `LONGEST_S`: RocketMQ's master waits for ever for a slave that refuses one
of the requests, or that it does not recognize by its address.

Source: apache/rocketmq broker/.../BrokerPreOnlineService.java.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from gantrymq.errors import BrokerRefused, GantryError
from gantrymq.interfaces import Broker, TableSnapshot
from gantrymq.model.role import Role
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.command import Command, request
from gantrymq_replication.acting.group import Group
from gantrymq_replication.acting.handover import TIMER_HANDOVER, higher_delays, higher_offsets, timer_handover
from gantrymq_replication.acting.headers import ExchangeHaInfo
from gantrymq_replication.acting.rules import MASTER_ID

__all__ = ["LONGEST_S", "take_over"]

log = logging.getLogger("gantrymq.replication")

LONGEST_S: Final = 30.0
PAUSE_S: Final = 1.0
CALL_S: Final = 5.0
OFFSETS: Final = "consumerOffset.json"
DELAYS: Final = "delayOffset.json"


async def take_over(broker: Broker, group: Group, client: RemotingClient, own: ExchangeHaInfo) -> None:
    """Take the progress of the slaves over, and return as a master; *own*: what 906 tells them."""
    clock = broker.world.clock
    until = clock.monotonic() + LONGEST_S
    problem = "no name server answers"
    while True:
        members = await group.members()
        slaves = {each: at for each, at in sorted((members or {}).items()) if each != MASTER_ID}
        if members is not None and not slaves:
            return
        try:
            if slaves:
                await _take_over(broker, client, slaves, own)
                return
        except GantryError as error:
            problem = str(error)
        if clock.monotonic() >= until:
            log.warning(
                "this master begins without the progress of its slaves, so what they delivered may come again: %s",
                problem,
            )
            return
        await clock.sleep(PAUSE_S)


async def _take_over(broker: Broker, client: RemotingClient, slaves: dict[int, str], own: ExchangeHaInfo) -> None:
    config = broker.root / "config"
    files = dict((await broker.tables.snapshot()).files)
    files[DELAYS], handover = _text(broker, config / DELAYS), _text(broker, config / TIMER_HANDOVER)
    before = handover
    for address in slaves.values():
        try:
            await _ask(client, address, RequestCode.EXCHANGE_BROKER_HA_INFO, own.to_ext())
        except BrokerRefused as refusal:
            if refusal.response_code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            continue  # RocketMQ 4, whose slaves do not act
        files[OFFSETS] = higher_offsets(
            files[OFFSETS], await _ask(client, address, RequestCode.GET_ALL_CONSUMER_OFFSET)
        )
        files[DELAYS] = higher_delays(files[DELAYS], await _ask(client, address, RequestCode.GET_ALL_DELAY_OFFSET))
        try:
            handover = timer_handover(handover, await _ask(client, address, RequestCode.GET_TIMER_CHECK_POINT))
        except BrokerRefused as refusal:
            log.info("slave %s has no timers: %s", address, refusal)
    if handover != before:
        files.update({TIMER_HANDOVER: handover, "timercheck": "{}"})  # the wheel is rebuilt without what was delivered
    await broker.role.change(Role.REPLICA, 1)
    await broker.tables.install(TableSnapshot(files))
    log.info("this master took over the progress of %s", ", ".join(slaves.values()))


async def _ask(client: RemotingClient, address: str, code: RequestCode, ext: dict[str, str] | None = None) -> bytes:
    answer: Command = await client.call(address, request(code, ext), CALL_S)
    if answer.code != 0:
        raise BrokerRefused(answer.code, answer.remark or "", address)
    return bytes(answer.payload)


def _text(broker: Broker, path: Path) -> str:
    files = broker.world.files
    return "" if files.stat(path) is None else files.read(path).decode()
