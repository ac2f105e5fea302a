"""A gRPC server in a simulated world, with clients of the library h2."""

import sys
from pathlib import Path

import pytest

# These folders have no __init__.py (pytest runs in importlib mode): their helpers are found by path.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

from gantrymq_testing.simulated import simulate


@pytest.fixture
def serve():
    """Run ``work(served)`` with a gRPC server that has *handlers* for the methods of `grpc_served.REQUESTS`."""
    from grpc_served import Served  # not at the top: it needs the library h2, and other tests of this folder do not

    def run(work, handlers=None, *, limits=None, **more):
        async def main(world):
            async with Served(world, handlers or {}, limits) as served:
                return await work(served)

        return simulate(1, main, **more)

    return run


@pytest.fixture
def grpc_broker(gantrymq_simulation):
    """Run ``work(served)`` with a simulated broker that serves gRPC and has topic T with two queues."""
    from grpc_broker import GrpcBroker

    def run(work, **more):
        async def main(cluster):
            async with GrpcBroker(cluster) as served:
                served.topic("T")
                return await work(served)

        return gantrymq_simulation(main, **more)

    return run
