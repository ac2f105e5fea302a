"""Consumer groups: the list, one group with findings, queues, members and settings, and changes except of offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from shlex import quote
from typing import Final

import attrs

from gantrymq.plugin import names
from gantrymq.plugin.model import GroupConfig
from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role
from gantrymq_console.data import group, group_changes, group_overview, groups, members
from gantrymq_console.data.group import GroupHead, GroupReports, head_of
from gantrymq_console.data.groups import forget_groups
from gantrymq_console.data.table import oldest_ms
from gantrymq_console.data.topic import masters_of
from gantrymq_console.pages import group_offsets
from gantrymq_console.pages.history import with_history, with_sparks
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import (
    Action,
    BadInput,
    Confirm,
    Forbidden,
    Outcome,
    Page,
    Preview,
    Section,
    View,
    outcome_of,
)

_FIELDS: Final = (
    "retry_max_times",
    "retry_queues",
    "consume_enable",
    "consume_broadcast_enable",
    "consume_message_orderly",
)
"""Names of the form of a group's settings."""


Form = Mapping[str, str]
Changes = tuple[tuple[str, str, str], ...]  # setting, old and new value
_NAV: Final = "groups"


@attrs.frozen
class NewGroup:
    """The form of a new group."""

    clusters: tuple[str, ...]
    name: str
    config: GroupConfig


@attrs.frozen
class BrokerConfig:
    """The settings of a group at one broker."""

    broker: str
    config: GroupConfig


@attrs.frozen
class GroupSettings:
    """The tab with the settings."""

    head: GroupHead
    brokers: tuple[BrokerConfig, ...]


@attrs.frozen
class GroupChange:
    """A change of a group, by broker name."""

    group: str
    new: bool
    brokers: tuple[tuple[str, Changes], ...]
    members: int | None
    lag: int | None
    stops: bool  # whether it stops consumption
    gone: tuple[str, ...] = ()  # brokers that the change does not reach


@attrs.frozen
class GroupDeletion:
    """The end of a group."""

    group: str
    members: int | None
    lag: int | None
    brokers: tuple[str, ...]
    clean_offsets: bool
    gone: tuple[str, ...] = ()  # brokers that the deletion does not reach


def settings_of(reports: GroupReports) -> GroupSettings:
    """Return the settings of a group."""
    found = tuple(
        BrokerConfig(broker, part.config) for broker, part in reports.brokers.items() if part.config is not None
    )
    return GroupSettings(head_of(reports), found)


async def new(context: RequestContext) -> View:
    """Show the form of a new group."""
    brokers = await Asking(context.console.world.clock).needed(context.cluster.brokers())
    clusters = tuple(sorted({each.cluster for each in brokers}))
    return View("group_new.html", NewGroup(clusters, context.text("name"), GroupConfig("")))


async def _preview_new(context: RequestContext, form: Form) -> Preview:
    config = _config(form, GroupConfig(form.get("group", "").strip()))
    names.check_group(config.name)
    masters = await masters_of(context.cluster, form.get("cluster", ""))
    for address in masters.values():
        if config.name in await context.cluster.admin.groups(address):
            raise BadInput("groups.exists", group=config.name)
    changes = tuple((key, "", value) for key, value in _shown(config).items())
    data = GroupChange(config.name, True, tuple((name, changes) for name in masters), None, None, False)
    return Preview("group_change.html", data, command_of(config), config.name, "creates the group")


async def _create(context: RequestContext, form: Form) -> Outcome:
    config = _config(form, GroupConfig(form.get("group", "").strip()))
    for address in (await masters_of(context.cluster, form.get("cluster", ""))).values():
        await context.cluster.admin.create_group(address, config)
    await forget_groups(context.cluster, config.name)
    return Outcome("groups.created", {"group": config.name}, f"groups/{config.name}")


async def _preview_change(change: str, context: RequestContext, form: Form) -> Preview:
    reports, gone = await group_changes.reports_to_change(context.cluster, context.names["group"])
    brokers: list[tuple[str, Changes]] = []
    for broker, part in reports.brokers.items():
        if part.config is not None:
            old, wanted = _shown(part.config), _shown(_wanted(change, form, part.config))
            brokers.append((broker, tuple((key, old[key], new) for key, new in wanted.items() if new != old[key])))
    if not any(each for _, each in brokers):
        raise BadInput("groups.nothing_changes")
    head = head_of(reports)
    stops = any(pair == ("consume_enable", "true", "false") for _, each in brokers for pair in each)
    data = GroupChange(reports.name, False, tuple(brokers), head.members, head.lag, stops, gone)
    told = ", ".join(f"{key} {old} -> {value}" for _, each in brokers[:1] for key, old, value in each)
    wanted_config = _wanted(change, form, next(part.config for part in reports.brokers.values() if part.config))
    return Preview("group_change.html", data, command_of(wanted_config), reports.name, told, steady=[brokers, gone])


