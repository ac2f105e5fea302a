"""Two brokers under one name server are killed and started in turn; producers and consumers continue with the other
one.

Every acknowledged message is stored at the broker reported to its sender, and is delivered, in order for each queue.
"""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from chaos_rig.clients import PROGRESS_S, Crew, Tally
from chaos_rig.scale import rounds
from harness import Driver, GantryCluster, create_topic
from harness.cluster import BROKERS
from message_history import assert_all_came, assert_all_there, assert_in_order, assert_sent_once, read_topic
from polling import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

TOPIC, QUEUES = "ChaosTwo", 4
ROUNDS = 4  # each kills one of the two
MORE = 400
SETTINGS = {"mappedFileSizeCommitLog": str(4 * 1024**2)}


def test_one_broker_goes_and_comes_and_the_other_one_carries_on(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with (
        GantryCluster(tmp_path, names=("namesrv-1", *BROKERS), broker_settings=SETTINGS) as cluster,
        ExitStack() as stack,
    ):
        create_topic(cluster.namesrv, TOPIC, queues=QUEUES)
        cluster.wait_for_route(TOPIC, lambda route: all(name in route for name in BROKERS), cluster.namesrv)
        crew = Crew(Driver("5.3.3", tmp_path / "java", cluster.namesrv), TOPIC, stack)
        orderly = Tally(crew.read("chaos-orderly", "orderly"), "got")
        concurrent = Tally(crew.read("chaos-concurrent"), "got")
        crew.send("once", mode="queue", threads=2 * QUEUES, size=200, pause_ms=2, poll_ms=2000)
        again = crew.send("again", threads=4, size=1000, pause_ms=2, poll_ms=2000)
        kills = 0
        for number in range(rounds(ROUNDS)):
            crew.wait_for_more(MORE)
            name = BROKERS[number % 2]
            cluster.kill(name)
            kills += 1
            came = orderly.count(), concurrent.count()
            crew.wait_for_more(MORE)
            wait_until(
                lambda came=came: orderly.count() > came[0] and concurrent.count() > came[1], "messages", PROGRESS_S
            )
            cluster.heal()
            until_used_again(again.process.events, name)
        acknowledged = crew.stop_sending()
        found = asyncio.run(read_topic(cluster.namesrv, TOPIC))
        assert_all_there(acknowledged, found)
        assert_sent_once(found, "once")
        for group in ("chaos-orderly", "chaos-concurrent"):
            assert_all_came(found, crew.wait_for_all(group, found))
        twice = assert_in_order(crew.got("chaos-orderly"))
        spread = {name: sum(place.broker == name for place in acknowledged) for name in BROKERS}
        said = (
            f"{len(acknowledged)} acknowledged {spread}, {len(found)} found, {crew.failed()} sends failed, "
            f"{kills} kills; {twice} came again in order"
        )
    print(said)
    record_property("findings", said)
    assert kills == rounds(ROUNDS)
    assert crew.failed() > 0
    assert len(acknowledged) >= 2 * kills * MORE
    assert min(spread.values()) > MORE


def until_used_again(events: list[dict[str, object]], name: str) -> None:
    """Wait until a sender that chooses among all brokers has sent to *name* once more."""
    at = len(events)
    wait_until(
        lambda: any(each.get("event") == "sent" and each["b"] == name for each in events[at:]),
        f"message for {name}",
        PROGRESS_S,
    )
