"""Official clients send and consume while their broker is repeatedly killed and started, frozen and resumed.

Every acknowledged message is stored at the place reported to its sender, exactly once if it was sent once, and is
delivered to a concurrent and to an orderly group, to the orderly one in queue order.
"""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from chaos_rig.clients import Crew
from chaos_rig.scale import rounds
from harness import Driver, GantryCluster, create_topic
from message_history import assert_all_came, assert_all_there, assert_in_order, assert_sent_once, read_topic
from polling import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

TOPIC, QUEUES = "ChaosKills", 8
ROUNDS = 6  # each with a kill and a freeze
MESSAGES = 1500  # acknowledged before each of them
FREEZE_S = 60.0  # upper limit: a freeze lasts until clients give up, which they do after 3 s
SETTINGS = {"mappedFileSizeCommitLog": str(4 * 1024**2), "flushDiskType": "SYNC_FLUSH"}


def test_kills_and_freezes_lose_nothing_and_keep_the_order(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with (
        GantryCluster(tmp_path, names=("namesrv-1", "broker-a"), broker_settings=SETTINGS) as cluster,
        ExitStack() as stack,
    ):
        create_topic(cluster.namesrv, TOPIC, queues=QUEUES)
        crew = Crew(Driver("5.3.3", tmp_path / "java", cluster.namesrv), TOPIC, stack)
        crew.read("chaos-orderly", "orderly")
        crew.read("chaos-concurrent")
        crew.send("once", mode="queue", threads=QUEUES, size=400)
        crew.send("again", threads=4, size=2000)
        kills = freezes = 0
        for _ in range(rounds(ROUNDS)):
            crew.wait_for_more(MESSAGES)
            cluster.kill("broker-a")
            kills += 1
            cluster.start("broker-a")
            crew.wait_for_more(MESSAGES)
            server, failed = cluster.server("broker-a"), crew.failed()
            server.pause()
            try:
                wait_until(lambda before=failed: crew.failed() > before, "a send that gave up", FREEZE_S)
            finally:
                server.resume()
            freezes += 1
        crew.wait_for_more(MESSAGES)
        acknowledged = crew.stop_sending()
        found = asyncio.run(read_topic(cluster.namesrv, TOPIC))
        assert_all_there(acknowledged, found)
        assert_sent_once(found, "once")
        again = {}
        for group in ("chaos-orderly", "chaos-concurrent"):
            got = crew.wait_for_all(group, found)
            assert_all_came(found, got)
            again[group] = len(got) - len(found)
        assert_in_order(crew.got("chaos-orderly"))
        said = (
            f"{len(acknowledged)} acknowledged, {len(found)} found, {crew.failed()} sends failed, {kills} kills, "
            f"{freezes} freezes; came again {again}"
        )
    print(said)
    record_property("findings", said)
    assert kills == freezes == rounds(ROUNDS)
    assert len(acknowledged) >= (2 * rounds(ROUNDS) + 1) * MESSAGES
