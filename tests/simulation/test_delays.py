"""Delayed messages while a broker is killed and restarted: each stored copy is delivered once, on time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from importlib.util import find_spec

import pytest
from simulation_rig.machines import Machine

from gantrymq.broker import BrokerServer
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.errors import GantryError
from gantrymq.formats.record import iter_records
from gantrymq.formats.tags_code import parse_delay_levels
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq.plugins import load_plugins
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request
from gantrymq.remoting.headers.send import SendMessageRequest
from gantrymq_testing.simulated import SimulatedProcess, simulate

pytestmark = [
    pytest.mark.skipif(find_spec("gantrymq_schedule") is None, reason="needs gantrymq-schedule"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),  # of a process that was killed
]

HOST, MESSAGES = "10.0.1.1", 40
LEVELS = "1s 3s 7s 20s"
DELAYS_MS = parse_delay_levels(LEVELS)
LAST_S = 60.0


def build(world, flush):
    plugins = load_plugins("schedule,storage_mmap,filter_tag", reserved=SCHEMA)
    settings = Settings([*SCHEMA, *plugins.config])
    values = {
        "bindAddress": HOST,
        "brokerName": "broker-a",
        "storePathRootDir": f"/{HOST}/store",
        "store": "mmap",
        "flushDiskType": flush,
        "messageDelayLevel": LEVELS,
        "mappedFileSizeCommitLog": 1 << 20,
    }
    for key, value in values.items():
        settings.set(key, value, "the test")
    return BrokerServer(world, settings, plugins)


class Client:
    """Repeat the send until it is answered; the message may then be stored twice."""

    def __init__(self, world):
        self.world = world
        self.remoting = RemotingClient(world)

    async def ask(self, code, ext, body=None, codes=(0,)):
        while True:
            try:
                connection = await self.remoting.connect(f"{HOST}:10911")
                answer = await connection.call(request(code, dict(ext), body), 3)
                if answer.code in codes:
                    return answer
            except GantryError:
                pass
            await self.world.clock.sleep(0.2)

    async def send(self, number, level):
        values = {"default_topic": "TBW102", "default_topic_queue_nums": 1, "queue_id": 0, "sys_flag": 0, "flag": 0}
        own = f"DELAY\x01{level}\x02UNIQ_KEY\x01{number:032}\x02"
        header = SendMessageRequest(producer_group="P", topic="T", properties=own, born_timestamp=number + 1, **values)
        await self.ask(RequestCode.SEND_MESSAGE, header.to_ext(), b"%d" % number)

    async def read(self, topic, queue):
        found = []
        while True:
            ext = {
                "consumerGroup": "CG",
                "topic": topic,
                "queueId": str(queue),
                "queueOffset": str(len(found)),
                "maxMsgNums": "32",
                "sysFlag": "4",
                "commitOffset": "0",
                "suspendTimeoutMillis": "0",
                "subscription": "*",
                "subVersion": "0",
            }
            answer = await self.ask(RequestCode.PULL_MESSAGE, ext, codes=(0, 17, 19, 20, 21))
            if answer.code != 0:
                return found
            found += iter_records(answer.payload)


async def trouble(rng, world, machine, over):
    while not over.is_set():
        await world.clock.sleep(rng.uniform(0.5, 6))
        machine.crash()
        await world.clock.sleep(rng.uniform(0, 2))
        machine.start()
        await machine.ready()


@pytest.mark.parametrize("seed", range(4))
def test_each_copy_that_is_stored_comes_once_and_not_before_its_time(seed):
    rng = random.Random(f"{seed}/delays")

    async def main(world):
        machine = Machine(world, HOST, lambda own: build(own, "SYNC_FLUSH" if seed % 3 else "ASYNC_FLUSH"))
        machine.start()
        await machine.ready()
        over = asyncio.Event()
        client = Client(SimulatedProcess(world, asyncio.get_running_loop(), "10.0.2.1", 7).world)
        kills = asyncio.ensure_future(trouble(rng, world, machine, over))
        for number in range(MESSAGES):
            await client.send(number, rng.randint(1, 4))
            await world.clock.sleep(rng.uniform(0, 1))
        over.set()
        await kills
        await world.clock.sleep(LAST_S)
        delivered = await client.read("T", 0)
        waited = [record for queue in range(4) for record in await client.read(SCHEDULE_TOPIC, queue)]
        await client.remoting.close()
        await machine.stop()
        assert machine.leaks == []
        return delivered, waited, machine.starts

    delivered, waited, starts = simulate(seed, main, limit_s=3600.0)
    assert starts > 1
    copies = Counter(bytes(record.body) for record in waited)
    assert set(copies) == {b"%d" % number for number in range(MESSAGES)}
    assert Counter(bytes(record.body) for record in delivered) == copies
    sooner: dict[bytes, int] = {}
    for record in waited:
        due_ms = record.store_timestamp + DELAYS_MS[record.queue_id]
        sooner[bytes(record.body)] = min(due_ms, sooner.get(bytes(record.body), due_ms))
    assert all(record.store_timestamp >= sooner[bytes(record.body)] for record in delivered)
