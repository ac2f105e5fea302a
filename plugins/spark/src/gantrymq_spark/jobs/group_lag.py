"""How far consumer groups are, asked of brokers."""

from __future__ import annotations

import asyncio
import os
import re

from gantrymq.client import Admin
from gantrymq.errors import BrokerRefused
from gantrymq.model.names import is_system_topic
from gantrymq.model.queue import Queue
from gantrymq.world.real import real_world
from gantrymq_admin.groups import GroupAdmin
from gantrymq_spark.jobs.inputs import Input, live_texts
from gantrymq_spark.live.options import read_options

__all__ = ["Progress", "group_progress"]

Progress = tuple[dict[Queue, int], dict[str, dict[Queue, int]]]  # queue ends; by group, the next offset to consume


def group_progress(given: Input) -> dict[str, Progress]:
    """By broker name, the ends of queues and the places of every group that committed one, of the topics of *given*.

    Raises:
        ConfigError: a mistake.
        ClientError: a broker or every name server does not answer.
    """
    options = read_options(live_texts(given), streaming=False, environ=os.environ)
    return asyncio.run(_ask(given, options.namesrv, options.tls))


async def _ask(given: Input, namesrv: str, tls: bool | None) -> dict[str, Progress]:
    found: dict[str, Progress] = {}
    async with Admin(namesrv, world=real_world(), tls=tls) as admin:
        groups = GroupAdmin(admin)
        for address in await admin.masters():
            for group in await groups.configs(address):
                try:
                    progress = await groups.progress(address, group)
                except BrokerRefused:  # a group that never consumed
                    continue
                for queue, each in progress.items():
                    if not _wanted(given, queue.topic):
                        continue
                    ends, places = found.setdefault(queue.broker_name, ({}, {}))
                    own = Queue(queue.topic, queue.queue_id)
                    ends[own] = each.max_offset
                    places.setdefault(group, {})[own] = each.committed
    return found


def _wanted(given: Input, topic: str) -> bool:
    if given.pattern is not None:
        return re.fullmatch(given.pattern, topic) is not None
    return topic in given.topics if given.topics else not is_system_topic(topic)
