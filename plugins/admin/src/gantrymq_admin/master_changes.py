"""Changing an elected master: who may take over, the request, and the wait until the new master serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from gantrymq.client import Admin
from gantrymq.errors import BrokerRefused, ClientError, GantryError
from gantrymq.plugin.commands import warn
from gantrymq.plugin.world import Clock
from gantrymq_admin.elected import ChangedMaster, ElectedBroker, ElectedSet, change_master
from gantrymq_admin.elected_sentences import accepting, is_ready, lacks_copies, listed

__all__ = [
    "candidates",
    "change_to",
    "elect_member",
    "member_of",
    "new_master",
    "problem_of",
    "refused_before",
    "resigning_master",
]

_ACCEPTS_S: Final = 15.0  # for the new master to accept messages
_LOOK_S: Final = 0.05
_UNCLEAN: Final = "enableElectUncleanMaster"  # setting of controllers
_NO_MEMBER: Final = 2012
_STILL_MASTER: Final = 2011


def candidates(found: ElectedSet) -> tuple[int, ...]:
    """Return the ids of the members of the in-sync set that could take over from the master now."""
    return tuple(each for each in found.in_sync if each != found.master_id and is_ready(found, each))


def resigning_master(found: ElectedSet, what: str) -> ElectedBroker:
    """Return the master, which answers and is GantryMQ's. Raises ClientError: it is not, and so cannot *what*."""
    master = found.master
    if found.data_lost:
        raise ClientError(f"no broker of {found.broker} can be elected now: {found.data_lost}")
    if master is None:
        raise ClientError(
            f"{found.broker} has no master that could {what}: 'gantrymq cluster explain' says why, 'gantrymq cluster "
            "promote' elects one"
        )
    if master.silent:
        raise ClientError(f"the master, broker id {master.id}, does not answer: {master.silent}")
    if master.election is None:
        raise ClientError(
            f"the master, broker id {master.id} at {master.address}, is RocketMQ's, which cannot {what}: it accepts "
            "messages until another one is elected. 'gantrymq cluster promote' elects another member at once"
        )
    return master


def member_of(found: ElectedSet, wanted: str) -> ElectedBroker:
    """Return the broker with an id or address. Raises ClientError: the set has none."""
    for each in found.brokers:
        if each.id is not None and wanted in (str(each.id), each.address):
            return each
    known = ", ".join(f"{each.id} ({each.address})" for each in found.brokers if each.id is not None)
    raise ClientError(f"no broker of {found.broker} has the id or address {wanted}; known are: {known or 'none'}")


async def change_to(admin: Admin, found: ElectedSet, wanted: ElectedBroker) -> ChangedMaster | None:
    """Make a member of the in-sync set the master, without losing messages if the present one is GantryMQ's.

    It hands over then, and the result says for how long it refused messages. A master of RocketMQ cannot, so the
    leading controller elects the other one, and the result is None.

    Raises:
        ClientError: *wanted* cannot take over, or there is no master or controller that could be asked.
        BrokerRefused: the master or the controller refused, with a sentence.
    """
    if wanted.id == found.master_id:
        raise ClientError(f"broker id {wanted.id} is the master of {found.broker} already")
    if wanted.id not in found.in_sync:
        raise ClientError(f"broker id {wanted.id} is not in the in-sync set of {found.broker}, {listed(found.in_sync)}")
    if found.master is None or found.master.election is not None or found.master.silent or found.data_lost:
        return await change_master(admin, resigning_master(found, "hand over").address, "handover", wanted.id)
    if not found.leader:
        raise ClientError(found.engine_problem)
    await elect_member(admin, found, wanted, unclean=False)
    return None


async def elect_member(admin: Admin, found: ElectedSet, wanted: ElectedBroker, *, unclean: bool) -> None:
    """Let the leading controller elect *wanted*; with *unclean* it may elect brokers outside of in-sync sets meanwhile.

    The broker itself is asked (`change_master`) if the controllers have lost their data, or get no heartbeats from it
    because it waits for the comparison of logs after an unclean stop.
    """
    assert wanted.id is not None
    waits = unclean and wanted.alive is False and wanted.election is not None
    before = "false"
    if unclean:
        before = (await admin.controller_settings(found.leader)).get(_UNCLEAN, "false")
        await admin.change_controller_settings(found.leader, {_UNCLEAN: "true"})
    try:
        if found.data_lost or waits:
            await change_master(admin, wanted.address, "promote", wanted.id, unclean=True, epoch=found.epoch)
        else:
            await admin.elect_master(found.leader, found.cluster, found.broker, wanted.id)
    except BrokerRefused as refusal:
        if refusal.response_code == _NO_MEMBER and not unclean:
            raise ClientError(
                f"broker id {wanted.id} is no living member of the in-sync set {listed(found.in_sync)}: with "
                "--unclean it is elected, and acknowledged messages that it lacks are lost"
            ) from refusal
        if refusal.response_code != _STILL_MASTER:
            raise
    finally:
        if unclean and before != "true":
            try:
                await admin.change_controller_settings(found.leader, {_UNCLEAN: before})
            except GantryError as error:
                warn(f"{_UNCLEAN} is still true at the controller {found.leader}, set it to {before}: {error}")


def refused_before(found: ElectedSet) -> str:
    """Return why the master refuses messages for lack of copies; empty if it does not.

    Such a set has too few copies with another master, too, so nothing is gained by waiting for it.
    """
    return problem_of(found) if lacks_copies(found.master) else ""


async def new_master(
    clock: Clock,
    look: Callable[[], Awaitable[ElectedSet]],
    before: ElectedSet,
    wanted: int | None,
    refused: str,
    pause_s: float = _LOOK_S,
) -> ElectedSet:
    """Wait until a new master accepts messages, at most 15 s, and return the set as it is then.

    Args:
        clock: for the pauses.
        look: returns the set.
        before: the set before the change.
        wanted: id of the new master; None: any.
        refused: of `refused_before`.
        pause_s: between two looks.
    """
    began = clock.monotonic()
    found = await look()
    while clock.monotonic() - began < _ACCEPTS_S and (
        (accepting(found) is False and not (refused and lacks_copies(found.master)))
        or (found.epoch <= before.epoch and found.master_id != wanted)
    ):
        await clock.sleep(pause_s)
        found = await look()
    return found


def problem_of(found: ElectedSet) -> str:
    """Return why the master accepts no messages; empty if it does, or does not say."""
    return found.master.election.problem if found.master is not None and found.master.election is not None else ""
