"""Official clients send until the disk is full; the broker is killed, started without a free byte, then space is freed.

The disk is a real one, tmpfs and ext4 on a loop device. Sends are refused with SERVICE_NOT_AVAILABLE, consumers are
still served, also by a broker started on the full disk, and every message acknowledged before and after is stored.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from chaos_rig.clients import PROGRESS_S, Crew
from chaos_rig.scale import rounds
from durability_rig.small_disks import MIB, small_disk
from harness import Driver, GantryCluster, create_topic
from message_history import Bodies, assert_all_came, assert_all_there, assert_in_order, assert_sent_once, read_topic
from polling import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

TOPIC, QUEUES = "ChaosDisk", 4
ROUNDS = 3
ROOM_BYTES = 12 * MIB  # used by a round until the disk is full
SIZE = 4000  # the client compresses longer bodies
MORE = 300  # messages accepted once there is space again
REFUSED = 40
SERVICE_NOT_AVAILABLE = 14
SETTINGS = {
    "mappedFileSizeCommitLog": str(MIB),
    "mappedFileSizeConsumeQueue": "2000",
    "cleanFileForciblyEnable": "false",  # nothing is deleted to free space
    "diskSpaceWarningLevelRatio": "100",  # the disk itself refuses writes
    "metricsExporterType": "DISABLE",
}


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_a_disk_that_fills_again_and_again_loses_nothing(
    kind: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    size = (rounds(ROUNDS) * 20 + 32) * MIB
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path / "small", size, kind))
        settings = {**SETTINGS, "storePathRootDir": str(disk.folder / "store")}
        cluster = GantryCluster(tmp_path, names=("namesrv-1", "broker-a"), broker_settings=settings)
        stack.enter_context(cluster)
        create_topic(cluster.namesrv, TOPIC, queues=QUEUES)
        crew = Crew(Driver("5.3.3", tmp_path / "java", cluster.namesrv), TOPIC, stack)
        crew.read("chaos-orderly", "orderly")
        sender = crew.send("once", mode="queue", threads=QUEUES, size=SIZE)
        crew.wait_for_more(MORE)

        def refusals() -> Counter[int]:
            return Counter(event["code"] for event in sender.process.of("failed"))

        def until_refused() -> None:
            before = refusals()[SERVICE_NOT_AVAILABLE]
            wait_until(
                lambda: refusals()[SERVICE_NOT_AVAILABLE] >= before + REFUSED,
                "refusals",
                PROGRESS_S,
                sender.process.tail,
            )

        def everything() -> Bodies:
            found = asyncio.run(read_topic(cluster.namesrv, TOPIC))
            assert_all_there(acknowledged, found)
            return found

        kills = full = 0
        for _ in range(rounds(ROUNDS)):
            disk.take(disk.free_bytes - ROOM_BYTES)
            until_refused()
            acknowledged = sender.bodies()
            crew.wait_for_all("chaos-orderly", everything())
            disk.fill()
            full += 1
            cluster.kill("broker-a")
            kills += 1
            cluster.start("broker-a")
            until_refused()
            everything()
            disk.free()
            crew.wait_for_more(MORE)
        acknowledged = crew.stop_sending()
        found = everything()
        assert_sent_once(found, "once")
        got = crew.wait_for_all("chaos-orderly", found)
        assert_all_came(found, got)
        again = assert_in_order(got)
        said = (
            f"{kind}: {len(acknowledged)} acknowledged, {len(found)} found, refused by code {dict(refusals())}, "
            f"{full} times full, {kills} kills; {again} came again"
        )
    print(said)
    record_property("findings", said)
    assert kills == full == rounds(ROUNDS)
    assert refusals()[SERVICE_NOT_AVAILABLE] >= 2 * REFUSED * full
    assert len(acknowledged) >= full * (MORE + ROOM_BYTES // 2 // SIZE)
