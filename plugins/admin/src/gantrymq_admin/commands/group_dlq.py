"""``gantrymq group dlq list|show|resend GROUP``: messages that a group failed to consume too often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs
import click

from gantrymq.client import Client, Reader, ReceivedMessage
from gantrymq.errors import ClientError, NoMessageFound
from gantrymq.plugin import names
from gantrymq.plugin import properties as props
from gantrymq.plugin.commands import (
    CommandGroup,
    local_time,
    namesrv_option,
    output_option,
    print_json,
    run,
    say,
    warn,
)
from gantrymq.plugin.real_world import RealClock
from gantrymq_admin.commands.lists import Columns, local_times, print_records, text
from gantrymq_admin.commands.message_query import lines_of
from gantrymq_admin.commands.options import check_group, group_named
from gantrymq_admin.dead_letters import RESENT_BY, DeadQueue, dead_queues, origin_of, pages, place_of, why
from gantrymq_admin.messages import as_json
from gantrymq_admin.resending import Outcome, Resend
from gantrymq_admin.resent import Resent, SoughtLetter

Command = TypeVar("Command", bound=Callable[..., Any])

_READER = "TOOLS_CONSUMER"  # group that exists on every broker
_SENDER = "gantrymq-cli"
_BY = "gantrymq group dlq resend"
_MOST_LISTED = 1000
PROGRESS_EVERY = 10_000  # dead letters between two lines of progress

broker_option = click.option("--broker", metavar="NAME", help="Only the dead letters at this broker.")
from_option = click.option(
    "--from-offset", type=click.IntRange(min=0), metavar="N", help="Start at this queue offset at every broker."
)


def letters_named(metavar: str) -> Callable[[Command], Command]:
    """Add the arguments GROUP and OFFSET, and ``-g`` in place of the first; see `_group_and_offsets`."""

    def add(command: Command) -> Command:
        option = click.option(
            "-g", "--group", metavar="GROUP", help="The consumer group; then all arguments are offsets."
        )
        return option(click.argument("words", metavar=metavar, nargs=-1)(command))

    return add


@click.group(cls=CommandGroup)
def dlq() -> None:
    """Show and resend the dead letters of a group: messages whose consumption failed too often."""


@dlq.command("list")
@group_named("group")
@broker_option
@from_option
@click.option(
    "--max",
    "most",
    type=click.IntRange(0, _MOST_LISTED),
    default=32,
    show_default=True,
    help="Maximum number of dead letters to list.",
)
@namesrv_option
@output_option
def list_letters(group: str, broker: str | None, from_offset: int | None, most: int, namesrv: str, output: str) -> None:
    """Count the dead letters, and list the oldest: time, original topic, number of failures."""

    async def work() -> tuple[list[DeadQueue], list[ReceivedMessage], dict[str, int] | None]:
        found: list[ReceivedMessage] = []
        resent: dict[str, int] | None = {}
        async with Client(namesrv) as client, client.reader(group=_READER) as consumer, client.admin as admin:
            queues = await _queues(consumer, group, broker)
            search = Resent(admin, group)
            for each in _from(queues, from_offset):
                async for page in pages(consumer, each.queue, each.min_offset, each.max_offset):
                    shown = page[: most - len(found)]
                    resent = await _with_times(resent, search, shown, group)
                    found += shown
                    if len(found) == most:
                        break
        return queues, found, resent

    queues, letters, resent = run(work())
    count = sum(each.count for each in queues)
    if output == "json":
        print_json(
            {
                "group": group,
                "topic": names.dead_letter_topic(group),
                "dead_letters": count,
                "queues": [_queue_json(each) for each in queues],
                "letters": [_letter_json(each, group, resent) for each in letters],
            }
        )
        return
    for each in queues:
        click.echo(
            f"{each.queue.broker_name}: {each.count} dead letters, offsets {each.min_offset} to {each.max_offset - 1}"
        )
    if letters:
        columns: Columns = (
            *(("Broker", "broker_name"), ("Offset", "queue_offset")),
            *(("Since", local_times("store_timestamp", fraction=True)), ("Failed", "reconsume_times")),
            *(("Topic", lambda letter: origin_of(letter, group) or ""), ("Keys", text("keys")), "message_id"),
            ("Sent again", lambda letter: _sent_again(letter, resent)),
        )
        print_records(letters, columns)
    click.echo(f"group {group} has {count} dead letters" + (f", {len(letters)} of them listed" if count else ""))


@dlq.command()
@letters_named("GROUP OFFSET")
@namesrv_option
@output_option
def show(group: str | None, words: tuple[str, ...], namesrv: str, output: str) -> None:
    """Print one dead letter with all its stored fields.

    OFFSET is its queue offset, or BROKER:OFFSET if several brokers have dead letters of the group.
    """
    group, which = _group_and_offsets(group, words)
    if len(which) != 1:
        raise click.UsageError(f"give one OFFSET; {len(which)} are given")
    broker, offset = _place(which[0])

    async def work() -> tuple[ReceivedMessage, tuple[ReceivedMessage, ...] | None]:
        async with Client(namesrv) as client, client.reader(group=_READER) as consumer, client.admin as admin:
            (letter,) = await _letters(consumer, group, [(broker, offset)])
            try:
                copies = await Resent(admin, group).copies([SoughtLetter.of(letter, group)])
            except ClientError as problem:
                _warn_unknown(problem)
                return letter, None
            return letter, copies.get(place_of(letter), ())

    found, copies = run(work())
    resent = None if copies is None else {place_of(found): each.store_timestamp for each in copies[-1:]}
    if output == "json":
        more = {} if copies is None else {"copies": list(map(_copy_json, copies))}
        print_json({**as_json(found), **_more_json(found, group, resent), **more})
        return
    click.echo(f"{'Why':<18}{why(found)}")
    click.echo(f"{'Sent again':<18}{_sent_again(found, resent) or 'no'}")
    for copy in copies or ():
        by = f" by {copy.properties[RESENT_BY]}" if RESENT_BY in copy.properties else ""
        click.echo(f"{'Copy':<18}{local_time(copy.store_timestamp)}{by} to {copy.topic}: {copy.offset_id}")
    for label, value in lines_of(found):
        click.echo(f"{label + ':':<18}{value}")


@dlq.command()
@letters_named("GROUP [OFFSET]...")
@click.option("--all", "everything", is_flag=True, help="All present dead letters.")
@broker_option
@from_option
@click.option(
    "--max", "most", type=click.IntRange(min=1), metavar="N", help="Maximum number of dead letters to send again."
)
@click.option(
    "--to",
    "target",
    type=click.Choice(["group", "retry", "topic"]),
    default="group",
    show_default=True,
    help="group: only to this group, through the retry topic that it reads. retry: through %RETRY%GROUP in any case, "
    "for a group that popped before and pulls now. topic: to the original topic, for all its groups.",
)
@click.option("--again", "once_more", is_flag=True, help="Also what was sent again before; it arrives once more.")
@click.option("--dry-run", is_flag=True, help="Read and count without sending.")
@namesrv_option
@output_option
def resend(
    group: str | None,
    words: tuple[str, ...],
    everything: bool,
    broker: str | None,
    from_offset: int | None,
    most: int | None,
    target: str,
    once_more: bool,
    dry_run: bool,
    namesrv: str,
    output: str,
) -> None:
    """Send dead letters again, with unchanged body, keys and properties, and a new count of tries.

    OFFSET is as for show; nothing is sent if one of them does not exist. A dead letter that was sent again is not
    deleted, but its copy is marked: a letter that was sent again before, here or in the console, is left out, unless
    --again is given.
    """
    group, which = _group_and_offsets(group, words)
    ranged = everything or from_offset is not None or most is not None
    if bool(which) == ranged:
        raise click.UsageError("specify the dead letters: OFFSETs, or --from-offset and --max, or --all")

    named = list[Outcome]()

    def report(outcome: Outcome) -> None:
        if which:
            named[:] = [*(each for each in named if each.place != outcome.place), outcome]
        elif outcome.result in ("left out", "failed", "unknown"):
            warn(f"{outcome.place} {outcome.result}: {outcome.reason}")

    async def work() -> Resend:
        async with (
            Client(namesrv) as client,
            client.reader(group=_READER) as consumer,
            client.producer(_SENDER, retries=0) as producer,
            client.admin as admin,
        ):
            sender = None if dry_run else producer
            where = (group, consumer, sender, admin, RealClock())
            resend = Resend(*where, target=target, by=_BY, report=report, once_more=once_more)
            if which:
                letters = await _letters(consumer, group, list(map(_place, which)))
                async with resend:
                    await resend.page(letters)
                return resend
            queues = _from(await _queues(consumer, group, broker), from_offset)
            async with resend:
                await send_range(resend, consumer, queues)
            return resend

    async def send_range(resend: Resend, consumer: Reader, queues: Sequence[DeadQueue]) -> None:
        for each in queues:
            reported = resend.sent
            async for page in pages(consumer, each.queue, each.min_offset, each.max_offset):
                rest: Sequence[ReceivedMessage] = page
                while rest and not (resend.failed or resend.unknown) and resend.tried != most:
                    part = rest if most is None else rest[: most - resend.tried]
                    await resend.page(part)
                    rest = rest[len(part) :]
                if resend.failed or resend.unknown or resend.tried == most:
                    return
                if resend.sent - reported >= PROGRESS_EVERY:
                    reported = resend.sent
                    say(f"{resend.sent} dead letters so far, up to {each.queue.broker_name}:{page[-1].queue_offset}")

    done = run(work())
    if output == "json":
        print_json(
            {
                "group": group,
                "dry_run": dry_run,
                "resent": done.sent,
                "sent_before": done.sent_before,
                "left_out": done.left_out,
                "failed": done.failed,
                "unknown": done.unknown,
                "by_topic": done.by_topic,
                "next_offset": {} if which else done.next_offset,
                "letters": [attrs.asdict(each) for each in named],
            }
        )
    else:
        _print_resend(done, group, named, dry_run=dry_run, ranged=ranged)
    if done.unknown:
        raise ClientError(
            f"it is not known whether {done.unknown} dead letters of group {group} were sent again, see above; look "
            "with 'gantrymq group dlq show' whether they were before you repeat the command"
        )
    if done.failed:
        raise ClientError(
            f"{done.failed} dead letters of group {group} could not be sent again, see above; repeat the command: it "
            "leaves out those that were sent"
        )
    if done.left_out:
        raise ClientError(f"{done.left_out} dead letters of group {group} were left out; see above")


def _print_resend(done: Resend, group: str, named: Sequence[Outcome], *, dry_run: bool, ranged: bool) -> None:
    if named:
        print_records(named, (("Dead letter", "place"), "result", "topic", "reason"))
    what = "would be sent again" if dry_run else "were sent again"
    topics = "".join(f"; {count} to {topic}" for topic, count in sorted(done.by_topic.items()))
    before = f"; {done.sent_before} were before, and are not sent without --again" if done.sent_before else ""
    failed = f"; {done.failed} failed" if done.failed else ""
    failed += f"; {done.unknown} without an answer" if done.unknown else ""
    places = "".join(f"; continue at {name} with --from-offset {at}" for name, at in sorted(done.next_offset.items()))
    click.echo(
        f"{done.sent} dead letters of group {group} {what}{topics}{before}; {done.left_out} left out{failed}"
        f"{places if ranged and not (done.failed or done.unknown) else ''}"
    )


# --- queries --------------------------------------------------------------------------------------------------------


def _group_and_offsets(group: str | None, words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    if group is None:
        if not words:
            raise click.UsageError("GROUP is missing: give it as the first argument or with -g or --group")
        group, *rest = words
        words = tuple(rest)
    return check_group(group), words


def _place(which: str) -> tuple[str, int]:
    broker, _, text = which.rpartition(":")
    if not (text.isascii() and text.isdecimal()):
        raise click.BadParameter(f"{which!r} is neither OFFSET nor BROKER:OFFSET", param_hint="OFFSET")
    return broker, int(text)


async def _queues(consumer: Reader, group: str, broker: str | None) -> list[DeadQueue]:
    queues = await dead_queues(consumer, group)
    found = [each for each in queues if broker in (None, each.queue.broker_name)]
    if broker is not None and queues and not found:
        there = ", ".join(each.queue.broker_name for each in queues)
        raise NoMessageFound(f"broker {broker} has no dead letters of group {group}; they are at {there}")
    return found


def _from(queues: Sequence[DeadQueue], offset: int | None) -> list[DeadQueue]:
    return [attrs.evolve(each, min_offset=max(each.min_offset, offset or 0)) for each in queues]


async def _letters(consumer: Reader, group: str, wanted: Sequence[tuple[str, int]]) -> list[ReceivedMessage]:
    """Return the letters at places of broker and offset, each once.

    Raises:
        ClientError: a place without a broker, and several brokers have dead letters.
        NoMessageFound: letters that do not exist; all of them are named.
    """
    found, missing = dict[tuple[str, int], ReceivedMessage](), list[str]()
    queues = await dead_queues(consumer, group)
    for broker, offset in wanted:
        of_broker = [each for each in queues if broker in ("", each.queue.broker_name)]
        if len(of_broker) > 1:
            choices = ", ".join(f"{each.queue.broker_name}:{offset}" for each in of_broker)
            raise ClientError(f"several brokers have dead letters of group {group}: specify one of {choices}")
        letter = await _letter_at(consumer, of_broker, offset)
        if letter is None:
            missing.append(f"{broker}{':' if broker else ''}{offset}")
        else:
            found[letter.broker_name, letter.queue_offset] = letter
    if missing:
        there = ", ".join(f"{e.queue.broker_name} {e.min_offset} to {e.max_offset - 1}" for e in queues if e.count)
        raise NoMessageFound(f"group {group} has no dead letter {', '.join(missing)}; there are {there or 'none'}")
    return list(found.values())


async def _letter_at(consumer: Reader, queues: Sequence[DeadQueue], offset: int) -> ReceivedMessage | None:
    for each in queues:
        if each.min_offset <= offset < each.max_offset:
            async for page in pages(consumer, each.queue, offset, offset + 1):
                return page[0]
    return None


async def _with_times(
    known: dict[str, int] | None, search: Resent, letters: Sequence[ReceivedMessage], group: str
) -> dict[str, int] | None:
    """Return *known* with the times when *letters* were sent again, by place; None, with a warning, if unknown."""
    if known is None:
        return None
    try:
        return known | await search.times([SoughtLetter.of(each, group) for each in letters])
    except ClientError as problem:
        _warn_unknown(problem)
        return None


def _warn_unknown(problem: ClientError) -> None:
    warn(f"it is not known which dead letters were sent again: {problem}")


def _sent_again(letter: ReceivedMessage, resent: dict[str, int] | None) -> str:
    if resent is None:
        return "unknown"
    time = resent.get(place_of(letter))
    return "" if time is None else local_time(time)


def _queue_json(each: DeadQueue) -> dict[str, Any]:
    return {
        "broker": each.queue.broker_name,
        "queue": each.queue.queue_id,
        "min_offset": each.min_offset,
        "max_offset": each.max_offset,
        "dead_letters": each.count,
    }


def _more_json(letter: ReceivedMessage, group: str, resent: dict[str, int] | None) -> dict[str, Any]:
    known = {} if resent is None else {"sent_again_ms": resent.get(place_of(letter))}
    return {"origin_topic": origin_of(letter, group), "why": why(letter), **known}


def _copy_json(copy: ReceivedMessage) -> dict[str, Any]:
    return {
        "offset_id": copy.offset_id,
        "topic": copy.topic,
        "sent_ms": copy.store_timestamp,
        "by": copy.properties.get(RESENT_BY),
    }


def _letter_json(letter: ReceivedMessage, group: str, resent: dict[str, int] | None) -> dict[str, Any]:
    return {
        "broker": letter.broker_name,
        "queue_offset": letter.queue_offset,
        "dead_since_ms": letter.store_timestamp,
        "reconsume_times": letter.reconsume_times,
        **_more_json(letter, group, resent),
        "origin_message_id": letter.properties.get(props.ORIGIN_MESSAGE_ID),
        "keys": letter.keys,
        "tags": letter.tags,
        "message_id": letter.message_id,
    }
