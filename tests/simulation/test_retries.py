"""Failing consumers while a broker is killed and restarted: no message is lost between its attempts.

A seed decides how often each message fails and when the broker is killed. Every copy that a broker acknowledged is
stored afterwards, each attempt increments the count, and at the end each message is consumed or a dead letter.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from functools import partial
from importlib.util import find_spec

import pytest
from simulation_rig.machines import Machine

from gantrymq.broker import BrokerServer
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.errors import GantryError
from gantrymq.formats.record import iter_records
from gantrymq.formats.tags_code import DEFAULT_DELAY_LEVELS, parse_delay_levels
from gantrymq.model.ids import parse_offset_id
from gantrymq.plugins import load_plugins
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.headers.send import ConsumerSendMsgBackRequest, SendMessageRequest
from gantrymq_testing.simulated import SimulatedProcess, simulate

pytestmark = [
    pytest.mark.skipif(find_spec("gantrymq_schedule") is None, reason="needs gantrymq-schedule"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),  # of a process that was killed
]

HOST, GROUP, MESSAGES, MOST = "10.0.1.1", "CG", 12, 5
RETRY, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
LIMIT_S = 3600.0
SHORT_LEVELS = "1s 1s 1s 2s 3s 4s 5s 6s"


def build(world, levels=SHORT_LEVELS):
    plugins = load_plugins("schedule,storage_mmap,filter_tag", reserved=SCHEMA)
    settings = Settings([*SCHEMA, *plugins.config])
    values = {
        "bindAddress": HOST,
        "brokerName": "broker-a",
        "storePathRootDir": f"/{HOST}/store",
        "store": "mmap",
        "flushDiskType": "SYNC_FLUSH",
        "messageDelayLevel": levels,
        "mappedFileSizeCommitLog": 1 << 20,
    }
    for key, value in values.items():
        settings.set(key, value, "the test")
    return BrokerServer(world, settings, plugins)


class Client:
    """Repeat the request until it is answered; it may then be executed twice."""

    def __init__(self, world):
        self.world = world
        self.remoting = RemotingClient(world)
        self.repeated = 0

    async def ask(self, code, header: object, body: bytes | None = None, codes=(0,)) -> Command:
        while True:
            try:
                ext = header if isinstance(header, dict) else header.to_ext()
                connection = await self.remoting.connect(f"{HOST}:10911")
                answer = await connection.call(request(code, dict(ext), body), 3)
                if answer.code in codes:
                    return answer
            except GantryError:
                pass
            self.repeated += 1
            await self.world.clock.sleep(0.2)

    async def send(self, body):
        values = {"default_topic": "TBW102", "default_topic_queue_nums": 1, "queue_id": 0, "sys_flag": 0, "flag": 0}
        own = f"KEYS\x01{body.decode()}\x02"
        header = SendMessageRequest(producer_group="P", topic="T", properties=own, born_timestamp=1, **values)
        answer = await self.ask(RequestCode.SEND_MESSAGE, header, body)
        return parse_offset_id(answer.ext["msgId"])[2]

    async def back(self, log_offset, most=MOST):
        header = ConsumerSendMsgBackRequest(
            offset=log_offset, group=GROUP, delay_level=0, origin_topic="T", max_reconsume_times=most
        )
        await self.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)

    async def read(self, topic, start):
        ext = {"consumerGroup": GROUP, "topic": topic, "queueId": "0", "queueOffset": str(start), "maxMsgNums": "32"}
        ext |= {
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
        }
        answer = await self.ask(RequestCode.PULL_MESSAGE, ext, codes=(0, 17, 19, 20, 21))
        return list(iter_records(answer.payload)) if answer.code == 0 else []


async def trouble(rng, world, machine, over):
    while not over.is_set():
        await world.clock.sleep(rng.uniform(0.5, 6))
        machine.crash()
        await world.clock.sleep(rng.uniform(0, 2))
        machine.start()
        await machine.ready()


async def consume(rng, client, failures):
    """Fail each message as often as planned; return the acknowledged and the delivered messages."""
    done, acknowledged, at = set(), [], 0
    for body in failures:
        offset = await client.send(body)
        if failures[body]:
            await client.back(offset)
            acknowledged.append((body, 1))
        else:
            done.add(body)
    dead: set[bytes] = set()
    while len(done | dead) < len(failures):
        for record in await client.read(RETRY, at):
            body, times = bytes(record.body), record.reconsume_times
            if times < failures[body]:
                await client.back(record.log_offset)
                acknowledged.append((body, times + 1))
            else:
                done.add(body)
            at = record.queue_offset + 1
        dead = {bytes(record.body) for record in await client.read(DEAD, 0)}
        await client.world.clock.sleep(0.1)
    return done, acknowledged


@pytest.mark.parametrize("seed", range(4))
def test_no_message_is_lost_between_its_tries(seed):
    rng = random.Random(f"{seed}/retries")
    failures = {b"m%d" % number: rng.choice([0, 1, 2, 3, MOST, MOST + 1, 99]) for number in range(MESSAGES)}

    async def main(world):
        machine = Machine(world, HOST, build)
        machine.start()
        await machine.ready()
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        client = Client(SimulatedProcess(world, loop, "10.0.2.1", 7).world)
        kills = asyncio.ensure_future(trouble(rng, world, machine, over))
        done, acknowledged = await consume(rng, client, failures)
        over.set()
        await kills
        stored = Counter((bytes(r.body), r.reconsume_times) for r in await all_of(client, RETRY))
        dead = Counter((bytes(r.body), r.reconsume_times) for r in await all_of(client, DEAD))
        for body, times in acknowledged:
            assert (stored if times <= MOST else dead)[body, times] >= 1
        for body, count in failures.items():
            if count <= MOST:
                assert body in done
                assert all((body, times) in stored for times in range(1, count + 1))
            else:
                assert dead[body, MOST + 1] >= 1
        twice = sum(n - 1 for n in (*stored.values(), *dead.values()))
        assert twice <= client.repeated * 32  # only from repeated requests, or redelivery after a kill
        await client.remoting.close()
        await machine.stop()
        assert machine.leaks == []
        return machine.starts

    assert simulate(seed, main, limit_s=LIMIT_S) > 1


async def all_of(client, topic):
    found = []
    while page := await client.read(topic, len(found)):
        found += page
    return found


def test_sixteen_tries_take_the_times_of_rocketmq_and_the_seventeenth_failure_is_the_last():
    levels_s = [level / 1000 for level in parse_delay_levels(DEFAULT_DELAY_LEVELS)]

    async def main(world):
        machine = Machine(world, HOST, partial(build, levels=DEFAULT_DELAY_LEVELS))
        machine.start()
        await machine.ready()
        process = SimulatedProcess(world, asyncio.get_running_loop(), "10.0.2.1", 7)
        client = Client(process.world)
        offset = await client.send(b"m")
        for attempt, wait_s in enumerate(levels_s[2:]):
            await client.back(offset, 16)
            await world.clock.sleep(wait_s - 0.5)
            assert await client.read(RETRY, attempt) == []
            await world.clock.sleep(1.5)
            (record,) = await client.read(RETRY, attempt)
            assert record.reconsume_times == attempt + 1
            offset = record.log_offset
        assert attempt == 15
        await client.back(offset, 16)
        (dead,) = await client.read(DEAD, 0)
        assert (dead.reconsume_times, dead.properties["RETRY_TOPIC"]) == (17, "T")
        await client.remoting.close()
        await machine.stop()
        assert machine.leaks == []

    simulate(1, main, limit_s=24 * 3600)
