"""The return of a master whose slave may have acted for it: it takes over the progress before it serves clients.

    members of the group (901)  ->  906 to each slave, which stops acting  ->  43, 45, 60 from each  ->  install

The broker is a replica meanwhile, so no service runs and no message is accepted. It becomes the master when all slaves
have answered, when there are none, or after `_LONGEST_S` with the progress of those that have: RocketMQ's master waits
forever for a slave that refuses one of the requests, or that it does not recognize by its address.

Messages before each position were delivered or consumed, by either broker. So the higher position is right, whatever
the versions of the tables are; RocketMQ takes the slave's unless its version is older.

    43   consumer offsets    the higher one of each queue
    45   delay offsets       the higher one of each level
    60   timer checkpoint    messages of slots before the read time, among those that the slave had, were delivered;
                         slaves of GantryMQ add further pairs of read time and queue offset

Source: apache/rocketmq broker/.../BrokerPreOnlineService.java (syncMetadataReverse).
"""

from __future__ import annotations

import asyncio
import logging
import struct
from pathlib import Path
from typing import Any, Final

import attrs

from gantrymq.errors import BrokerRefused, FormatError, GantryError
from gantrymq.plugin.interfaces import Broker, BrokerCluster, BrokerEnvironment, TableSnapshot
from gantrymq.plugin.loose_json import dumps
from gantrymq.plugin.model import Role
from gantrymq.plugin.network import RemotingClient
from gantrymq.plugin.remoting import RequestCode, ResponseCode
from gantrymq_replication.acting.group import ExchangeHaInfo, Group
from gantrymq_replication.acting.policy import MASTER_ID
from gantrymq_replication.peers import ask
from gantrymq_replication.table_answers import Members, members_of, offset_table

log = logging.getLogger("gantrymq.replication")

_LONGEST_S: Final = 30.0
_NO_NAME_SERVER: Final = "no name server answers which slaves may have acted for it"
_PAUSE_S: Final = 1.0
_CALL_S: Final = 5.0
_OFFSETS: Final = "consumerOffset.json"
_DELAYS: Final = "delayOffset.json"
_TIMER_HANDOVER: Final = "timerHandover.json"  # the plugin schedule reads it
_TIMER_FIELDS: Final = 8  # bytes of each


@attrs.frozen
class _Answers:
    """The answers of a slave."""

    offsets: bytes  # of groups
    delays: bytes
    timers: bytes | None  # None without timers


async def take_over(
    broker: Broker, group: Group, client: RemotingClient, own: ExchangeHaInfo, longest_s: float = _LONGEST_S
) -> None:
    """Take over the progress of the slaves, within *longest_s*, and become the master; *own*: its addresses for 906."""
    clock = broker.world.clock
    until = clock.monotonic() + longest_s
    told: dict[str, _Answers | None] = {}  # by address; the last answer of each
    waits, problem = "", _NO_NAME_SERVER
    while True:
        members = await group.members()
        slaves = [at for each, at in sorted((members or {}).items()) if each != MASTER_ID]
        if slaves:
            # All are asked each time: one that has answered must not begin to act again while another one is awaited.
            answers = await asyncio.gather(*(_progress(client, at, own) for at in slaves), return_exceptions=True)
            problems = []
            for address, answer in zip(slaves, answers, strict=True):
                if isinstance(answer, GantryError):
                    problems.append(f"{address}: {answer}")
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    told[address] = answer
            problem = "; ".join(problems)
        elif members is not None:
            problem = ""
        else:
            problem = _NO_NAME_SERVER
        if problem and problem != waits:
            waits = problem
            log.warning(
                "this master serves no clients yet; it waits, up to %g s after its start: %s", longest_s, problem
            )
        if not problem or clock.monotonic() + _PAUSE_S + _CALL_S > until:
            break
        await clock.sleep(_PAUSE_S)
    if not told and not problem and broker.store.state().max_log_offset:
        problem = "no slave is registered"
    if problem:
        log.warning(
            "this master begins without the progress of a slave that may have acted for it, so what was delivered and "
            "consumed there may come again: %s",
            problem,
        )
    await _install(broker, {address: answer for address, answer in told.items() if answer is not None})


