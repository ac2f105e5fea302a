"""Topics: the list, one topic with its queues, groups, producers and settings, and changes of it."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Final

import attrs

from gantrymq.errors import NoRoute
from gantrymq.plugin import names
from gantrymq.plugin.model import TopicConfig
from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role
from gantrymq_console.data import topic, topics
from gantrymq_console.data.cluster import route_of
from gantrymq_console.data.table import oldest_ms
from gantrymq_console.data.topic import change_of, deletion_of, masters_of
from gantrymq_console.data.topics import forget_topics
from gantrymq_console.pages.history import with_history, with_sparks
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import Action, BadInput, Confirm, Outcome, Page, Preview, Section, View, outcome_of

_MESSAGE_TYPES: Final = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")
_MOST_QUEUES: Final = 65_535
_PERMISSIONS: Final = ("6", "4", "2")
_FIELDS: Final = ("read_queues", "write_queues", "perm", "message_type", "order", "reserve_hours", "reserve_was")
_HOUR_MS: Final = 3_600_000
_ROUTE_LOOKS: Final = 10
_ROUTE_WAIT_S: Final = 0.2
Form = Mapping[str, str]
_NAV: Final = "topics"


@attrs.frozen
class NewTopic:
    """The form of a new topic."""

    clusters: tuple[str, ...]
    name: str
    message_types: tuple[str, ...] = _MESSAGE_TYPES


async def new(context: RequestContext) -> View:
    """Show the form of a new topic."""
    brokers = await Asking(context.console.world.clock).needed(context.cluster.brokers())
    clusters = tuple(sorted({each.cluster for each in brokers}))
    return View("topic_new.html", NewTopic(clusters, context.text("name")))


async def _preview_new(context: RequestContext, form: Form) -> Preview:
    config = _config(form, form.get("topic", "").strip())
    names.check_topic(config.name)
    found = await change_of(context.cluster.admin, await masters_of(context.cluster, form.get("cluster", "")), config)
    if not found.new:
        raise BadInput("topics.exists", topic=config.name)
    change = f"{config.read_queues} read and {config.write_queues} write queues"
    return Preview("topic_change.html", found, _command(config), config.name, change)


async def _create(context: RequestContext, form: Form) -> Outcome:
    config = _config(form, form.get("topic", "").strip())
    await _apply(context, config, form.get("cluster", ""))
    await _wait_for_route(context, config.name)
    return Outcome("topics.created", {"topic": config.name}, f"topics/{config.name}")


async def _preview_change(context: RequestContext, form: Form) -> Preview:
    config = _config(form, context.names["topic"])
    found = await change_of(context.cluster.admin, await _masters(context), config)
    found = attrs.evolve(found, gone=tuple(await _gone(context)))
    if found.new:
        raise BadInput("topics.none_there", topic=config.name)
    if not any(each.changes for each in found.brokers):
        raise BadInput("topics.nothing_changes")
    command = _command(config) + (" --fewer-queues" if found.hidden else "")
    told = [f"{key} {old or '-'} -> {value or '-'}" for each in found.brokers[:1] for key, old, value in each.changes]
    hidden = [f"hides {int(found.hidden)} messages"] if found.hidden else []
    return Preview("topic_change.html", found, command, config.name, ", ".join(told + hidden))


async def _change(context: RequestContext, form: Form) -> Outcome:
    config = _config(form, context.names["topic"])
    for address in (await _masters(context)).values():
        await context.cluster.admin.create_topic(address, config)
    forget_topics(context.cluster, config.name)
    return outcome_of("topics.changed", "topic", config.name, f"topics/{config.name}/settings", await _gone(context))


async def _preview_deletion(context: RequestContext, form: Form) -> Preview:
    name = context.names["topic"]
    found = await deletion_of(context.cluster, Asking(context.console.world.clock), name)
    members = [(group, online) for group, online, _ in found.groups]
    change = f"deletes {found.messages if found.messages is not None else 'an unknown number of'} messages"
    return Preview(
        "topic_delete.html", found, f"topic delete -t {quote(name)}", name, change, steady=[members, found.gone]
    )


async def _delete(context: RequestContext, form: Form) -> Outcome:
    name, admin = context.names["topic"], context.cluster.admin
    gone = await _gone(context)
    for cluster in await admin.topic_clusters(name):
        await admin.delete_topic(name, cluster)
    forget_topics(context.cluster, name)
    return outcome_of("topics.deleted", "topic", name, "topics", gone)


ACTIONS: Final = (
    Action("/new/topic", "topics.create", Role.OPERATOR, _create, _preview_new, fields=("topic", "cluster", *_FIELDS)),
    Action("/topics/{topic}/settings", "topics.change", Role.OPERATOR, _change, _preview_change, fields=_FIELDS),
    Action("/topics/{topic}/delete", "topics.delete", Role.ADMIN, _delete, _preview_deletion, Confirm.TYPE_NAME),
)


async def _gone(context: RequestContext) -> list[str]:
    """Return the brokers that are gone and may have the topic of the address."""
    asking = Asking(context.console.world.clock)
    await route_of(context.cluster, asking, context.names["topic"])
    return [each.what for each in asking.missing]


async def _masters(context: RequestContext) -> dict[str, str]:
    """Return the masters that have the topic of the address."""
    route = await context.cluster.admin.route(context.names["topic"])
    return {each.name: each.master for each in route.brokers if each.master is not None}


async def _wait_for_route(context: RequestContext, topic: str) -> None:
    """Wait until name servers know a new topic, which takes a moment, so that the next page can show it."""
    for _ in range(_ROUTE_LOOKS):
        try:
            await context.cluster.admin.route(topic)
        except NoRoute:
            await context.console.world.clock.sleep(_ROUTE_WAIT_S)
        else:
            return


async def _apply(context: RequestContext, config: TopicConfig, cluster: str) -> None:
    for address in (await masters_of(context.cluster, cluster)).values():
        await context.cluster.admin.create_topic(address, config)
    forget_topics(context.cluster, config.name)


def _config(form: Form, name: str) -> TopicConfig:
    """Return the settings of a form. Raises BadInput: a field cannot be used."""
    perm = form.get("perm", "6")
    if perm not in _PERMISSIONS:
        raise BadInput("common.not_a_choice", name="perm", value=perm[:40], choices=", ".join(_PERMISSIONS))
    attributes: dict[str, str] = {}
    kind = form.get("message_type", "")
    if kind and kind not in _MESSAGE_TYPES:
        raise BadInput("common.not_a_choice", name="message_type", value=kind[:40], choices=", ".join(_MESSAGE_TYPES))
    if kind:
        attributes["+message.type"] = kind
    keep = form.get("reserve_hours", "").strip()
    if keep:
        attributes["+reserve.time"] = str(_hours_in_ms(keep))
    elif form.get("reserve_was"):
        attributes["-reserve.time"] = ""
    read = _number(form, "read_queues", 1, _MOST_QUEUES)
    write = _number(form, "write_queues", 1, _MOST_QUEUES) if form.get("write_queues", "").strip() else read
    return TopicConfig(name, read, write, int(perm), order=form.get("order") == "on", attributes=attributes)


def _number(form: Form, name: str, least: int, most: int) -> int:
    text = form.get(name, "").strip()
    if not (text.isascii() and text.isdecimal() and least <= int(text[:20]) <= most):
        raise BadInput("common.not_a_number", name=name, value=text[:40], least=least, most=most)
    return int(text)


def _hours_in_ms(text: str) -> int:
    try:
        ms = round(float(text) * _HOUR_MS)
    except (ValueError, OverflowError):
        ms = 0
    if not 1 <= ms <= 1_000_000 * _HOUR_MS:
        raise BadInput("topics.not_hours", value=text[:40])
    return ms


def _command(config: TopicConfig) -> str:
    found = f"topic create -t {quote(config.name)} -r {config.read_queues} -w {config.write_queues} -p {config.perm}"
    return found + "".join(f" -a {key}={value}" if value else f" -a {key}" for key, value in config.attributes.items())


async def topic_list(context: RequestContext) -> View:
    """Show a page of the topics whose names contain the filter."""
    asking = Asking(context.console.world.clock)
    data = await topics.topic_list(context.cluster, asking, context.list_query("kind", topics.KINDS, topics.SORTS))
    command = {"user": "topic list", "all": "topic list --all"}.get(data.kind, "") if not data.filter else ""
    view = View("topics.html", data, command, asking.missing, oldest_ms(data.topics))
    return await with_sparks(context, view, "topic", [each.name for each in data.topics], "in")


async def queues(context: RequestContext) -> View:
    """Show the queues of a topic."""
    asking, name = Asking(context.console.world.clock), context.names["topic"]
    data = await topic.topic_queues(context.cluster, asking, name, context.start, context.rows)
    view = View("topic_queues.html", data, f"topic status -t {quote(name)}", asking.missing, title=name)
    return await with_history(context, view, "topic", name)


async def groups(context: RequestContext) -> View:
    """Show the groups that consume a topic, and their members."""
    asking, name = Asking(context.console.world.clock), context.names["topic"]
    data = await topic.topic_groups(context.cluster, asking, name, context.start, context.rows)
    command = f"group progress -g {quote(data.groups[0].group)} -t {quote(name)}" if data.total == 1 else ""
    return View("topic_groups.html", data, command, asking.missing, title=name)


async def producers(context: RequestContext) -> View:
    """Show the producers that are connected to the brokers of a topic."""
    asking, name = Asking(context.console.world.clock), context.names["topic"]
    data = await topic.topic_producers(context.cluster, asking, name, context.start, context.rows)
    return View("topic_producers.html", data, "", asking.missing, title=name)


async def settings(context: RequestContext) -> View:
    """Show the settings of a topic, with forms to change and to delete it."""
    asking, name = Asking(context.console.world.clock), context.names["topic"]
    data = await topic.topic_settings(context.cluster, asking, name)
    return View("topic_settings.html", data, f"topic route -t {quote(name)}", asking.missing, title=name)


SECTION = Section(
    pages=(
        Page("/topics", "topics.title", Role.VIEWER, topic_list, nav=_NAV),
        Page("/new/topic", "topics.new", Role.OPERATOR, new, refresh_s=None, nav=_NAV),
        Page("/topics/{topic}", "topics.queues_title", Role.VIEWER, queues, nav=_NAV),
        Page("/topics/{topic}/groups", "topics.groups_title", Role.VIEWER, groups, nav=_NAV),
        Page("/topics/{topic}/producers", "topics.producers_title", Role.VIEWER, producers, nav=_NAV),
        Page("/topics/{topic}/settings", "topics.settings_title", Role.VIEWER, settings, refresh_s=None, nav=_NAV),
    ),
    actions=(*ACTIONS,),
)
