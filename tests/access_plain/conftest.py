"""A broker whose accounts are in a plain_acl.yml, in memory on a virtual clock."""

import sys
from pathlib import Path

import pytest

# Makes `import plain_desk` work in any import mode of pytest.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

from plain_desk import ACCOUNTS, HOME, MAIN, Desk

from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import simulate


@pytest.fixture
def plain():
    """``plain(main, text)`` runs ``await main(desk)`` with a broker that has these accounts."""
    pytest.importorskip("gantrymq_storage_memory")

    def run(main, text=ACCOUNTS, **settings):
        async def with_broker(world):
            world.files.make_dirs(MAIN.parent)
            if text is not None:
                world.files.replace(MAIN, text.encode())
            values = {"aclEnable": True, "aclHome": str(HOME), **settings}
            cluster = Cluster(world, Path("/gantrymq"), values)
            desk = None
            try:
                await cluster.start()
                desk = Desk(cluster)
                return await main(desk)
            finally:
                if desk is not None:
                    await desk.client.close()
                await cluster.stop()
                await world.workers.close()

        return simulate(1, with_broker)

    return run