async def _change(change: str, context: RequestContext, form: Form) -> Outcome:
    name = context.names["group"]
    gone = await group_changes.change_settings(context.cluster, name, lambda config: _wanted(change, form, config))
    key = {"settings": "groups.changed", "stop": "groups.stopped", "allow": "groups.allowed"}[change]
    return outcome_of(key, "group", name, f"groups/{name}/settings", gone)


async def _preview_deletion(context: RequestContext, form: Form) -> Preview:
    reports, gone = await group_changes.reports_to_change(context.cluster, context.names["group"])
    head, clean = head_of(reports), form.get("clean_offsets") == "on"
    data = GroupDeletion(reports.name, head.members, head.lag, tuple(reports.brokers), clean, gone)
    command = f"group delete {quote(reports.name)}" + (" --clean-offsets" if clean else "")
    change = "deletes the group and its offsets" if clean else "deletes the group"
    return Preview("group_delete.html", data, command, reports.name, change, steady=[head.members, clean, gone])


async def _delete(context: RequestContext, form: Form) -> Outcome:
    name, clean = context.names["group"], form.get("clean_offsets") == "on"
    gone = await group_changes.delete(context.cluster, name, clean_offsets=clean)
    return outcome_of("groups.deleted", "group", name, "groups", gone)


def _changing(change: str, path: str, fields: Sequence[str] = ()) -> Action:
    title = {"settings": "groups.change", "stop": "groups.stop", "allow": "groups.allow"}[change]
    return Action(path, title, Role.OPERATOR, partial(_change, change), partial(_preview_change, change), fields=fields)


_ACTIONS: Final = (
    Action("/new/group", "groups.create", Role.OPERATOR, _create, _preview_new, fields=("group", "cluster", *_FIELDS)),
    _changing("settings", "/groups/{group}/settings", _FIELDS),
    _changing("stop", "/groups/{group}/stop"),
    _changing("allow", "/groups/{group}/allow"),
    Action(
        "/groups/{group}/delete",
        "groups.delete",
        Role.ADMIN,
        _delete,
        _preview_deletion,
        Confirm.TYPE_NAME,
        ("clean_offsets",),
    ),
)


def _wanted(change: str, form: Form, config: GroupConfig) -> GroupConfig:
    if change == "settings":
        return _config(form, config)
    return attrs.evolve(config, consume_enable=change == "allow")


def _config(form: Form, config: GroupConfig) -> GroupConfig:
    """Return *config* with the fields of a form. Raises BadInput: a field cannot be used."""
    return attrs.evolve(
        config,
        retry_max_times=_number(form, "retry_max_times", 16, -1, 2**31 - 1),
        retry_queues=_number(form, "retry_queues", 1, 0, 65_535),
        consume_enable=form.get("consume_enable") == "on",
        consume_broadcast_enable=form.get("consume_broadcast_enable") == "on",
        consume_message_orderly=form.get("consume_message_orderly") == "on",
    )


def _number(form: Form, name: str, default: int, least: int, most: int) -> int:
    text = form.get(name, "").strip()
    if not text:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and least <= int(text[:20]) <= most):
        raise BadInput("common.not_a_number", name=name, value=text[:40], least=least, most=most)
    return int(text)


def _shown(config: GroupConfig) -> dict[str, str]:
    def flag(value: bool) -> str:
        return "true" if value else "false"

    return {
        "consume_enable": flag(config.consume_enable),
        "consume_broadcast_enable": flag(config.consume_broadcast_enable),
        "consume_message_orderly": flag(config.consume_message_orderly),
        "retry_max_times": str(config.retry_max_times),
        "retry_queues": str(config.retry_queues),
    }


def command_of(config: GroupConfig) -> str:
    """Return the command that gives a group these settings."""
    consume = "--consume" if config.consume_enable else "--no-consume"
    broadcast = "--broadcast" if config.consume_broadcast_enable else "--no-broadcast"
    orderly = "--orderly" if config.consume_message_orderly else "--no-orderly"
    return (
        f"group create {quote(config.name)} {consume} {broadcast} {orderly} -q {config.retry_queues} "
        f"-r {config.retry_max_times}"
    )


