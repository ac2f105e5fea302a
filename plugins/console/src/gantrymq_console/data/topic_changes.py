"""Previews of creating, changing and deleting a topic."""

from __future__ import annotations

import attrs

from gantrymq.client import Admin
from gantrymq.plugin.model import TopicConfig
from gantrymq_admin.asking import Asking
from gantrymq_admin.topic_queues import hidden_messages, present_topic
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.topic import topic_groups
from gantrymq_console.web.pages import BadInput
from gantrymq_console.web.values import Long

__all__ = ["BrokerChange", "TopicChange", "TopicDeletion", "change_of", "deletion_of", "masters_of"]


@attrs.frozen
class BrokerChange:
    """A change of a topic's settings at one broker."""

    broker: str
    changes: tuple[tuple[str, str, str], ...]  # setting, old and new value; old is empty for a new topic
    hidden: Long  # messages in queues that consumers would not see any more


@attrs.frozen
class TopicChange:
    """A change of a topic."""

    topic: str
    new: bool
    brokers: tuple[BrokerChange, ...]
    hidden: Long
    first_write: int | None  # number of write queues for the first of two steps that hide nothing
    gone: tuple[str, ...] = ()  # brokers that the change does not reach


@attrs.frozen
class TopicDeletion:
    """The end of a topic."""

    topic: str
    messages: Long | None
    groups: tuple[tuple[str, int | None, Long | None], ...]  # name, members, unread messages
    groups_total: int
    unread: Long | None
    partial: bool = False  # whether a broker did not answer: there may be more groups
    gone: tuple[str, ...] = ()  # brokers that the deletion does not reach, which keep the topic if they have it


async def masters_of(cluster: Cluster, named: str) -> dict[str, str]:
    """Return the masters of the cluster *named*, or of the only one, by broker name. Raises BadInput: not clear."""
    brokers = [each for each in await cluster.brokers() if each.broker_id == 0]
    clusters = sorted({each.cluster for each in brokers})
    if (named and named not in clusters) or (not named and len(clusters) != 1):
        raise BadInput("topics.which_cluster", clusters=", ".join(clusters) or "-")
    return {each.name: each.address for each in brokers if not named or each.cluster == named}


async def change_of(admin: Admin, masters: dict[str, str], wanted: TopicConfig) -> TopicChange:
    """Return the changes at *masters* that make the topic *wanted*; its attributes begin with ``+`` or ``-``."""
    brokers = []
    first_write: int | None = None
    new = True
    for name, address in masters.items():
        present = await present_topic(admin, address, wanted.name)
        hidden = 0
        if present is None:
            pairs = [(key, "", value) for key, value in _shown(wanted).items()]
            pairs += [(key.lstrip("+"), "", value) for key, value in wanted.attributes.items() if key.startswith("+")]
        else:
            new = False
            old = _shown(present)
            pairs = [(key, old[key], value) for key, value in _shown(wanted).items() if value != old[key]]
            pairs += _attribute_changes(present, wanted)
            gone = await hidden_messages(admin, address, present, wanted)
            hidden = gone.messages if gone is not None else 0
            if wanted.read_queues < present.read_queues and present.write_queues > wanted.read_queues:
                first_write = min(first_write or wanted.read_queues, wanted.read_queues)
        brokers.append(BrokerChange(name, tuple(pairs), Long(hidden)))
    total = sum(each.hidden for each in brokers)
    return TopicChange(wanted.name, new, tuple(brokers), Long(total), first_write)


async def deletion_of(cluster: Cluster, asking: Asking, topic: str) -> TopicDeletion:
    """Return the data that would be lost with a topic. Raises NoRoute."""
    found = await topic_groups(cluster, asking, topic, 0, 200)
    listed = tuple((each.group, each.members, None if each.partial else each.lag) for each in found.groups)
    lags = [lag for _, _, lag in listed]
    unread = None if any(each is None for each in lags) else Long(sum(each for each in lags if each is not None))
    messages = None if found.head.partial else found.head.messages
    gone = tuple(sorted({each.what for each in asking.missing}))
    return TopicDeletion(topic, messages, listed, found.total, unread, found.partial or found.head.partial, gone)


def _shown(config: TopicConfig) -> dict[str, str]:
    return {
        "read_queues": str(config.read_queues),
        "write_queues": str(config.write_queues),
        "perm": str(config.perm),
        "order": "true" if config.order else "false",
    }


def _attribute_changes(present: TopicConfig, wanted: TopicConfig) -> list[tuple[str, str, str]]:
    found = []
    for key, value in wanted.attributes.items():
        name = key[1:]
        old, new = present.attributes.get(name, ""), value if key.startswith("+") else ""
        if old != new:
            found.append((name, old, new))
    return found
