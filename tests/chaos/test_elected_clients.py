"""How long clients cannot send while the master of a set changes: RocketMQ's Java client, and ours.

Java's client asks name servers for another master every `pollNameServerInterval`; it does so twice a second here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

pytest.importorskip("gantrymq_replication")
pytest.importorskip("aetcd")

from chaos_rig.clients import Crew, Sender
from chaos_rig.elected_set import SOME, TOPIC, ElectedSet, Engine, Member, longest_gap_s
from harness import Driver
from message_history import assert_all_there

pytestmark = [pytest.mark.long, pytest.mark.interop]

ROCKETMQ = "5.3.3"
LEASE_S = 9  # the default of etcdLeaseSeconds; a controller sees the closed connection at once
BOUND_S = LEASE_S + 2.0
PLANNED_S = 1.0
POLL_MS = 500
LOOK_S = 0.005
# Java's client tries again at once, and asks for routes in the background.
PATIENT = {"retries": 100_000, "timeout_ms": 20_000}
USUAL = {"etcdLeaseSeconds": str(LEASE_S), "controllerHeartBeatTimeoutMills": "10000", "flushDiskType": "SYNC_FLUSH"}
ENGINES = [Engine("etcd", 3), Engine("controller", 1)]
REPEATS = 3


class Times:
    """Notes when *count* grows, while the context lasts."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count, self._times = count, [time.monotonic()]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        before = self._count()
        while not self._ended.wait(LOOK_S):
            if (now := self._count()) > before:
                self._times.append(time.monotonic())
                before = now

    def longest_s(self, since: float) -> float:
        """Return the longest time without growth after *since*."""
        return longest_gap_s([since, *(each for each in [*self._times] if each > since)])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()


class Clients:
    """The set and its clients: ours, with a history, and Java's."""

    def __init__(self, stack: ExitStack, folder: Path, engine: Engine, **java: Any) -> None:
        self.set = ElectedSet(stack, folder, 200, engine, 3, **USUAL)
        driver = Driver(ROCKETMQ, folder / "java", self.set.namesrv)
        self.crew = Crew(driver, TOPIC, stack)
        self.java: Sender = self.crew.send("java", threads=2, pause_ms=2, poll_ms=POLL_MS, size=300, **java)
        self.crew.wait_for_more(SOME)
        self.java_times = stack.enter_context(Times(self.java.acknowledged))
        self.our_times = stack.enter_context(Times(lambda: self.set.load.acknowledged))

    def goes_on(self) -> None:
        """Wait until the set is whole, and all clients send."""
        self.set.goes_on()
        self.crew.wait_for_more(SOME)

    def measured(self, change: Callable[[Member], None]) -> dict[str, float]:
        """Return how long each client could not send after *change* of the master, which is started again."""
        master = self.set.master()
        began = time.monotonic()
        change(master)
        self.crew.wait_for_more(SOME)
        self.set.load.wait_for_more(SOME)
        found = {"java": self.java_times.longest_s(began), "ours": self.our_times.longest_s(began)}
        master.start()
        self.goes_on()
        return found

    def judge(self) -> None:
        """Stop all clients, and check that nothing is lost."""
        acknowledged = self.crew.stop_sending()
        assert_all_there(acknowledged, self.set.judge())


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Callable[..., Clients]]:
    with ExitStack() as stack:
        yield lambda engine, **java: Clients(stack, tmp_path, engine, **java)


def kill(master: Member) -> None:
    master.process.kill()


def stop(master: Member) -> None:
    assert master.process.stop() == 0


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize(("change", "bound_s"), [(kill, BOUND_S), (stop, PLANNED_S)])
def test_clients_send_to_the_next_master_within_a_time(
    clients: Callable[..., Clients],
    engine: Engine,
    change: Callable[[Member], None],
    bound_s: float,
    record_property: Callable[[str, object], None],
) -> None:
    run = clients(engine)
    found = [run.measured(change) for _ in range(REPEATS)]
    print(f"{engine.name}: {change.__name__}: {found}, java failed {run.java.failed()}, ours {run.set.history.unsure}")
    record_property("findings", f"{engine.name} {change.__name__} {found}")
    run.judge()
    assert max(each[client] for each in found for client in each) <= bound_s


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_a_rolling_restart_shows_clients_with_retries_no_error(
    clients: Callable[..., Clients], engine: Engine, record_property: Callable[[str, object], None]
) -> None:
    """Of controllers only brokers: without the leading one nothing is acknowledged for some seconds."""
    run = clients(engine, **PATIENT)
    failed, began = run.java.failed(), time.monotonic()  # a Java client may fail to get its first route
    for number in range(engine.nodes if engine.name == "etcd" else 0):
        again = run.set.kill_engine(number, regularly=True)
        run.crew.wait_for_more(SOME)
        again()
        run.goes_on()
    for member in run.set.members:
        assert member.process.stop() == 0
        member.start()
        run.goes_on()
    said = {
        "java": (run.java.acknowledged(), run.java.failed() - failed, round(run.java_times.longest_s(began), 2)),
        "ours": (run.set.load.acknowledged, run.set.history.unsure, round(run.our_times.longest_s(began), 2)),
    }
    print(f"{engine.name}: acknowledged, failed, longest pause: {said}")
    record_property("findings", f"{engine.name}: {said}")
    run.judge()
    assert run.java.failed() == failed, run.java.process.of("failed")[:3]
    assert run.set.history.unsure == 0, run.set.load.problems
