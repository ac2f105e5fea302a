"""The topic and the group created for a measurement, and deleted afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from gantrymq.client import Admin
from gantrymq.errors import ClientError, NoRoute
from gantrymq.plugin.model import GroupConfig, TopicConfig
from gantrymq.plugin.names import RETRY_PREFIX
from gantrymq.plugin.world import Clock, World

__all__ = ["about", "own_name", "own_place"]

PREFIX = "GantryMQBench"
ROUTE_S = 10.0  # time limit for name servers to know a topic
LOOK_AGAIN_S = 0.05


def own_name(world: World) -> str:
    """Return an unused name."""
    return f"{PREFIX}-{world.random.getrandbits(32):08x}"


@asynccontextmanager
async def own_place(
    admin: Admin,
    name: str,
    queues: int,
    cluster: str | None,
    *,
    group: bool,
    keep: bool,
    clock: Clock,
    tell: Callable[[str], object],
) -> AsyncIterator[tuple[str, ...]]:
    """Create a topic *name*, with *group* a consumer group as well, at the masters of a cluster.

    Yields the masters' addresses, once name servers know the topic. Both are deleted after the block, unless *keep*;
    *tell* receives a message about each deletion that fails.

    Raises:
        ClientError: a server does not create it.
    """
    masters = await admin.create_topic_in(TopicConfig(name, queues, queues), cluster)
    try:
        if group:
            await admin.create_group_in(GroupConfig(name), cluster)
        await _known(admin, name, len(masters), clock)
        yield masters
    finally:
        if not keep:
            try:
                if group:
                    for master in masters:
                        await admin.delete_group(master, name, clean_offsets=True)
                    await admin.delete_topic(RETRY_PREFIX + name, cluster)
                await admin.delete_topic(name, cluster)
            except ClientError as problem:  # the measurements remain valid
                tell(f"{name} is left behind: {problem}")


async def _known(admin: Admin, topic: str, brokers: int, clock: Clock) -> None:
    deadline = clock.monotonic() + ROUTE_S
    while True:
        try:
            if len((await admin.route(topic)).brokers) >= brokers:
                return
        except NoRoute:
            if clock.monotonic() > deadline:
                raise
        if clock.monotonic() > deadline:
            return  # some brokers are enough to continue
        await clock.sleep(LOOK_AGAIN_S)


async def about(admin: Admin, cluster: str | None) -> list[dict[str, Any]]:
    """Return the context of figures: each broker's name, address, version and flush mode."""
    info = await admin.clusters()
    found = []
    for broker in info.brokers:
        address = broker.master
        if address is None or (cluster is not None and broker.cluster != cluster):
            continue
        settings = await admin.broker_settings(address)
        found.append({"broker": broker.name, "address": address, "flush": settings.get("flushDiskType")})
    return found
