"""``gantrymq group reset`` and ``group clone``: set the offsets of a group.

A target is ``earliest``, ``latest``, a time, or a queue offset. A whole number is a queue offset; from `FIRST_TIME_MS`
on it is milliseconds since the epoch, as times are everywhere else on the command line. No queue of RocketMQ's has that
number of messages: its entries alone would be two terabytes.
"""

from __future__ import annotations

from shlex import quote
from typing import Any

import attrs
import click

from gantrymq.client import Admin, OffsetTarget
from gantrymq.client.admin import NothingCommitted, OffsetReset, QueueUnknown
from gantrymq.plugin import names
from gantrymq.plugin.client import EARLIEST, LATEST
from gantrymq.plugin.commands import TIMES, print_json, read_time_ms, say, warn
from gantrymq_admin.commands.lists import print_records
from gantrymq_admin.commands.options import admin_command, group_named, named, warn_without_master

FIRST_TIME_MS = 100_000_000_000  # in March 1973
_SHOWN = 40  # most queues in the printed table; --output json has all


@attrs.frozen
class Target(OffsetTarget):
    """A target, with its original text."""

    text: str = attrs.field(default="", kw_only=True)


def parse_target(text: str, now_ms: int) -> Target:
    """Parse the value of ``--to``.

    Raises:
        click.BadParameter: it is none of the four, negative, or a future time.
    """
    word = text.strip()
    if word.lower() in (EARLIEST, LATEST):
        return Target(text=text, edge=word.lower())
    if word.isascii() and word.isdecimal() and int(word) < FIRST_TIME_MS:
        return Target(text=text, queue_offset=int(word))
    try:
        time_ms = read_time_ms(word if word.isascii() else "", now_ms)
    except click.BadParameter:
        raise click.BadParameter(
            f"{text!r} is none of earliest, latest, a queue offset, and a time such as {TIMES}"
        ) from None
    if time_ms > now_ms:
        raise click.BadParameter(f"{text!r} is still to come; latest passes over all there is now")
    return Target(text=text, time_ms=time_ms)


def _target(_context: click.Context, _option: click.Parameter, text: str) -> Target:
    from gantrymq.plugin.real_world import RealClock

    return parse_target(text, RealClock().now_ms())


dry_run_option = click.option("--dry-run", is_flag=True, help="Show the new offsets without setting them.")


@click.command()
@group_named("group")
@click.option("-t", "--topic", required=True, metavar="NAME", help="The topic.")
@click.option(
    "--to",
    "target",
    required=True,
    callback=_target,
    metavar="earliest|latest|TIME|OFFSET",
    help=f"Where to continue: an end of each queue, the first message stored at a time ({TIMES}), or a queue offset.",
)
@click.option("-q", "--queue", type=click.IntRange(min=0), metavar="N", help="Only this queue of each broker.")
@dry_run_option
@admin_command
async def reset(
    admin: Admin, group: str, topic: str, target: Target, queue: int | None, dry_run: bool, output: str
) -> None:
    """Set the offsets of GROUP in a topic, with or without online members.

    Messages before the new offset are skipped, later ones are read again. An integer below 100,000,000,000 is a queue
    offset, a larger one a time in milliseconds.
    """
    await warn_without_master(admin, None)
    try:
        done = await admin.reset_offsets(group, topic, target, queue_id=queue, dry_run=dry_run)
    except QueueUnknown as problem:
        raise QueueUnknown(f"{problem}; see: gantrymq topic status -t {quote(topic)}") from problem
    _show({"group": group, "topic": topic, "to": target.text, **_document(done, group)}, output)


@click.command()
@named("source", names.check_group, "-s", "--source", metavar="SOURCE", help="The group to copy from.")
@named("group", names.check_group, "-g", "--group", metavar="TARGET", help="The group to set.")
@click.option("-t", "--topic", metavar="NAME", help="Only this topic; by default, all topics with offsets of SOURCE.")
@dry_run_option
@admin_command
async def clone(admin: Admin, source: str, group: str, topic: str | None, dry_run: bool, output: str) -> None:
    """Set the offsets of TARGET to those of SOURCE; TARGET is created with the settings of SOURCE if it does not exist.

    Queues without an offset of SOURCE, and its retry topic, are not changed.
    """
    if source == group:
        raise click.UsageError(f"{source} is both SOURCE and TARGET; a group is not cloned to itself")
    await warn_without_master(admin, None)
    topics = await _clone(admin, source, group, topic, dry_run)
    if output == "json":
        print_json({"source": source, "group": group, "dry_run": dry_run, "topics": topics})
        return
    for found in topics:
        _show({"group": group, **found}, output)


# --- asking ---------------------------------------------------------------------------------------------------------


async def _clone(admin: Admin, source: str, group: str, topic: str | None, dry_run: bool) -> list[dict[str, Any]]:
    try:
        done = await admin.clone_offsets(source, group, topic, dry_run=dry_run)
    except NothingCommitted as problem:
        advice = "" if topic else f"; see: gantrymq group progress -g {quote(source)}"
        raise NothingCommitted(f"{problem}{advice}") from problem
    for each in done:
        if each.attributes_left_out:
            left_out = ", ".join(each.attributes_left_out)
            click.echo(f"attributes of {source} are not cloned to {group}: {left_out}", err=True)
    return [{"topic": each.topic, **_document(each, source)} for each in done]


def _document(done: OffsetReset, known_as: str) -> dict[str, Any]:
    """Print the offsets as JSON; warn about brokers that do not know the group *known_as*."""
    for broker in done.left_out:
        warn(f"broker {broker} does not know group {known_as}; it is left out")
    return {
        "dry_run": done.dry_run,
        "online": done.online,
        "by": list(done.ways),
        "skipped": done.skipped,
        "read_again": done.read_again,
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
            for move in done.moves
        ],
    }


# --- output ---------------------------------------------------------------------------------------------------------


def _show(found: dict[str, Any], output: str) -> None:
    if output == "json":
        print_json(found)
        return
    queues = found["queues"]
    if len(queues) > _SHOWN:
        queues = [queue for queue in queues if queue["skipped"]][:_SHOWN]
        say(f"{len(queues)} of {len(found['queues'])} queues, of those that change; --output json has all")
    print_records(queues, ("broker", "queue", "min_offset", "max_offset", "before", "after", "skipped"))
    would = "would be" if found["dry_run"] else "are"
    click.echo(
        f"{found['group']} on topic {found['topic']}: {found['skipped']} messages {would} skipped, "
        f"{found['read_again']} {would} read again"
    )
    if "members" in found["by"] and not found["dry_run"]:
        say(f"the {found['online']} online members set these offsets themselves, within about ten seconds")
