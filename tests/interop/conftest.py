"""Fixtures of the interop tests. See README.md in this folder."""

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

# Makes `import harness` work in every import mode of pytest.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

pytest.register_assert_rewrite("checks")

from harness import GantryServer, JavaBroker, JavaNameServer, Process, peers  # noqa: E402 (it is found only now)

Running = Callable[[Process], Process]
SOON = {"transactionCheckInterval": "1000", "transactionTimeOut": "1000", "transactionOpBatchInterval": "100"}
_numbers = itertools.count(1)
LONGEST = (
    "interop/test_console.py",
    "election/test_commands_interop.py",
    "interop/test_our_access.py",
    "interop/test_java_clients.py",
    "interop/test_elected_java.py",
    "interop/test_access_management.py",
    "interop/test_replicated_access.py",
    "interop/test_store_exchange.py",
    "interop/test_acting.py",
    "interop/test_differential.py",
    "interop/test_replication.py",
    "interop/test_transactions.py",
    "election/test_etcd_interop.py",
    "interop/test_pop.py",
    "interop/test_our_pop.py",
    "interop/test_request_reply.py",
    "interop/test_retries.py",
    "interop/test_ordered.py",
    "interop/test_killed_stores.py",
    "interop/test_slave_reads.py",
    "interop/test_several.py",
    "interop/test_spark_live.py",
    "interop/test_spark_sink.py",
)
"""Files that take a minute or more, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files: at the end of a run with several processes, none should be left with a long one."""
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get("/".join(item.path.parts[-2:]), len(place)))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryServer]:
    """Our name server and broker in one process, shared by the tests of a module."""
    with GantryServer.both(tmp_path_factory.mktemp("ours")) as server:
        yield server


class JavaServers(NamedTuple):
    """A Java name server and broker of one version."""

    namesrv: str
    broker: str


@pytest.fixture(scope="session")
def java_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], JavaServers]]:
    """Return Java's servers of a version, started at the first use and shared by all tests that use them.

    A broker 5.3.3 takes 15 s to start and stop.
    """
    started: dict[str, tuple[JavaNameServer, JavaBroker]] = {}

    def servers(version: str) -> JavaServers:
        if version not in started:
            scratch = tmp_path_factory.mktemp("java")
            namesrv = stack.enter_context(JavaNameServer(version, scratch / "namesrv"))
            broker = stack.enter_context(
                JavaBroker(version, scratch / "broker", namesrv.address, settings=SOON, keep=False)
            )
            peers.shared(namesrv.alive, broker.alive)
            started[version] = namesrv, broker
        peers.used(f"RocketMQ name server {version}")
        peers.used(f"RocketMQ broker {version}")
        return JavaServers(*(server.address for server in started[version]))

    with ExitStack() as stack:
        yield servers


@pytest.fixture(autouse=True)
def _peers(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """Record the peers of each test in the report, for the table of compatibility.py."""
    with peers.recorded() as names:
        yield
    for name in sorted(names):
        record_property("peer", name)


@pytest.fixture
def topic() -> str:
    """A topic name that no other test uses."""
    return f"Interop{next(_numbers)}"


@pytest.fixture
def running() -> Iterator[Running]:
    """Register a process, to be stopped at the end of the test; the last one started stops first."""
    with ExitStack() as stack:
        yield stack.enter_context
