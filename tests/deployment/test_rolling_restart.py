"""Servers of a cluster are killed and started again in turn, then restarted, while clients send and consume.

Two name servers and two masters with a slave each, restarted as docs/operations/rolling-restart.md says. Nothing that
was acknowledged is lost, and while any one server is gone, sends are acknowledged.
"""

import asyncio
import re
import signal
import time

import pytest
from planned_cluster import PlannedCluster
from polling import until

from gantrymq.client import Client, ClientError, Message, TopicConfig

DESCRIPTION = """
cluster = "orders"
masters = 2
slaves = 1
name_servers = 2
data = "/data"

[machines]
m1 = "NETWORK.1"
m2 = "NETWORK.2"
m3 = "NETWORK.3"

[settings]
brokerRole = "SYNC_MASTER"
inSyncReplicas = 2
slaveTimeout = 1000
mappedFileSizeCommitLog = 4194304
metricsExporterType = "DISABLE"
fastPortEnable = false
"""
TOPIC = "Orders"
ENOUGH = 50  # acknowledgements that show that sends go on
LIMIT_S = 45.0
SEND_S = 10.0  # of one send, with its retries; generous for a busy machine


class Load:
    """A producer and a consumer, and what they saw."""

    def __init__(self, client):
        self._client = client
        self.acknowledged, self.seen = {}, set()  # number to broker; numbers
        self.refused, self.number = [], 0
        self.longest_pause_s, self._last = 0.0, time.monotonic()
        self._stop = False

    async def send(self):
        """Send until `stop`, one message after the other."""
        producer = self._client.producer("shop", retry_not_stored=True, default_timeout_s=SEND_S)
        while not self._stop:
            self.number += 1
            number = self.number
            try:
                result = await producer.send(Message(TOPIC, b"<%07d>" % number + b"." * (number % 300)))
            except ClientError as problem:
                self.refused.append(problem)
                continue
            if result.ok:
                now = time.monotonic()
                self.longest_pause_s, self._last = max(self.longest_pause_s, now - self._last), now
                self.acknowledged[number] = result.queue.broker_name

    async def consume(self):
        """Consume until cancelled."""
        consumer = self._client.consumer("billing", TOPIC, consume_from="first")
        async for message in consumer:
            self.seen.add(int(message.body[1:8]))

    def stop(self):
        """Let `send` end."""
        self._stop = True

    async def goes_on(self, broker=None):
        """Wait for further acknowledgements, of *broker* if it is given."""
        before = set(self.acknowledged)

        def enough():
            new = self.acknowledged.keys() - before
            return len([number for number in new if broker in (None, self.acknowledged[number])]) >= ENOUGH

        await until(enough, f"{ENOUGH} acknowledgements", LIMIT_S)


async def restart(cluster, server, how, load):
    """End *server* by the signal *how*, see that sends go on without it, start it, and wait until it serves again."""
    if server.broker:
        for other in cluster.of_kind("master"):
            await load.goes_on(other.broker)  # clients find a master that is back after up to 30 s
    slaves = [each for each in cluster.of_kind("slave") if each.broker == server.broker]
    followed = [each.times_followed() for each in slaves]
    code = await server.end(how)
    assert code == (0 if how == signal.SIGTERM else -how)
    load.longest_pause_s = 0.0
    await load.goes_on()
    await server.start()
    if server.broker:
        pairs = list(zip(slaves, followed, strict=True))
        await until(lambda: all(each.times_followed() > times for each, times in pairs), "slave that follows", LIMIT_S)
    return (
        f"{signal.Signals(how).name} {server.kind} {server.name}: longest pause of sends {load.longest_pause_s:.2f} s"
    )


@pytest.mark.parametrize(
    ("signals", "of_each_kind"),
    [
        pytest.param((signal.SIGKILL,), 1, marks=pytest.mark.slow, id="one server of each kind is killed"),
        pytest.param((signal.SIGKILL, signal.SIGTERM), 2, marks=pytest.mark.long, id="each is killed, then stopped"),
    ],
)
def test_nothing_acknowledged_is_lost_when_servers_are_restarted_in_turn(tmp_path, signals, of_each_kind):
    async def main():
        async with PlannedCluster(DESCRIPTION, tmp_path) as cluster, Client(cluster.namesrv) as client:
            await client.admin.create_topic_in(TopicConfig(TOPIC, read_queues=4, write_queues=4))
            load, told = Load(client), []
            async with asyncio.TaskGroup() as tasks:
                consuming = tasks.create_task(load.consume())
                sending = [tasks.create_task(load.send()) for _ in range(2)]
                await load.goes_on()
                kinds = ("name server", "slave", "master")
                order = [server for kind in kinds for server in cluster.of_kind(kind)[:of_each_kind]]
                for how in signals:
                    for server in order:
                        told.append(await restart(cluster, server, how, load))
                load.stop()
                await asyncio.wait(sending)
                await until(lambda: load.seen >= load.acknowledged.keys(), "consumption", LIMIT_S)
                consuming.cancel()
            brokers = [*cluster.of_kind("master"), *cluster.of_kind("slave")]
            for server in brokers:
                assert await server.end(signal.SIGTERM) == 0
            print(*told, sep="\n")
            print(len(load.acknowledged), "acknowledged,", len(load.refused), "refused,", load.number, "sent")
            return load, {server: server.copied_log() for server in brokers}

    load, logs = asyncio.run(main())
    assert (load.refused, len(load.acknowledged)) == ([], load.number)  # each send, after retries, has SEND_OK
    for server, log in logs.items():
        there = {int(number) for number in re.findall(rb"<(\d{7})>", log)}
        its = {number for number, broker in load.acknowledged.items() if broker == server.broker}
        assert len(its) > ENOUGH
        assert its - there == set(), f"acknowledged and not in the log of {server.name}"
        copies = [other for each, other in logs.items() if each.broker == server.broker]
        assert all(log == other for other in copies), f"{server.broker}: master and slave differ"
