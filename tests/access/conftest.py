"""A broker with users and policies, in a simulated world."""

import json
import sys
from pathlib import Path

import pytest

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

from access_rig import BOTH, Rig

from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import simulate


@pytest.fixture
def run():
    """``run(main, key=value, before=prepare)`` runs ``await main(rig)``; *prepare* gets the world before the start."""
    pytest.importorskip("gantrymq_storage_memory")

    def run(main, before=None, **settings):
        async def work(world):
            if before is not None:
                before(world)
            cluster = Cluster(world, Path("/gantrymq"), {**BOTH, "store": "memory", **settings})
            rig = Rig(world, cluster)
            try:
                await cluster.start()
                return await main(rig)
            finally:
                await rig.close()
                await cluster.stop()
                await world.workers.close()

        return simulate(1, work)

    return run


@pytest.fixture
def recorded():
    """The requests of mqadmin 5.3.3 to a broker of 5.3.3, with the answers."""
    lines = (Path(__file__).parent / "recorded_admin.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]
