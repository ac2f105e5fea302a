"""Fixtures for tests of brokers and plugins; pytest loads this module automatically (entry point group ``pytest11``).

Nothing of GantryMQ is imported before a fixture is used, so that installing it costs other projects nothing.

    def test_a_message_arrives(gantrymq_broker):
        gantrymq_broker.send("Orders", b"one")
        assert [each.body for each in gantrymq_broker.pull("Orders")] == [b"one"]

    @pytest.mark.gantrymq(settings={"maxMessageSize": 2048}, plugins=[my_plugin])
    def test_with_my_plugin(gantrymq_broker): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from gantrymq_testing.running_broker import RunningBroker

MARK = (
    "gantrymq(settings=None, plugins=(), users=None): settings of the fixture gantrymq_broker, plugins handed to it, "
    "and users, with which it controls access"
)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", MARK)


@pytest.fixture
def gantrymq_broker_factory(tmp_path: Path) -> Iterator[Callable[..., RunningBroker]]:
    """Start brokers, each with its own name server and folder; all are stopped after the test.

    Call it with *settings* (of the broker), *plugins* (modules or objects with hooks, or pairs of name and one), and
    *users* (names with their rights, `gantrymq_testing.accounts`), with which it controls access.
    """
    from gantrymq_testing.running_broker import RunningBroker

    started: list[RunningBroker] = []

    def start(
        settings: Mapping[str, Any] | None = None,
        plugins: Iterable[Any] = (),
        users: Mapping[str, Any] | None = None,
    ) -> RunningBroker:
        running = RunningBroker(tmp_path / f"gantrymq-{len(started)}", settings, plugins, users)
        started.append(running)
        running.start()
        return running

    try:
        yield start
    finally:
        for running in reversed(started):
            running.stop()


@pytest.fixture
def gantrymq_broker(
    request: pytest.FixtureRequest, gantrymq_broker_factory: Callable[..., RunningBroker]
) -> RunningBroker:
    """A running name server and broker in this process; the marker ``gantrymq`` gives settings, plugins and users."""
    mark = request.node.get_closest_marker("gantrymq")
    return gantrymq_broker_factory(**(mark.kwargs if mark is not None else {}))


@pytest.fixture
def gantrymq_simulation() -> Callable[..., Any]:
    """Run an async function with a name server and a broker on a virtual clock.

    ``gantrymq_simulation(work, seed=1, settings=None, plugins=(), users=None)`` calls ``work(cluster)`` and returns its
    result.
    """
    from gantrymq_testing.simulation import simulate_cluster

    return simulate_cluster
