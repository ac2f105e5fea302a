"""Clients, topics and groups appear and disappear (`load_rig.churn`) and leave no tables, queues, routes or memory.

The default run uses a simulated world and checks the tables. `-m long` runs twenty minutes against `gantrymq start`,
and checks its memory and its descriptors.
"""

import asyncio
import gc
import os
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from load_rig import BrokerProcess
from load_rig.churn import Churn

from gantrymq.world.real import real_world
from gantrymq_testing.simulation import ROOT, simulate_cluster

PLUGINS = ("gantrymq_storage_mmap", "gantrymq_filter_sql92", "gantrymq_pop", "gantrymq_schedule")
pytestmark = pytest.mark.skipif(
    not all(map(find_spec, PLUGINS)), reason="a round uses the plugins of the default install"
)

QUIET_S = 200.0  # virtual time: waiting messages become due, and the cleanup that runs every minute is done
CACHES = ("PropertyTemplate", "TextTemplate")  # bounded by themselves: texts of properties that were met
SIMULATED = ("gantrymq.remoting.", "gantrymq_testing.")  # the simulated network remembers its connections
LONG_S, AT_ONCE = 1200.0, 5
WARM_ROUNDS = 1000
SETTLED_S = 90.0  # until the last checkpoint, and memory released after it
GROWTH = 1.1
CACHES_BYTES = 8 * 1024 * 1024  # interned names and texts, and what the C library keeps for writing them: bounded
NOTES_BYTES = 3 * 80  # of each round's topic and its retry topics, until their messages have left the log


def test_what_came_and_went_leaves_nothing_in_the_tables() -> None:
    async def main(cluster: Any) -> None:
        churn = Churn(cluster.world, cluster.broker_address, cluster.namesrv)

        async def rounds(first: int, end: int) -> tuple[Counter[str], dict[str, int]]:
            for number in range(first, end):
                await churn.round(number)
            await cluster.world.clock.sleep(QUIET_S)
            return objects(), tables(cluster)

        before, lengths = await rounds(0, 8)
        after, lengths_after = await rounds(8, 28)
        assert churn.wrong == []
        assert lengths_after == lengths
        grown = {name: count for name, count in (after - before).items() if count >= 10}  # half of the rounds
        assert grown == {}

    simulate_cluster(main, settings={"store": "mmap"}, limit_s=1e6)


def objects() -> Counter[str]:
    """Count our objects by type."""
    gc.collect()
    names = (f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    ours = (name for name in names if name.startswith("gantrymq") and not name.startswith(SIMULATED))
    return Counter(name for name in ours if name.rpartition(".")[2] not in CACHES)


def tables(cluster: Any) -> dict[str, int]:
    server, parts = cluster.server, cluster.broker.metrics._parts
    routes = cluster._name_server.service.tables
    return {
        "topics": len(server.tables.topics.view),
        "groups": len(server.tables.groups.view),
        "offsets": len(server.tables.offsets.table),
        "locks": len(parts.locks._held),
        "names that passed": len(parts.preparation._name_passed),
        "compiled filters": len(parts.filters._kept),
        "counted topics": len(parts.stats.puts.known()),
        "counted groups": len(parts.stats.gets.known()),
        "queues": len(cluster.store.queues()),
        "queue folders": len(cluster.world.files.list(ROOT / "store" / "consumequeue")),
        "routes": len(routes.queues),
    }


@pytest.mark.long
def test_twenty_minutes_of_coming_and_going_leave_memory_and_descriptors_as_they_were() -> None:
    asyncio.run(churned())


async def churned() -> None:
    with BrokerProcess({"flushDiskType": "ASYNC_FLUSH"}) as broker:
        churn = Churn(real_world(), broker.address, broker.ready["namesrv"])
        number = 0
        end = time.monotonic() + LONG_S
        before: tuple[int, int, int] | None = None
        while time.monotonic() < end or before is None:
            await asyncio.gather(*(churn.round(number + each) for each in range(AT_ONCE)))
            number += AT_ONCE
            if before is None and number >= WARM_ROUNDS:
                await asyncio.sleep(SETTLED_S)  # real time: memory is freed at an unknown time
                before = costs(broker)
        await asyncio.sleep(SETTLED_S)  # real time: memory is freed at an unknown time
        after = costs(broker)
        assert churn.wrong == []
        assert number > 2 * WARM_ROUNDS, "too few rounds to tell anything"
        (memory, *rest), (memory_after, *rest_after) = before, after
        assert memory_after < GROWTH * memory + CACHES_BYTES + NOTES_BYTES * number, (number, before, after)
        assert all(now <= GROWTH * then for now, then in zip(rest_after, rest, strict=True)), (before, after)


def costs(broker: BrokerProcess) -> tuple[int, int, int]:
    """Bytes of memory, descriptors, and folders of queues."""
    descriptors = len(os.listdir(f"/proc/{broker.pid}/fd"))
    return broker.private_bytes(), descriptors, len(list(Path(broker.store, "consumequeue").iterdir()))
