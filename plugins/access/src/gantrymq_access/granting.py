"""Entries that a client needs for a task: producing, consuming, monitoring, operating, or a named right.

A retry topic counts as its group, so a consumer needs no entry for it. Entries replace each other by resource: a grant
adds actions to the entry that exists, and never weakens or widens an entry that denies or is bound to addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from gantrymq.errors import InvalidParameter
from gantrymq.plugin import names
from gantrymq_access.records import Entry, EntryAction, EntryResource, EntryType

_READ: Final = (EntryAction.SUB, EntryAction.GET)
_OPERATE: Final = (EntryAction.CREATE, EntryAction.UPDATE, EntryAction.DELETE, EntryAction.GET)
_ORDER: Final = {action: place for place, action in enumerate(EntryAction)}


@attrs.frozen
class Task:
    """What a client will do."""

    produce: Sequence[str] = ()  # topics, or prefixes with an asterisk
    consume: Sequence[str] = ()
    groups: Sequence[str] = ()  # in which it consumes
    reply: bool = False  # it answers requests of other clients
    trace: bool = True  # it may send message traces
    monitor: bool = False
    operate: bool = False
    resources: Sequence[EntryResource] = ()  # on which it needs `actions`
    actions: Sequence[EntryAction] = ()


@attrs.frozen
class Need:
    """An entry that a task needs, and the reason."""

    resource: EntryResource
    actions: tuple[EntryAction, ...]
    reason: str

    def entry(self, sources: Sequence[str]) -> Entry:
        """Return the entry that allows it, from some addresses or from all."""
        return Entry(self.resource, self.actions, True, tuple(sources))


def needs_of(task: Task, cluster: str) -> tuple[Need, ...]:
    """Return what a client needs for a task, one need per resource.

    Args:
        task: what it does.
        cluster: name of the cluster of the brokers.

    Raises:
        InvalidParameter: it is no task, or topics to consume without a group.
    """
    if task.consume and not task.groups:
        raise InvalidParameter("a consumer needs a group: add --group GROUP to --consume")
    if task.groups and not task.consume:
        raise InvalidParameter("--group names the group of a consumer: add --consume TOPIC")
    if bool(task.resources) != bool(task.actions):
        raise InvalidParameter("--resource and --actions belong together: -r Topic:Orders -a Get")
    if task.reply and not task.consume:
        raise InvalidParameter("--reply is for a consumer that answers requests: add --consume TOPIC")
    found = list(_of_clients(task, cluster))
    if task.monitor or task.operate:
        found += _of_operators(task, cluster)
    found += [Need(each, tuple(task.actions), "as named") for each in task.resources]
    if not found:
        raise InvalidParameter(
            "say what the user does: --produce, --consume with --group, --monitor, --operate, or -r with -a"
        )
    return _by_resource(found)


def _of_clients(task: Task, cluster: str) -> Iterable[Need]:
    for topic in task.produce:
        yield _need(EntryType.TOPIC, topic, (EntryAction.PUB,), "send, also in transactions")
    for topic in task.consume:
        yield _need(EntryType.TOPIC, topic, _READ, "receive; Get: offsets by time, first and last offset")
    for group in task.groups:
        yield _need(EntryType.GROUP, group, _READ, "be a member, commit, retry; Get: offsets of the group")
    if task.reply:
        topic = f"{cluster}_REPLY_TOPIC"
        yield _need(EntryType.TOPIC, topic, (EntryAction.PUB,), "answer requests")
    if task.trace and (task.produce or task.consume):
        yield _need(EntryType.TOPIC, names.TRACE_TOPIC, (EntryAction.PUB,), "send message traces")


def _of_operators(task: Task, cluster: str) -> Iterable[Need]:
    read = (EntryAction.GET,)
    on_cluster = (EntryAction.UPDATE, EntryAction.GET) if task.operate else read
    on_rest = _OPERATE if task.operate else read
    of_what = "change settings, users and topics" if task.operate else "read settings and figures"
    yield _need(EntryType.CLUSTER, cluster, on_cluster, of_what)
    yield _need(EntryType.TOPIC, "*", on_rest, "create, change, delete, read topics" if task.operate else "read topics")
    yield _need(EntryType.GROUP, "*", on_rest, "create, change, delete, read groups" if task.operate else "read groups")


def _need(kind: EntryType, name: str, actions: tuple[EntryAction, ...], reason: str) -> Need:
    return Need(EntryResource.parse(f"{kind.value}:{name}"), actions, reason)


def _by_resource(needs: Iterable[Need]) -> tuple[Need, ...]:
    """Return *needs* with those of one resource joined."""
    found: dict[EntryResource, Need] = {}
    for need in needs:
        known = found.get(need.resource)
        if known is not None:
            reason = known.reason if need.reason in known.reason else f"{known.reason}; {need.reason}"
            need = Need(need.resource, _joined(known.actions, need.actions), reason)
        found[need.resource] = need
    return tuple(found.values())


def _joined(*actions: Sequence[EntryAction]) -> tuple[EntryAction, ...]:
    return tuple(sorted({each for some in actions for each in some}, key=_ORDER.__getitem__))


def granted(existing: Sequence[Entry], need: Need, sources: Sequence[str]) -> Entry | None:
    """Return the entry to write so that *need* is allowed, or None if the entry of its resource allows it already.

    Args:
        existing: entries of the user's custom policy at one broker.
        need: what is to be allowed.
        sources: networks from which it is allowed; empty for all.

    Raises:
        InvalidParameter: the entry of the resource denies something, or is bound to other addresses. It would have to
            be replaced, which a grant does not do.
    """
    known = next((each for each in existing if each.resource == need.resource), None)
    if known is None:
        return need.entry(sources)
    if not known.is_allowed:
        raise InvalidParameter(f"there is an entry that denies: {known}")
    if set(known.sources) != set(sources):
        raise InvalidParameter(f"there is an entry for other addresses: {known}")
    if EntryAction.ALL in known.actions or set(need.actions) <= set(known.actions):
        return None
    return attrs.evolve(known, actions=_joined(known.actions, need.actions))
