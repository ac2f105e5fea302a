"""Two thousand pulls are held at once, in several rounds, while official clients send and consume in parallel.

Half of them get messages and the other half time out: each is answered once, the first half with the new messages.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from chaos_rig.clients import Crew
from chaos_rig.scale import rounds
from harness import Driver, GantryCluster, create_topic
from load_rig import connect, create_topic_request, pull_request, raise_descriptor_limit
from load_rig.connection import Answer, Connection
from load_rig.requests import send_request
from message_history import assert_all_came, assert_all_there, read_topic
from polling import until

from gantrymq.client import Admin, Client

pytestmark = [pytest.mark.interop, pytest.mark.long]

POLLS = 2000
QUEUES = 8  # the first half of them gets messages
ROUNDS = 5
LONG_MS, SHORT_MS = 120_000, 15_000  # of pulls that get messages, and of those that time out
DEADLINE_S = 90.0
FOUND, NOT_FOUND = 0, 19
TOPIC, BESIDE = "ChaosPolls", "ChaosBeside"


def test_two_thousand_held_pulls_are_answered_once_each(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    if raise_descriptor_limit(POLLS + 300) < POLLS + 200:
        pytest.skip(f"{POLLS} connections need as many descriptors; raise the hard limit of open files")
    settings = {"mappedFileSizeCommitLog": str(4 * 1024**2)}
    with (
        GantryCluster(tmp_path, names=("namesrv-1", "broker-a"), broker_settings=settings) as cluster,
        ExitStack() as stack,
    ):
        create_topic(cluster.namesrv, BESIDE, queues=4)
        crew = Crew(Driver("5.3.3", tmp_path / "java", cluster.namesrv), BESIDE, stack)
        crew.read("chaos-beside")
        crew.send("beside", threads=2, pause_ms=5, size=100)
        crew.wait_for_more(10)
        before = crew.acknowledged()
        answers = asyncio.run(hold(cluster.namesrv, cluster.address("broker-a")))
        sent_beside = crew.acknowledged() - before
        acknowledged = crew.stop_sending()
        found = asyncio.run(read_topic(cluster.namesrv, BESIDE))
        assert_all_there(acknowledged, found)
        assert_all_came(found, crew.wait_for_all("chaos-beside", found))
    said = f"{POLLS} pulls held in each of {rounds(ROUNDS)} rounds, answers {dict(answers)}; {sent_beside} sent beside"
    print(said)
    record_property("findings", said)
    half = rounds(ROUNDS) * POLLS // 2
    assert answers == {FOUND: half, NOT_FOUND: half}
    assert crew.failed() == 0
    assert sent_beside > 100


async def hold(namesrv: str, address: str) -> Counter[int]:
    """All rounds; returns the answers by their code."""
    connections = await connect(address, POLLS)
    (sender,) = await connect(address)
    assert (await sender.call(create_topic_request(TOPIC, QUEUES))).code == 0
    answers: Counter[int] = Counter()
    async with Client(namesrv) as client, client.admin as admin:
        for number in range(rounds(ROUNDS)):
            answers += await one_round(connections, sender, admin, address, number)
    await sender.call(pull_request(TOPIC, 0, 0, "last"))  # duplicates have arrived by now
    for connection in connections:
        assert not connection.lost
        assert (connection.answered, connection.waiting, connection.strays) == (rounds(ROUNDS), 0, 0)
        connection.close()
    sender.close()
    return answers


async def one_round(
    connections: list[Connection], sender: Connection, admin: Admin, address: str, number: int
) -> Counter[int]:
    """Hold all pulls at the ends of their queues, send to half of the queues, wait for all answers."""
    codes: Counter[int] = Counter()
    every = asyncio.Event()

    def take(_: Connection, answer: Answer) -> None:
        codes[answer.code] += 1
        if answer.code == FOUND:
            assert answer.next_offset == number + 1
        if codes.total() == POLLS:
            every.set()

    began = time.monotonic()
    for member, connection in enumerate(connections):
        queue = member % QUEUES
        wakes = queue < QUEUES // 2
        hold_ms = LONG_MS if wakes else SHORT_MS
        offset = number if wakes else 0
        request = pull_request(TOPIC, queue, offset, f"poll-{member % 50}", hold_ms=hold_ms)
        connection.ask(request, take)

    async def all_held() -> bool:
        assert not codes, f"answered before anything came: {codes}"
        return int((await admin.runtime_info(address))["pullRequestsHeld"]) >= POLLS

    async with asyncio.timeout(DEADLINE_S):
        await until(all_held, "held pulls", DEADLINE_S)
        for queue in range(QUEUES // 2):
            assert (await sender.call(send_request(TOPIC, queue, b"wakes", queues=QUEUES))).code == 0
        await every.wait()
    assert time.monotonic() - began >= SHORT_MS / 1000 * 0.9
    return codes
