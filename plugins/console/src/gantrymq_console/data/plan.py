"""Which member of a group would read which queue of a topic, with another number of members."""

from __future__ import annotations

import attrs

from gantrymq.client.group.allocation import allocation_strategy
from gantrymq.model.queue import MessageQueue
from gantrymq_admin.group_moves import Plan, in_words, make_plan
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.group import GroupFacts, GroupHead, head_of

__all__ = ["GroupPlan", "plan_of"]


@attrs.frozen
class Share:
    """The queues of one member, by broker."""

    member: str
    change: str  # "joins", "leaves" or empty
    before: str
    after: str
    queues_after: int


@attrs.frozen
class GroupPlan:
    """An assignment, and the moves to it."""

    head: GroupHead
    topic: str  # empty: the group consumes no topic
    strategy: str
    online: int
    members: int  # planned
    queues: int
    moves: int
    unread: str  # queues without a reader, by broker
    shares: tuple[Share, ...]


async def plan_of(
    cluster: Cluster, facts: GroupFacts, topic: str, members: int | None, strategy_name: str
) -> GroupPlan:
    """Return the assignment for *members*, those that are online for None; the first topic for an empty *topic*.

    Raises:
        PluginAbsent: no plugin provides the strategy.
        NoRoute: no name server knows the topic.
    """
    head = head_of(facts)
    topic = topic or next(iter(head.topics), "")
    online = sorted(
        {client.client_id for part in facts.brokers.values() if part.online for client in part.online.clients}
    )
    count = len(online) if members is None else members
    if not topic:
        return GroupPlan(head, "", strategy_name, len(online), count, 0, 0, "", ())
    route = await cluster.admin.route(topic)
    queues = list(route.readable_queues(topic))
    after = [*online[:count], *(f"new-{number + 1}" for number in range(count - len(online)))]
    made = await cluster.world.workers.run(lambda: _plan(strategy_name, facts.name, queues, online, after))
    shares = tuple(
        Share(
            member,
            "joins" if member not in made.before else "" if member in made.after else "leaves",
            in_words(made.before.get(member, ())),
            in_words(made.after.get(member, ())),
            len(made.after.get(member, ())),
        )
        for member in made.members
    )
    unread = made.unread() if after else queues
    return GroupPlan(
        head,
        topic,
        strategy_name,
        len(online),
        count,
        len(queues),
        len(made.moves()),
        in_words(unread) if unread else "",
        shares,
    )


def _plan(strategy: str, group: str, queues: list[MessageQueue], before: list[str], after: list[str]) -> Plan:
    return make_plan(allocation_strategy(strategy, {}, lambda _: None), group, queues, before, after)
