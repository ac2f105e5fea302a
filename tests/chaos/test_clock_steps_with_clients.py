"""Official clients send and consume while the wall clock of their name server and broker steps forwards and backwards.

No message is lost, and the orderly group keeps its order and its queues. If a member is killed, its queues are owned
again within a minute and a rebalance, whatever the clock does meanwhile.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from chaos_rig.clients import PROGRESS_S, Crew
from chaos_rig.scale import rounds
from chaos_rig.stepped_clock import DAY_S, SteppedClock
from harness import Driver, GantryCluster, Process, create_topic
from message_history import assert_all_came, assert_all_there, assert_in_order, assert_sent_once, read_topic
from polling import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

TOPIC, QUEUES = "ChaosClock", 4
STEPS = (DAY_S, 0, -DAY_S, 4 * DAY_S, -4 * DAY_S, 0)
MORE = 300
LOCK_S = 60.0  # a lock lapses so long after its last renewal
ASK_S = 20.0  # interval at which a client requests locks that it lacks
BUSY_S = 20.0  # margin for a busy machine
SETTINGS = {"mappedFileSizeCommitLog": str(4 * 1024**2)}


def test_a_stepped_clock_loses_nothing_and_a_killed_holder_s_queues_are_owned_again(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    clock = SteppedClock(tmp_path)
    servers = GantryCluster(tmp_path, names=("namesrv-1", "broker-a"), broker_settings=SETTINGS, environ=clock.environ)
    with servers as cluster, ExitStack() as stack:
        create_topic(cluster.namesrv, TOPIC, queues=QUEUES)
        crew = Crew(Driver("5.3.3", tmp_path / "java", cluster.namesrv), TOPIC, stack)
        crew.send("once", mode="queue", threads=QUEUES, size=200, pause_ms=5)
        crew.wait_for_more(MORE)
        first = crew.read("chaos-orderly", "orderly")
        second = crew.read("chaos-orderly", "orderly")
        wait_until(lambda: queues_since(second, 0), "a share of the second member", PROGRESS_S)
        for ahead_s in STEPS * rounds(1):
            clock.step_to(ahead_s)
            shares = [len(process.events) for process in (first, second)]
            crew.wait_for_more(MORE)
            wait_until(
                lambda shares=shares: (
                    queues_since(first, shares[0]) | queues_since(second, shares[1]) == set(range(QUEUES))
                ),
                "messages of every queue",
                PROGRESS_S,
            )
        clock.step_to(-DAY_S)
        first.kill()
        killed_at, seen = time.monotonic(), len(second.events)
        clock.step_to(DAY_S)
        wait_until(
            lambda: queues_since(second, seen) == set(range(QUEUES)),
            "the killed member's queues at the other one",
            LOCK_S + ASK_S + BUSY_S,
            second.tail,
        )
        owned_s = time.monotonic() - killed_at
        acknowledged = crew.stop_sending()
        found = asyncio.run(read_topic(cluster.namesrv, TOPIC))
        assert_all_there(acknowledged, found)
        assert_sent_once(found, "once")
        got = crew.wait_for_all("chaos-orderly", found)
        assert_all_came(found, got)
        again = assert_in_order(got)
        said = (
            f"{len(acknowledged)} acknowledged, {len(found)} found, {len(STEPS) * rounds(1) + 2} steps, owned again "
            f"{owned_s:.0f} s after the kill; {again} came again in order"
        )
    print(said)
    record_property("findings", said)
    assert crew.failed() == 0
    assert first.of("got")
    assert len(acknowledged) >= (len(STEPS) * rounds(1) + 1) * MORE


def queues_since(process: Process, index: int) -> set[int]:
    """Queues from which a consumer received messages in its events from *index* on."""
    return {event["q"] for event in process.events[index:] if event.get("event") == "got"}
