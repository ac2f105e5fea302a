"""A proxy between official clients and their broker cuts, holds, drips, delays and throws garbage.

Every acknowledged message is stored at the place reported to its sender and is delivered to every group, to the orderly
one in queue order. A client that does not use the proxy notices nothing.
"""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from chaos_rig.bystander import Bystander
from chaos_rig.clients import Crew
from chaos_rig.proxy import HostileProxy
from chaos_rig.scale import SEED, rounds
from harness import Driver, GantryCluster, create_topic
from message_history import assert_all_came, assert_all_there, assert_in_order, assert_sent_once, read_topic
from polling import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

TOPIC, QUEUES = "ChaosProxy", 4
PROXIED = "127.0.0.2"  # the broker's address in routes; the broker listens at 127.0.0.1
CUTS = 60
WORK_S = 300.0
SETTINGS = {"mappedFileSizeCommitLog": str(4 * 1024**2), "brokerIP1": PROXIED}
NOTICED_S = 0.25  # an undisturbed send takes a few milliseconds


def test_a_hostile_network_loses_nothing_and_does_not_affect_other_clients(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with (
        GantryCluster(tmp_path, names=("namesrv-1", "broker-a"), broker_settings=SETTINGS) as cluster,
        ExitStack() as stack,
    ):
        host, _, port = cluster.address("broker-a").rpartition(":")
        proxy = stack.enter_context(HostileProxy((PROXIED, int(port)), (host, int(port)), SEED))
        bystander = stack.enter_context(Bystander(cluster.address("broker-a")))
        create_topic(cluster.namesrv, TOPIC, queues=QUEUES)
        crew = Crew(Driver("5.3.3", tmp_path / "java", cluster.namesrv), TOPIC, stack)
        crew.read("chaos-orderly", "orderly")
        crew.read("chaos-concurrent")
        crew.send("once", mode="queue", threads=QUEUES, size=3000)
        crew.send("again", threads=4, size=100)
        wanted = rounds(CUTS)
        wait_until(
            lambda: proxy.done["cut inside a frame"] >= wanted and proxy.done["hold"] and proxy.done["drip"],
            f"{wanted} cuts",
            WORK_S,
            lambda: f"{proxy.done}",
        )
        crew.wait_for_more(1)
        proxy.calm_down()
        acknowledged = crew.stop_sending()
        found = asyncio.run(read_topic(cluster.namesrv, TOPIC))
        assert_all_there(acknowledged, found)
        assert_sent_once(found, "once")
        for group in ("chaos-orderly", "chaos-concurrent"):
            assert_all_came(found, crew.wait_for_all(group, found))
        again = assert_in_order(crew.got("chaos-orderly"))
        bystander.stop()
        assert cluster.server("broker-a").alive()
        said = (
            f"{len(acknowledged)} acknowledged, {len(found)} found, {crew.failed()} sends failed, {dict(proxy.done)}; "
            f"{again} came again in order; beside it {bystander.sent} sends of {bystander.usual_s() * 1000:.1f} ms"
        )
    print(said)
    record_property("findings", said)
    assert proxy.done["cut inside a frame"] >= wanted
    assert proxy.done["garbage"] >= wanted
    assert proxy.done["spoil"] > 0
    assert proxy.done["drip"] > 0
    assert crew.failed() > 0
    assert len(acknowledged) > 20 * wanted
    assert (bystander.lost, bystander.refused) == (False, [])
    assert bystander.sent > 100
    assert bystander.usual_s() < NOTICED_S