async def _progress(client: RemotingClient, address: str, own: ExchangeHaInfo) -> _Answers | None:
    """Stop a slave from acting, and return its progress; None for RocketMQ 4, whose slaves do not act.

    Raises:
        ClientError: it does not answer, or refuses.
    """
    try:
        await ask(client, address, RequestCode.EXCHANGE_BROKER_HA_INFO, _CALL_S, own.to_ext())
    except BrokerRefused as refusal:
        if refusal.response_code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        return None
    offsets = bytes((await ask(client, address, RequestCode.GET_ALL_CONSUMER_OFFSET, _CALL_S)).payload)
    delays = bytes((await ask(client, address, RequestCode.GET_ALL_DELAY_OFFSET, _CALL_S)).payload)
    try:
        timers = bytes((await ask(client, address, RequestCode.GET_TIMER_CHECK_POINT, _CALL_S)).payload)
    except BrokerRefused as refusal:
        log.info("slave %s has no timers: %s", address, refusal)
        return _Answers(offsets, delays, None)
    return _Answers(offsets, delays, timers)


async def _install(broker: BrokerCluster, told: dict[str, _Answers]) -> None:
    """Add the answers of slaves to the tables; skip those that cannot be read."""
    config, taken = broker.root / "config", []
    files = dict((await broker.tables.snapshot()).files)
    files[_DELAYS], handover = _text(broker, config / _DELAYS), _text(broker, config / _TIMER_HANDOVER)
    before = handover
    for address, answer in told.items():
        try:
            offsets, delays = (
                higher_offsets(files[_OFFSETS], answer.offsets),
                higher_delays(files[_DELAYS], answer.delays),
            )
            handover = handover if answer.timers is None else timer_handover(handover, answer.timers)
        except FormatError as error:
            log.warning("the progress of %s cannot be read, so what it delivered may come again: %s", address, error)
            continue
        files[_OFFSETS], files[_DELAYS] = offsets, delays
        taken.append(address)
    if not taken:
        return
    if handover != before:
        files.update({_TIMER_HANDOVER: handover, "timercheck": "{}"})  # the wheel is rebuilt without delivered messages
    await broker.role.change(Role.REPLICA, max(1, broker.role.epoch))
    await broker.tables.install(TableSnapshot(files))
    log.info("this master took over the progress of %s", ", ".join(taken))


def _text(broker: BrokerEnvironment, path: Path) -> str:
    files = broker.world.files
    return "" if files.stat(path) is None else files.read(path).decode()


def higher_offsets(own: str, theirs: bytes) -> str:
    """Return consumerOffset.json with the higher offsets of both. Raises FormatError."""
    found = members_of(own.encode(), "own consumer offsets")
    table = found.setdefault("offsetTable", {})
    for key, queues in _offset_table(theirs, "consumer offsets").items():
        known = {str(each): offset for each, offset in table.get(key, {}).items()}
        for queue_id, offset in _offsets(queues, str(key)).items():
            known[queue_id] = max(offset, int(known.get(queue_id, 0)))
        table[key] = known
    return dumps(found).decode()


def higher_delays(own: str, theirs: bytes) -> str:
    """Return delayOffset.json with the higher offsets of both. Raises FormatError."""
    found = members_of((own or "{}").encode(), "own delay offsets")
    known = {str(each): int(offset) for each, offset in (found.get("offsetTable") or {}).items()}
    for level, offset in _offsets(_offset_table(theirs, "delay offsets"), "delay offsets").items():
        known[level] = max(offset, known.get(level, 0))
    return dumps({**found, "offsetTable": known}).decode()


def timer_handover(own: str, theirs: bytes) -> str:
    """Return timerHandover.json with the pairs of read time and queue offset of both. Raises FormatError."""
    found = members_of((own or "{}").encode(), "timer handover")
    taken = [list(each) for each in found.get("delivered") or []]
    if len(theirs) < 3 * _TIMER_FIELDS:
        raise FormatError(f"the slave's timer checkpoint has {len(theirs)} bytes")
    numbers = [number for (number,) in struct.iter_unpack(">q", theirs[: len(theirs) // 8 * 8])]
    # 7 fields of the checkpoint; then pairs, which slaves of GantryMQ add.
    for pair in (numbers[0:3:2], *(numbers[at : at + 2] for at in range(7, len(numbers) - 1, 2))):
        if min(pair) > 0 and pair not in taken:
            taken.append(pair)
    return dumps({"delivered": taken}).decode()


def _offset_table(theirs: bytes, what: str) -> Members:
    return offset_table(members_of(theirs, what, "slave"), what, "slave")


def _offsets(found: Any, what: str) -> dict[str, int]:
    try:
        return {str(int(each)): int(offset) for each, offset in found.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise FormatError(f"the slave's offsets of {what} are not numbers") from error
