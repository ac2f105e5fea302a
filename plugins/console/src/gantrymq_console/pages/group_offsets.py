"""Changes of offsets, each with a preview: reset, deletion, skipping waiting messages, cloning a group."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Final

import attrs

from gantrymq.client.admin import OffsetMove, OffsetReset, OffsetTarget
from gantrymq.errors import GroupNotExist
from gantrymq.plugin import names
from gantrymq_admin.progress import delete_offsets
from gantrymq_console.access.users import Role
from gantrymq_console.data.group import GroupHead
from gantrymq_console.data.groups import forget_groups
from gantrymq_console.values import Long
from gantrymq_console.web.context import RequestContext, moment_of
from gantrymq_console.web.pages import Action, BadInput, NotFound, Outcome, Preview

_TARGETS: Final = ("time", "first", "last", "offset")
_FIELDS: Final = ("topic", "target", "time", "time_utc", "offset", "queue")  # of a reset
SHOWN: Final = 200  # queues in the table of a preview; JSON has all
Form = Mapping[str, str]


@attrs.frozen
class OffsetForms:
    """The tab with the forms."""

    head: GroupHead
    targets: tuple[str, ...] = _TARGETS


@attrs.frozen
class QueueMove:
    """The offset of the group in one queue, now and then."""

    topic: str
    broker: str
    queue: int
    min_offset: Long
    max_offset: Long
    now: Long | None  # committed; None without a commit
    then: Long
    skipped: Long
    read_again: Long


@attrs.frozen
class ResetPreview:
    """Preview of a reset or a clone."""

    group: str
    source: str  # of a clone
    topics: tuple[str, ...]
    time_ms: int | None
    online: int
    by_members: bool  # whether the members set the offsets themselves, within ten seconds
    skipped: Long
    read_again: Long
    left_out: tuple[str, ...]  # brokers that do not know the group
    attributes_left_out: tuple[str, ...]
    queues: tuple[QueueMove, ...]
    total: int
    to_end: bool  # the target is the end of each queue

    @property
    def shown(self) -> tuple[QueueMove, ...]:
        """The queues that change first, at most `SHOWN`."""
        return tuple(sorted(self.queues, key=lambda each: not (each.skipped or each.read_again)))[:SHOWN]


@attrs.frozen
class OffsetDeletion:
    """The end of a group's offsets on one topic."""

    group: str
    topic: str
    brokers: tuple[str, ...]  # that have offsets


async def _preview_reset(context: RequestContext, form: Form) -> Preview:
    topic, target, queue = _topic(form), target_of(context, form), _queue(form)
    done = await _reset(context, topic, target, queue, dry_run=True)
    name = context.names["group"]
    command = f"group reset {quote(name)} -t {quote(topic)} --to {to_text(target)}" + (
        f" -q {queue}" if queue is not None else ""
    )
    data = _shown(name, "", (done,), target)
    return Preview("group_reset.html", data, command, name, _told(data), steady=steady_of((done,), target))


async def _run_reset(context: RequestContext, form: Form) -> Outcome:
    topic, target, queue = _topic(form), target_of(context, form), _queue(form)
    done = await _reset(context, topic, target, queue, dry_run=False)
    return await _outcome(context, "groups.was_reset", (done,))


async def _preview_clone(context: RequestContext, form: Form) -> Preview:
    source, group = context.names["group"], _clone_name(context, form)
    done = await _clone(context, form, group, dry_run=True)
    topic = form.get("topic", "").strip()
    command = f"group clone -s {quote(source)} -g {quote(group)}" + (f" -t {quote(topic)}" if topic else "")
    data = _shown(group, source, done, OffsetTarget())
    return Preview("group_reset.html", data, command, group, _told(data), steady=steady_of(done, OffsetTarget()))


async def _run_clone(context: RequestContext, form: Form) -> Outcome:
    done = await _clone(context, form, _clone_name(context, form), dry_run=False)
    return await _outcome(context, "groups.was_cloned", done, _clone_name(context, form))


async def _preview_deletion(context: RequestContext, form: Form) -> Preview:
    group, topic = context.names["group"], _topic(form)
    brokers = await _brokers_with_offsets(context, group, topic)
    if not brokers:
        raise BadInput("groups.no_offsets_on", group=group, topic=topic)
    command = f"group delete-offsets {quote(group)} -t {quote(topic)}"
    data = OffsetDeletion(group, topic, tuple(sorted(brokers)))
    return Preview("group_offsets_delete.html", data, command, group, f"deletes the offsets on {topic}")


async def _run_deletion(context: RequestContext, form: Form) -> Outcome:
    group, topic = context.names["group"], _topic(form)
    for address in (await _brokers_with_offsets(context, group, topic)).values():
        await delete_offsets(context.cluster.admin, address, group, topic)
    await forget_groups(context.cluster, group)
    return Outcome("groups.offsets_deleted", {"group": group, "topic": topic}, f"groups/{group}/offsets")


async def _brokers_with_offsets(context: RequestContext, group: str, topic: str) -> dict[str, str]:
    """Return the addresses of the brokers that know the group on the topic; others may be RocketMQ's."""
    admin = context.cluster.admin
    masters = (await context.cluster.masters()).items()
    return {name: address for name, address in masters if group in await admin.groups_of_topic(address, topic)}


