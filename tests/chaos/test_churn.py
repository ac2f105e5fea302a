"""Members of an orderly and of a concurrent group join and leave while official producers send.

No message is lost, and each queue's messages were delivered in order across all its members, also if a member is
killed (its locks expire after a minute).
"""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from chaos_rig.clients import PROGRESS_S, Crew, Tally
from chaos_rig.scale import rounds
from harness import Driver, GantryCluster, Process, create_topic
from message_history import assert_all_came, assert_all_there, assert_in_order, assert_sent_once, read_topic

pytestmark = [pytest.mark.interop, pytest.mark.long]

TOPIC, QUEUES = "ChaosChurn", 8
ROUNDS = 4
GROUPS = {"chaos-orderly": "orderly", "chaos-concurrent": "concurrent"}
SETTINGS = {"mappedFileSizeCommitLog": str(4 * 1024**2)}


def test_members_that_come_and_go_lose_nothing_and_keep_the_order(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with (
        GantryCluster(tmp_path, names=("namesrv-1", "broker-a"), broker_settings=SETTINGS) as cluster,
        ExitStack() as stack,
    ):
        create_topic(cluster.namesrv, TOPIC, queues=QUEUES)
        crew = Crew(Driver("5.3.3", tmp_path / "java", cluster.namesrv), TOPIC, stack)
        crew.send("once", mode="queue", threads=QUEUES, size=200, pause_ms=20)
        members: list[list[Process]] = []
        came = left = 0

        def join() -> None:
            """Add a member to each group and wait until it owns queues."""
            nonlocal came
            some = [crew.read(group, listener) for group, listener in GROUPS.items()]
            for member in some:
                seen = Tally(member, "got")
                member.wait_for(lambda _, seen=seen: seen.count() > 0, "a share", PROGRESS_S)
            members.append(some)
            came += len(some)

        join()
        for _ in range(rounds(ROUNDS)):
            join()
            for member in members.pop(0):  # the oldest one of each group leaves
                member.close_input()
                member.finish()
                left += 1
        join()
        for member in members.pop():
            member.kill()
        acknowledged = crew.stop_sending()
        found = asyncio.run(read_topic(cluster.namesrv, TOPIC))
        assert_all_there(acknowledged, found)
        assert_sent_once(found, "once")
        for group in GROUPS:
            assert_all_came(found, crew.wait_for_all(group, found))
        again = assert_in_order(crew.got("chaos-orderly"))
        said = (
            f"{len(acknowledged)} acknowledged, {len(found)} found; {came} members came, {left} left, {len(GROUPS)} "
            f"were killed; {again} came again in order"
        )
    print(said)
    record_property("findings", said)
    assert (came, left) == (2 * (rounds(ROUNDS) + 2), 2 * rounds(ROUNDS))
    assert crew.failed() == 0
    assert len(acknowledged) > 1000
