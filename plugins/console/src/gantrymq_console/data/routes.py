"""The route of a topic, with the brokers that name servers have forgotten.

A name server drops a broker that stopped or is not heard of, and with it all that the broker has: a topic without that
broker's queues, or no topic at all. The console still knows the broker, so that nothing is shown as complete without
it.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from gantrymq.client.routing.routes import TopicRoute
from gantrymq.errors import NoRoute
from gantrymq_admin.asking import Asking, Missing
from gantrymq_admin.slaves import asked_slave
from gantrymq_console.data.cluster import Cluster

__all__ = ["RouteUnknown", "note_gone", "readers_of", "route_of"]

AS_OF_AGE_S: Final = 5.0
AS_OF_SHARE: Final = 0.3  # of the time of a page
GONE: Final = "not registered at the name servers any more"


class RouteUnknown(NoRoute):
    """No name server knows the topic, but a broker that may have it is gone."""


async def route_of(cluster: Cluster, asking: Asking, topic: str) -> TopicRoute:
    """Return the route of a topic; masters that are gone and not in it are added to `Asking.missing`.

    Raises:
        RouteUnknown: no name server knows the topic, and a broker is gone.
        NoRoute: no name server knows the topic.
        ClientError: no name server answers.
    """
    try:
        route = await asking.needed(cluster.admin.route(topic))
    except NoRoute as problem:
        gone = await note_gone(cluster, asking)
        if not gone:
            raise
        raise RouteUnknown(f"{problem}; unknown: {', '.join(gone)} is {GONE}") from problem
    await note_gone(cluster, asking, {each.name for each in route.brokers})
    return route


async def readers_of(cluster: Cluster, asking: Asking) -> dict[str, str]:
    """Return `Cluster.readers`; how old the answers of slaves are is added to `Asking.missing`.

    Raises:
        ClientError: no name server answers.
    """
    readers = await asking.needed(cluster.readers())
    slaves = {
        name: cluster.shared(("slave", address), AS_OF_AGE_S, partial(asked_slave, cluster.admin, name, address))
        for name, address in (await cluster.slaves_asked()).items()
    }
    for name, slave in (await asking.all(slaves, AS_OF_SHARE)).items():
        asking.missing.append(Missing(name, "slave", slave.value.sentence))
    return readers


async def note_gone(cluster: Cluster, asking: Asking, but: set[str] | None = None) -> list[str]:
    """Add the masters that are gone to `Asking.missing`, but not *but*, and return their names."""
    gone = sorted((await asking.needed(cluster.gone())).keys() - (but or set()))
    known = {each.what for each in asking.missing}
    asking.missing += [Missing(name, "gone", GONE) for name in gone if name not in known]
    return gone
