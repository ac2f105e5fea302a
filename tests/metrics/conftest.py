"""A running broker, and raw connections to its metrics port."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

# These folders have no __init__.py (pytest runs in importlib mode): their helpers are found by path.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

from scraping import Figures

from gantrymq_metrics.service import MetricsService


class Answer:
    """A response taken apart."""

    def __init__(self, data):
        head, _, self.body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split(" ")[1]) if data else None
        self.headers = dict(line.split(": ", 1) for line in lines)


class Client(asyncio.Protocol):
    """Sends bytes, and collects the response until the connection is closed."""

    def __init__(self):
        self.got = b""
        self.closed = asyncio.get_running_loop().create_future()

    def data_received(self, data):
        self.got += data

    def connection_lost(self, error):
        if not self.closed.done():
            self.closed.set_result(None)


async def ask(world, address, request):
    """Send *request* and wait until the server closes; the response."""
    transport, client = await world.network.connect(*address, Client)
    transport.write(request)
    await client.closed
    transport.close()
    return Answer(client.got)


async def get(world, address, path):
    """GET *path*."""
    return await ask(world, address, f"GET {path} HTTP/1.1\r\nHost: metrics\r\n\r\n".encode())


def service_of(cluster):
    """The metrics service of a test cluster's broker."""
    return next(each for each in cluster.plugins.services if isinstance(each, MetricsService))


@pytest.fixture
def http():
    """``await http.get(world, address, path)`` and ``await http.ask(world, address, request)``."""
    return SimpleNamespace(get=get, ask=ask, Client=Client)


@pytest.fixture
def beside(gantrymq_simulation):
    """Run ``work(cluster, service)`` with a simulated broker and metrics on a free port."""
    pytest.importorskip("gantrymq_storage_memory")
    pytest.importorskip("gantrymq_filter_tag")

    def run(work, **more):
        return gantrymq_simulation(lambda cluster: work(cluster, service_of(cluster)), **more)

    return run


@pytest.fixture
def scrape(http):
    """``await scrape(cluster, service)``: the figures of a scrape."""

    async def run(cluster, service):
        answer = await http.get(cluster.world, service.address, "/metrics")
        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        return Figures(answer.body)

    return run