async def group_list(context: RequestContext) -> View:
    """Show a page of the groups whose names contain the filter, those furthest behind first."""
    asking = Asking(context.console.world.clock)
    data = await groups.group_list(context.cluster, asking, context.list_query("kind", groups.KINDS, groups.SORTS))
    command = ("group list" if data.kind == "user" else "group list --all") if not data.filter else ""
    view = View("groups.html", data, command, asking.missing, oldest_ms(data.groups))
    return await with_sparks(context, view, "group", [each.name for each in data.groups], "lag")


async def overview(context: RequestContext) -> View:
    """Show why a group receives nothing, and its lag by topic."""
    asking, name = Asking(context.console.world.clock), context.names["group"]
    data = group_overview.overview_of(await _reports(context, asking))
    view = View("group.html", data, f"group explain {quote(name)}", asking.missing, title=name)
    return await with_history(context, view, "group", name)


async def queues(context: RequestContext) -> View:
    """Show the queues of a group, those with the largest lag first."""
    asking, name = Asking(context.console.world.clock), context.names["group"]
    topic = context.text("topic")
    data = group.queues_of(await _reports(context, asking), topic, context.start, context.rows)
    command = f"group progress {quote(name)}" + (f" -t {quote(topic)}" if topic else "")
    return View("group_queues.html", data, command, asking.missing, title=name)


async def group_members(context: RequestContext) -> View:
    """Show the members of a group, their subscriptions and conflicts."""
    asking, name = Asking(context.console.world.clock), context.names["group"]
    data = members.members_of(await _reports(context, asking), context.start, context.rows)
    return View("group_members.html", data, f"group clients {quote(name)}", asking.missing, title=name)


async def member(context: RequestContext) -> View:
    """Show the running information of one member, with thread stacks for operators."""
    asking, name = Asking(context.console.world.clock), context.names["group"]
    client_id, stacks = context.text("id"), context.text("stacks") == "yes"
    if stacks and not context.may(Role.OPERATOR):
        raise Forbidden("common.forbidden", role=Role.OPERATOR.word, user=context.user.name, own=context.user.role.word)
    data = await members.member_state(context.cluster, asking, name, client_id, stacks=stacks)
    return View("group_member.html", data, f"group clients {quote(name)}", asking.missing, title=client_id)


async def settings(context: RequestContext) -> View:
    """Show the settings of a group at each broker, with forms to change and to delete it."""
    asking, name = Asking(context.console.world.clock), context.names["group"]
    data = settings_of(await _reports(context, asking))
    return View("group_settings.html", data, "group list", asking.missing, title=name)


async def offsets(context: RequestContext) -> View:
    """Show the forms that set offsets."""
    asking, name = Asking(context.console.world.clock), context.names["group"]
    data = group.head_of(await _reports(context, asking))
    command = f"group progress {quote(name)}"
    return View("group_offsets.html", group_offsets.OffsetForms(data), command, asking.missing, title=name)


async def _reports(context: RequestContext, asking: Asking) -> group.GroupReports:
    return await group_changes.reports_of(context.cluster, asking, context.names["group"])


SECTION = Section(
    pages=(
        Page("/groups", "groups.title", Role.VIEWER, group_list, nav=_NAV),
        Page("/new/group", "groups.new", Role.OPERATOR, new, refresh_s=None, nav=_NAV),
        Page("/groups/{group}", "groups.overview_title", Role.VIEWER, overview, nav=_NAV),
        Page("/groups/{group}/queues", "groups.queues_title", Role.VIEWER, queues, nav=_NAV),
        Page("/groups/{group}/members", "groups.members_title", Role.VIEWER, group_members, nav=_NAV),
        Page("/groups/{group}/member", "groups.member_title", Role.VIEWER, member, refresh_s=None, nav=_NAV),
        Page("/groups/{group}/offsets", "groups.offsets_title", Role.OPERATOR, offsets, refresh_s=None, nav=_NAV),
        Page("/groups/{group}/settings", "groups.settings_title", Role.VIEWER, settings, refresh_s=None, nav=_NAV),
    ),
    actions=(
        *_ACTIONS,
        *group_offsets.ACTIONS,
    ),
)
