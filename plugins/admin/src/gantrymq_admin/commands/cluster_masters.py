"""``gantrymq cluster explain``, ``handover``, ``promote``, ``demote`` and ``forget``: masters and members of a set."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import click

from gantrymq.client import Admin
from gantrymq.errors import ClientError
from gantrymq.plugin.client import BrokerAddresses
from gantrymq.plugin.commands import check_address, print_json, warn
from gantrymq.plugin.real_world import RealClock
from gantrymq_admin.commands.options import admin_command, broker_named
from gantrymq_admin.elected import ElectedBroker, ElectedSet, ask_set, change_master, forget_broker
from gantrymq_admin.elected_sentences import accepting, explained, lacks_copies, why_out
from gantrymq_admin.master_changes import (
    elect_member,
    member_of,
    new_master,
    problem_of,
    refused_before,
    resigning_master,
)

controller_option = click.option(
    "--controller",
    metavar="ADDR",
    callback=check_address,
    help="A controller, host:port; by default from the brokers' settings.",
)


async def names_of(admin: Admin, name: str | None) -> list[BrokerAddresses]:
    """Return the brokers of one name, or of all names.

    Raises:
        ClientError: there are none.
    """
    found = (await admin.clusters()).brokers
    if name is not None:
        known, found = sorted(each.name for each in found), tuple(each for each in found if each.name == name)
        if not found:
            raise ClientError(f"no name server knows a broker {name}; brokers known: {', '.join(known) or 'none'}")
    elif not found:
        raise ClientError("no broker is registered with the name servers")
    return sorted(found, key=lambda each: (each.cluster, each.name))


@click.command()
@broker_named(required=False)
@controller_option
@admin_command
async def explain(admin: Admin, name: str | None, controller: str | None, output: str) -> None:
    """Explain the state of replica sets with elected masters, in sentences.

    Shows the master and its epoch, the members in and outside of the in-sync set with the reasons, the log offset that
    all members have, the effect of a failure of each, and the cause and the remedy if messages are refused.
    """
    names = await names_of(admin, name)
    asked = await asyncio.gather(*(ask_set(admin, each, [controller] if controller else []) for each in names))
    found = [each for each in asked if each is not None]
    fixed = [each.name for each, answer in zip(names, asked, strict=True) if answer is None]
    if output == "json":
        print_json({"sets": [_document(each) for each in found], "fixed": fixed})
        return
    for number, each in enumerate(found):
        click.echo(("\n" if number else "") + "\n".join(explained(each)))
    for broker in fixed:
        click.echo(f"The master of {broker} is fixed by settings; 'gantrymq cluster status' shows its copies.")


def _document(found: ElectedSet) -> dict[str, Any]:
    master, told = found.master, found.told
    return {
        "cluster": found.cluster,
        "broker": found.broker,
        "engine": "controller" if found.controllers else "etcd",
        "leader": found.leader or None,
        "engine_problem": found.engine_problem or None,
        "epoch": found.epoch,
        "master": found.master_id,
        "master_address": master.address if master is not None else None,
        "in_sync": list(found.in_sync),
        "accepting": accepting(found),
        "confirmed": told.confirmed if told is not None else None,
        "brokers": [
            {
                "id": each.id,
                "address": each.address,
                "registered": each.registered,
                "problem": each.silent or None,
                "end": each.end,
                "epoch": each.election.epoch if each.election is not None else None,
                "in_sync": each.id in found.in_sync,
                "why_not": None if each.id in found.in_sync else why_out(found, each),
            }
            for each in found.brokers
        ],
        "sentences": explained(found),
    }


@click.command()
@broker_named()
@click.option("--to", metavar="ID", help="Id or address of the member that takes over; by default the best one.")
@controller_option
@admin_command
async def handover(admin: Admin, name: str, to: str | None, controller: str | None, output: str) -> None:
    """Hand the role of master of BROKER_NAME over to another member of the in-sync set, without losing messages.

    The master refuses messages until the set has its whole log, well below a second, and then resigns. Producers retry.
    It remains the master if no other member is in sync. Exits with 1 unless the new master accepts messages, which it
    cannot if too few copies were in sync before.
    """
    found = await _set(admin, name, controller)
    master = resigning_master(found, "hand over")
    wanted = None if to is None else member_of(found, to).id
    await _change(admin, found, change_master(admin, master.address, "handover", wanted), output, wanted)


@click.command()
@broker_named()
@controller_option
@admin_command
async def demote(admin: Admin, name: str, controller: str | None, output: str) -> None:
    """Make the master of BROKER_NAME resign at once, in favor of another member of the in-sync set.

    For a master that works badly: unlike handover it does not wait until the others have its whole log. Acknowledged
    messages are kept; others may be lost, and their producers get an error. It remains the master if no other member is
    in sync.
    """
    found = await _set(admin, name, controller)
    master = resigning_master(found, "give up by itself")
    await _change(admin, found, change_master(admin, master.address, "demote"), output, None)


@click.command()
@click.argument("name", metavar="BROKER_NAME")
@click.argument("to", metavar="ID")
@click.option(
    "--unclean", is_flag=True, help="Also if it is not in the in-sync set: what it lacks is lost, acknowledged or not."
)
@controller_option
@admin_command
async def promote(admin: Admin, name: str, to: str, unclean: bool, controller: str | None, output: str) -> None:
    """Elect the broker with this ID or address as the master of BROKER_NAME.

    With controllers at once, also instead of a master that lives, like mqadmin's electMaster. With etcd only while
    there is no master. Members of the in-sync set have all that was acknowledged; with --unclean any other broker is
    elected, and its log counts from then on: acknowledged messages that it lacks are lost. If the engine has lost its
    data, --unclean elects the broker in an epoch after all epochs that the brokers know.
    """
    found = await _set(admin, name, controller)
    wanted = member_of(found, to)
    assert wanted.id is not None
    if found.data_lost and not unclean:
        raise ClientError(found.data_lost)
    if found.controllers:
        if not found.leader:
            raise ClientError(found.engine_problem)
        if unclean:
            _warn_of_loss(found, wanted)
        elect = elect_member(admin, found, wanted, unclean=unclean)
        await _change(admin, found, elect, output, wanted.id, unclean=unclean)
        return
    if found.master is not None and not found.data_lost:
        raise ClientError(
            f"broker id {found.master_id} is the master of {name}: 'gantrymq cluster handover' changes it; if it does "
            "not answer, stop it, and the set elects another one when its lease has ended"
        )
    if unclean:
        _warn_of_loss(found, wanted)
    work = change_master(admin, wanted.address, "promote", wanted.id, unclean=unclean, epoch=found.epoch)
    await _change(admin, found, work, output, wanted.id, unclean=unclean)


@click.command()
@click.argument("name", metavar="BROKER_NAME")
@click.argument("member", metavar="ID")
@controller_option
@admin_command
async def forget(admin: Admin, name: str, member: str, controller: str | None, output: str) -> None:
    """Forget a slave of BROKER_NAME that is gone for good, so that cluster status does not report it as lost.

    ID is its id in an elected set; with fixed roles the host that cluster status shows. It must be stopped, and not be
    in the in-sync set. RocketMQ's controllers forget it, too: if it returns, it must join as a new broker.
    """
    (addresses,) = await names_of(admin, name)
    found = await ask_set(admin, addresses, [controller] if controller else [])
    forgotten: int | str = member
    if found is None:
        if (master := addresses.addresses.get(0)) is None:
            raise ClientError(f"only the master of {name} can forget a slave, and none is registered")
        await change_master(admin, master, "forget", host=member)
    else:
        if not member.isdecimal():
            raise ClientError(f"{member!r} is no id of a broker in the set of {name}, such as 3")
        forgotten = int(member)
        await forget_broker(admin, found, forgotten)
    if output == "json":
        print_json({"cluster": addresses.cluster, "broker": name, "forgotten": forgotten})
    else:
        click.echo(f"{name}: {'slave' if found is None else 'broker id'} {member} is forgotten")


# --- before -----------------------------------------------------------------------------------------------------------


async def _set(admin: Admin, name: str, controller: str | None) -> ElectedSet:
    (addresses,) = await names_of(admin, name)
    found = await ask_set(admin, addresses, [controller] if controller else [])
    if found is None:
        raise ClientError(f"the master of {name} is fixed by settings, not elected (enableControllerMode)")
    return found


def _warn_of_loss(found: ElectedSet, wanted: ElectedBroker) -> None:
    others = [each.end for each in found.brokers if each is not wanted and each.end is not None]
    more = max(others, default=0) - (wanted.end or 0)
    known = f"at least {more} bytes, by the brokers that answer" if more > 0 else "how much is not known"
    warn(
        f"broker id {wanted.id} is elected although it may lack messages that were acknowledged: they are lost "
        f"({known}). Brokers of GantryMQ that have them refuse to follow it, those of RocketMQ cut them away"
    )


# --- the change -------------------------------------------------------------------------------------------------------


async def _change(
    admin: Admin,
    before: ElectedSet,
    work: Awaitable[object],
    output: str,
    wanted: int | None,
    *,
    unclean: bool = False,
) -> None:
    """Do *work*, wait until the new master accepts messages, and print it. An *unclean* election makes another set."""
    clock = RealClock()
    began = clock.monotonic()
    refused = "" if unclean else refused_before(before)
    changed = await work
    found = await new_master(clock, lambda: _set(admin, before.broker, before.leader or None), before, wanted, refused)
    took, master, accepts = clock.monotonic() - began, found.master, accepting(found)
    old, why = before.master_id, problem_of(found)
    if refused and lacks_copies(master):
        why = refused  # its slaves may not have connected to the new master yet
    right = master is not None and (master.id != old if wanted is None else master.id == wanted)
    if output == "json":
        document = {
            "cluster": found.cluster,
            "broker": found.broker,
            "from": old,
            "to": found.master_id,
            "address": master.address if master is not None else None,
            "epoch": found.epoch,
            "accepting": accepts,
            "problem": why or None,
            "refused_ms": getattr(changed, "refused_ms", None),
            "seconds": round(took, 3),
        }
        print_json(document)
    elif master is None:
        click.echo(f"{found.broker}: there is no master; 'gantrymq cluster explain' says why")
    else:
        refuses = f"does not accept messages yet ({why})"
        if refused and why == refused:
            refuses = f"accepts no messages either: {why}"
        state = {True: "accepts messages", None: "is RocketMQ's", False: refuses}[accepts]
        was = (
            f"instead of broker id {old}, "
            if old not in (None, master.id)
            else "as before, "
            if old == master.id
            else ""
        )
        click.echo(
            f"{found.broker}: broker id {master.id} ({master.address}) is the master of epoch {found.epoch}, {was}and "
            f"{state}; that took {took:.1f} s"
        )
    if not right or accepts is False:
        raise click.exceptions.Exit(1)