ACTIONS: Final = (
    Action("/groups/{group}/offsets", "groups.reset", Role.OPERATOR, _run_reset, _preview_reset, fields=_FIELDS),
    Action(
        "/groups/{group}/clone",
        "groups.clone",
        Role.OPERATOR,
        _run_clone,
        _preview_clone,
        fields=("clone", "topic"),
        page="/groups/{group}/offsets",
    ),
    Action(
        "/groups/{group}/delete-offsets",
        "groups.delete_offsets",
        Role.OPERATOR,
        _run_deletion,
        _preview_deletion,
        fields=("topic",),
        page="/groups/{group}/offsets",
    ),
)


async def _reset(
    context: RequestContext, topic: str, target: OffsetTarget, queue: int | None, *, dry_run: bool
) -> OffsetReset:
    name = context.names["group"]
    try:
        return await context.cluster.admin.reset_offsets(name, topic, target, queue_id=queue, dry_run=dry_run)
    except GroupNotExist:
        raise NotFound("groups.none_there", group=name) from None


async def _clone(context: RequestContext, form: Form, group: str, *, dry_run: bool) -> tuple[OffsetReset, ...]:
    topic = form.get("topic", "").strip() or None
    return await context.cluster.admin.clone_offsets(context.names["group"], group, topic, dry_run=dry_run)


async def _outcome(context: RequestContext, key: str, done: tuple[OffsetReset, ...], group: str = "") -> Outcome:
    group = group or context.names["group"]
    await forget_groups(context.cluster, group)
    if any("members" in each.ways for each in done):
        key = f"{key}_by_members"
    fields = {
        "group": group,
        "skipped": sum(each.skipped for each in done),
        "again": sum(each.read_again for each in done),
    }
    return Outcome(key, fields, f"groups/{group}/queues", data=_shown(group, "", done, OffsetTarget()))


def _shown(group: str, source: str, done: tuple[OffsetReset, ...], target: OffsetTarget) -> ResetPreview:
    queues = tuple(_move(each.topic, move) for each in done for move in each.moves)
    return ResetPreview(
        group,
        source,
        tuple(each.topic for each in done),
        target.time_ms,
        max((each.online for each in done), default=0),
        any("members" in each.ways for each in done),
        Long(sum(each.skipped for each in done)),
        Long(sum(each.read_again for each in done)),
        tuple(sorted({broker for each in done for broker in each.left_out})),
        tuple(sorted({name for each in done for name in each.attributes_left_out})),
        queues,
        len(queues),
        target.edge == "latest",
    )


def _move(topic: str, move: OffsetMove) -> QueueMove:
    return QueueMove(
        topic,
        move.broker,
        move.queue_id,
        Long(move.min_offset),
        Long(move.max_offset),
        None if move.before is None else Long(move.before),
        Long(move.after),
        Long(max(0, move.skipped)),
        Long(max(0, -move.skipped)),
    )


def steady_of(done: tuple[OffsetReset, ...], target: OffsetTarget | None) -> list[object]:
    """Return the values that must not change before the confirmation.

    While members consume, and producers send, the numbers of a queue move all the time. So its present offset counts
    only if no member is online, and its end does not count if it is the target.
    """
    found: list[object] = []
    for each in done:
        for move in each.moves:
            now = move.before if not each.online else None
            then = move.after if target is None or target.edge != "latest" else None
            found.append([each.topic, move.broker, move.queue_id, now, then])
        found.append([each.online > 0, each.left_out])
    return found


def _told(data: ResetPreview) -> str:
    return f"{', '.join(data.topics)}: skips {int(data.skipped)}, reads {int(data.read_again)} again"


def _topic(form: Form) -> str:
    topic = form.get("topic", "").strip()
    if not topic:
        raise BadInput("groups.name_topic")
    return topic


def target_of(context: RequestContext, form: Form) -> OffsetTarget:
    """Return the target of a form. Raises BadInput: it names none."""
    kind = form.get("target", "time")
    if kind == "first":
        return OffsetTarget.earliest()
    if kind == "last":
        return OffsetTarget.latest()
    if kind == "offset":
        text = form.get("offset", "").strip()
        if not (text.isascii() and text.isdecimal() and len(text) < 19):
            raise BadInput("common.not_a_number", name="offset", value=text[:40], least=0, most=2**63 - 1)
        return OffsetTarget.at_offset(int(text))
    if kind != "time":
        raise BadInput("common.not_a_choice", name="target", value=kind[:40], choices=", ".join(_TARGETS))
    time_ms = moment_of(form, "time")
    if time_ms is None:
        raise BadInput("common.no_time")
    if time_ms > context.now_ms():
        raise BadInput("common.not_a_time", value=form.get("time", "")[:40])
    return OffsetTarget.at_time(time_ms)


def _queue(form: Form) -> int | None:
    text = form.get("queue", "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 6):
        raise BadInput("common.not_a_number", name="queue", value=text[:40], least=0, most=65_535)
    return int(text)


def to_text(target: OffsetTarget) -> str:
    """Return a target as the option --to of the command."""
    return target.edge or str(target.time_ms if target.time_ms is not None else target.queue_offset)


def _clone_name(context: RequestContext, form: Form) -> str:
    group = form.get("clone", "").strip()
    names.check_group(group)
    if group == context.names["group"]:
        raise BadInput("groups.same_group", group=group)
    return group
