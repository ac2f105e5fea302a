"""A popping consumer with plain requests, for a simulated or a real broker."""

import sys
from pathlib import Path

import pytest

# These folders have no __init__.py (pytest runs in importlib mode): their helpers are found by path.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

from pop_client import PopClient


@pytest.fixture
def popped(gantrymq_simulation):
    """Run ``work(client)`` with a simulated broker that has topic T with two queues."""
    pytest.importorskip("gantrymq_storage_memory")
    pytest.importorskip("gantrymq_filter_tag")

    def run(work, **more):
        async def main(cluster):
            await cluster.create_topic("T", 2)
            async with PopClient(cluster) as client:
                return await work(client)

        return gantrymq_simulation(main, **more)

    return run
