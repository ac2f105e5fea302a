"""``gantrymq group reset`` and ``group clone``: set from outside where a group goes on."""

from __future__ import annotations

import time
from typing import Any

import attrs
import click

from gantrymq.client import Admin
from gantrymq.commands.output import namesrv_option, output_option, print_json, print_table, say, warn
from gantrymq.commands.run import run
from gantrymq.errors import ClientError, GroupNotExist
from gantrymq.model import names
from gantrymq_admin.commands.group_admin import legal_group
from gantrymq_admin.group_offsets import BrokerOffsets, brokers_with, refuse_by_members
from gantrymq_admin.groups import GroupAdmin
from gantrymq_admin.offset_targets import QueueMove, Target, parse_target, refuse_outside

SHOWN = 40  # queues of a table for people; --output json has all

Plan = list[tuple[BrokerOffsets, list[QueueMove]]]


def _target(_context: click.Context, _option: click.Parameter, text: str) -> Target:
    return parse_target(text, time.time_ns() // 1_000_000)


dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be set, and set nothing.")


@click.command()
@click.argument("group", callback=legal_group)
@click.option("-t", "--topic", required=True, metavar="NAME", help="The topic.")
@click.option(
    "--to",
    "target",
    required=True,
    callback=_target,
    metavar="earliest|latest|TIME|OFFSET",
    help="Where to go on: an end of each queue, the first message stored at a time ('2026-11-21 10:00:00', or "
    "milliseconds), or a queue offset.",
)
@click.option("-q", "--queue", type=click.IntRange(min=0), metavar="N", help="This queue only, of each broker.")
@dry_run_option
@namesrv_option
@output_option
def reset(group: str, topic: str, target: Target, queue: int | None, dry_run: bool, namesrv: str, output: str) -> None:
    """Set where GROUP goes on in a topic, with members online or without.

    Messages before that are not read, those behind it are read again. A whole number below 100,000,000,000 is a queue
    offset, one above it milliseconds.
    """
    found = run(_reset(namesrv, group, topic, target, queue, dry_run))
    _show({"group": group, "topic": topic, "to": target.text, **found}, output)


@click.command()
@click.argument("source", callback=legal_group)
@click.argument("group", metavar="TARGET", callback=legal_group)
@click.option("-t", "--topic", metavar="NAME", help="This topic only; all that SOURCE committed on otherwise.")
@dry_run_option
@namesrv_option
@output_option
def clone(source: str, group: str, topic: str | None, dry_run: bool, namesrv: str, output: str) -> None:
    """Let TARGET go on where SOURCE is; it is made, with the settings of SOURCE, where it is not there.

    Queues in which SOURCE committed nothing, and its retry topic, are left alone.
    """
    if source == group:
        raise click.UsageError(f"{source} is both SOURCE and TARGET; a group is not cloned to itself")
    topics = run(_clone(namesrv, source, group, topic, dry_run))
    if output == "json":
        print_json({"source": source, "group": group, "dry_run": dry_run, "topics": topics})
        return
    for found in topics:
        _show({"group": group, **found}, output)


# --- asking ---------------------------------------------------------------------------------------------------------


async def _reset(
    namesrv: str, group: str, topic: str, target: Target, queue: int | None, dry_run: bool
) -> dict[str, Any]:
    async with Admin(namesrv) as admin:
        brokers = await _knowing(await brokers_with(admin, topic, queue), group)
        plan = [(broker, await broker.moves(group, target)) for broker in brokers]
        refuse_outside([move for _, moves in plan for move in moves])
        return await _apply(group, plan, target if queue is None else None, dry_run=dry_run)


async def _clone(namesrv: str, source: str, group: str, topic: str | None, dry_run: bool) -> list[dict[str, Any]]:
    async with Admin(namesrv) as admin:
        groups = GroupAdmin(admin)
        topics = [topic] if topic else await _topics_of(admin, groups, source)
        done = []
        for name in topics:
            plan: Plan = []
            for broker in await _knowing(await brokers_with(admin, name), source):
                offsets = await broker.committed(source)
                if not dry_run and offsets and not await broker.known(group):
                    config = (await groups.configs(broker.address))[source]
                    if config.attributes:
                        left_out = ", ".join(sorted(config.attributes))
                        click.echo(f"attributes of {source} are not cloned to {group}: {left_out}", err=True)
                    await groups.create(
                        broker.address, attrs.evolve(config, name=group, attributes={}, subscriptions=None)
                    )
                plan.append((broker, await broker.moves(group, offsets)))
            if not any(moves for _, moves in plan):
                raise ClientError(f"{source} has committed nothing on topic {name}; nothing was changed")
            done.append({"topic": name, **await _apply(group, plan, None, dry_run=dry_run)})
        return done


async def _topics_of(admin: Admin, groups: GroupAdmin, source: str) -> list[str]:
    """Topics that a group committed on, its retry topic aside."""
    found: set[str] = set()
    for address in await admin.masters():
        found |= {queue.topic for queue in await groups.progress(address, source)}
    topics = sorted(name for name in found if not name.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX)))
    if not topics:
        raise ClientError(f"{source} has committed nothing; see: gantrymq group progress -g {source}")
    return topics


