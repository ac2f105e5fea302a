"""The log lines of clients of every kind while servers are away for three minutes."""

import asyncio
import logging
from collections import Counter

import pytest
from simulation_rig.machines import broker, name_server

from gantrymq.broker import BrokerServer
from gantrymq.client import Client, Message
from gantrymq.model.topic import TopicConfig
from gantrymq_testing.simulated import SimulatedProcess, simulate

pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),  # of a process that was killed
]

BROKER, NAMESRV = "10.0.1.1", "10.0.0.1:9876"
AWAY_S = 180.0
LIMIT_S = 3600.0
SETTINGS = {
    "store": "mmap",
    "flushDiskType": "SYNC_FLUSH",
    "mappedFileSizeCommitLog": 1 << 20,
    "traceTopicEnable": True,
}


class Warnings(logging.Handler):
    """Warnings logged by clients, by time."""

    def __init__(self, now):
        super().__init__(logging.INFO)
        self._now = now
        self.found = []
        self.told = []

    def emit(self, record):
        if record.exc_info:
            return  # of a handler that raises
        (self.found if record.levelno >= logging.WARNING else self.told).append((self._now(), record.getMessage()))


async def reading(loop_of):
    async for message in loop_of:
        message.body  # noqa: B018


def run(away, seed=1):
    """Keep these servers down for *away*. Return the warnings during the outage, and the lines that report its end."""

    async def main(world):
        servers = {"name server": name_server(world, "10.0.0.1"), "broker": broker(world, BROKER, NAMESRV, SETTINGS)}
        for machine in servers.values():
            machine.start()
            await machine.ready()
        assert isinstance(servers["broker"].server, BrokerServer)
        topics = servers["broker"].server.tables.topics
        for topic in ("T", "U"):
            topics.put(TopicConfig(topic, read_queues=3, write_queues=3))
        process = SimulatedProcess(world, asyncio.get_running_loop(), "10.0.3.1", 100)
        handler = Warnings(world.clock.monotonic)

        async def work():
            clock = process.world.clock
            async with Client(NAMESRV, world=process.world) as client:
                producer = client.producer("P", trace=True)
                for topic in ("T", "U"):
                    for number in range(16):
                        await producer.send(Message(topic, b"%d" % number), timeout_s=20.0)

                async def handle(message):
                    await clock.sleep(1.0)

                async def fails(message):
                    raise ValueError

                given = {"consume_from": "first"}
                members = [
                    client.consumer("concurrent", {"T": "*", "U": "*"}, trace=True, **given),
                    client.consumer("orderly", "T", orderly=True, **given),
                ]
                tasks = [asyncio.ensure_future(each.run(handle)) for each in members]
                failing = client.consumer("failing", "U", **given)
                lite, pop = client.lite_pull("lite", "T", **given), client.pop_consumer("pop", "T", renew_for_s=3600)
                tasks += [asyncio.ensure_future(reading(each)) for each in (lite, pop, client.reader("U", follow=True))]
                await clock.sleep(10.0)
                tasks.append(asyncio.ensure_future(failing.run(fails)))
                await clock.sleep(0.1)
                begun = clock.monotonic()
                logging.getLogger("gantrymq.client").addHandler(handler)
                for name in away:
                    servers[name].crash()
                await clock.sleep(AWAY_S)
                ended = clock.monotonic()
                for name in away:
                    servers[name].start()
                    await servers[name].ready()
                await clock.sleep(30.0)
                await client.close(1.0)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                return begun, ended

        level = logging.getLogger("gantrymq.client").level
        logging.getLogger("gantrymq.client").setLevel(logging.INFO)
        try:
            begun, ended = await process.run(work())
        finally:
            logging.getLogger("gantrymq.client").removeHandler(handler)
            logging.getLogger("gantrymq.client").setLevel(level)
        for machine in reversed(servers.values()):
            await machine.stop()
        during = [(at - begun, text) for at, text in handler.found if at <= ended]
        return during, [text for _, text in handler.told if "answers again" in text]

    return simulate(seed, main, limit_s=LIMIT_S)


@pytest.mark.parametrize("away", [["broker"], ["name server"], ["name server", "broker"]])
def test_a_server_that_is_away_is_one_warning_a_minute(away):
    warnings, ends = run(away)
    per_minute = Counter(int(at // 60) for at, _ in warnings)
    assert warnings
    assert len(warnings) <= len(away) * AWAY_S / 60, warnings
    assert max(per_minute.values()) <= 2 * len(away), (
        warnings
    )  # two warnings 60 s apart may fall into one minute by the clock
    assert len(ends) == len(away), ends