async def _knowing(brokers: list[BrokerOffsets], group: str) -> list[BrokerOffsets]:
    """Those of the brokers that know the group. Raises GroupNotExist without any."""
    known = [broker for broker in brokers if await broker.known(group)]
    if not known:
        raise GroupNotExist(f"there is no group {group}; 'gantrymq group list' shows those there are")
    for broker in brokers:
        if broker not in known:
            warn(f"broker {broker.name} does not know group {group}; it is left out")
    return known


async def _apply(group: str, plan: Plan, by_members: Target | None, *, dry_run: bool) -> dict[str, Any]:
    """Set what is planned; with *by_members* members of an older kind may do it.

    Nothing is set anywhere when one of the brokers cannot do it.
    """
    ways = []
    online = 0
    for broker, moves in plan:
        if not moves:
            ways.append("")
            continue
        here = await broker.online(group)
        online = max(online, here)
        way = "broker" if await broker.server_side() else "members" if here else "commit"
        if way == "members":
            if by_members is None:
                raise ClientError(
                    f"{here} members of {group} are online at broker {broker.name}, which does not set offsets itself "
                    "(useServerSideResetOffset); they would commit over it: stop them first. Nothing was changed"
                )
            refuse_by_members(broker.name, group, by_members)
        ways.append(way)
    if not dry_run:
        try:
            await _set(group, plan, ways, by_members)
        except ClientError as problem:
            raise ClientError(f"{problem}; some queues may be set already, run the command again") from problem
    queues = [move for _, moves in plan for move in moves]
    return {
        "dry_run": dry_run,
        "online": online,
        "by": sorted({way for way in ways if way}),
        "skipped": sum(max(0, move.skipped) for move in queues),
        "read_again": sum(max(0, -move.skipped) for move in queues),
        "queues": [
            {
                "broker": move.broker,
                "queue": move.queue_id,
                "min_offset": move.min_offset,
                "max_offset": move.max_offset,
                "before": move.before,
                "after": move.after,
                "skipped": move.skipped,
            }
            for move in queues
        ],
    }


async def _set(group: str, plan: Plan, ways: list[str], by_members: Target | None) -> None:
    for (broker, moves), way in zip(plan, ways, strict=True):
        if way == "broker":
            await broker.set_here(group, moves)
        elif way == "members" and by_members is not None:
            await broker.tell_members(group, by_members)
        elif way == "commit":
            await broker.commit(group, moves)


# --- showing --------------------------------------------------------------------------------------------------------


def _show(found: dict[str, Any], output: str) -> None:
    if output == "json":
        print_json(found)
        return
    queues = found["queues"]
    if len(queues) > SHOWN:
        queues = [queue for queue in queues if queue["skipped"]][:SHOWN]
        say(f"{len(queues)} of {len(found['queues'])} queues, of those that change; --output json has all")
    print_table(
        ["Broker", "Queue", "Min offset", "Max offset", "Before", "After", "Skipped"],
        [
            (
                each["broker"],
                each["queue"],
                each["min_offset"],
                each["max_offset"],
                "-" if each["before"] is None else each["before"],
                each["after"],
                each["skipped"],
            )
            for each in queues
        ],
    )
    would = "would be" if found["dry_run"] else "are"
    say(
        f"{found['group']} on topic {found['topic']}: {found['skipped']} messages {would} passed over, "
        f"{found['read_again']} {would} read again"
    )
    if "members" in found["by"] and not found["dry_run"]:
        say(f"the {found['online']} members that are online set this themselves, within some ten seconds")
