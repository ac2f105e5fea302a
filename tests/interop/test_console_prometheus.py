"""The history of the console from a real Prometheus, which scrapes two real brokers; one of them is killed.

Needs the program ``prometheus``; `.ci/run` unpacks it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from polling import until

from gantrymq.client import Client, Message, TopicConfig

pytest.importorskip("gantrymq_console")
pytestmark = pytest.mark.interop
PROGRAM = Path(sys.executable).parent / "gantrymq"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


class Rig:
    """Processes, which are killed at the end."""

    def __init__(self, folder):
        self.folder = folder
        self.stack = ExitStack()
        self.metrics = {}
        self.brokers = {}

    def start(self, *words, **env):
        with (self.folder / "stderr").open("a") as errors:
            child = subprocess.Popen(
                list(map(str, words)),
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "HOME": str(self.folder), **env},
            )
        self.stack.callback(child.stdout.close)
        self.stack.callback(child.wait, 60)
        self.stack.callback(child.kill)
        return child

    def gantrymq(self, *words, **env):
        child = self.start(PROGRAM, *words, "--output", "json", **env)
        line = child.stdout.readline()
        assert line, "it ended"
        return child, json.loads(line)

    def broker(self, name, *words):
        port = self.metrics[name] = self.metrics.get(name) or free_port()
        settings = {"brokerName": name, "metricsPromExporterPort": port, "brokerClusterName": "Fruit"}
        sets = [word for pair in settings.items() for word in ("--set", "{}={}".format(*pair))]
        child, ready = self.gantrymq(*words, "--store", self.folder / name, *sets)
        self.brokers[name] = child
        return ready

    def prometheus(self):
        """Start it below /prom and behind a password; return its address."""
        program = shutil.which("prometheus") or pytest.skip("prometheus is not here")
        targets = [f"127.0.0.1:{port}" for port in self.metrics.values()]
        job = {"job_name": "gantrymq", "static_configs": [{"targets": targets, "labels": {"env": "test"}}]}
        config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}
        (self.folder / "prometheus.yml").write_text(json.dumps(config))
        port = free_port()
        self.start(
            program,
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--web.external-url=http://127.0.0.1:{port}/prom",
        )
        return f"http://127.0.0.1:{port}/prom"


@pytest.fixture
def rig(tmp_path):
    found = Rig(tmp_path)
    with found.stack:
        yield found


def test_curves_are_those_of_prometheus_and_a_broker_that_is_gone_is_a_gap(rig):
    ready = rig.broker("apple", "start", "--namesrv-port", 0, "--broker-port", 0)
    names = ready["namesrv"]
    rig.broker("berry", "broker", "-n", names, "--port", 0)
    address = rig.prometheus()
    _, told = rig.gantrymq(
        *("console", "-n", names, "--listen", "127.0.0.1:0", "--no-login", "--state", rig.folder / "console"),
        *("--prometheus", address, "--prometheus-label", "env=test"),
    )

    def fetched(path):
        with urllib.request.urlopen(told["console"] + path, timeout=20) as found:
            return found.read()

    def history(kind, name=""):
        query = urllib.parse.urlencode({"kind": kind, "name": name})
        found = json.loads(fetched(f"api/v1/history?{query}"))["data"]
        assert found["problem"] == "", found["problem"]
        return {each["word"]: each["values"] for each in found["curves"]}

    def last(kind, name, word):
        """The last known value of the curve."""
        return next((each for each in reversed(history(kind, name)[word]) if each is not None), None)

    def unknown(kind, name, word):
        """Whether nothing is known of the last steps that are over."""
        return history(kind, name)[word][-4:-1] == [None] * 3

    async def eventually(look, what):
        return await until(lambda: asyncio.to_thread(look), what, 90, poll_s=0.5)

    async def work():
        async with Client(names) as client:
            await client.admin.create_topic_in(TopicConfig("Orders", read_queues=2, write_queues=2))
            producer, begun, sent = client.producer("shop"), time.monotonic(), 0

            async def send():
                nonlocal sent
                while True:
                    await producer.send(Message("Orders", b"hello"))
                    sent += 1
                    await asyncio.sleep(0.05)  # real time: Prometheus shows the rate of these messages

            sending = asyncio.create_task(send())
            consumer = client.consumer("billing", "Orders", consume_from="first")
            async for _ in consumer:
                break
            await consumer.close()

            def is_rate(kind, name):
                rate = sent / (time.monotonic() - begun)
                return abs((last(kind, name, "in") or 0) - rate) < rate / 4

            await eventually(lambda: is_rate("topic", "Orders"), "the rate of the topic")
            await eventually(lambda: is_rate("cluster", ""), "the rate of the cluster")
            sending.cancel()
            await asyncio.wait([sending])

            def lag():
                return float(json.loads(fetched("api/v1/groups?filter=billing"))["data"]["groups"][0]["lag"])

            assert lag() > 0
            await eventually(lambda: last("group", "billing", "lag") == lag(), "the lag of the group")
            found = history("group", "billing")
            assert max(each or 0 for each in found["late_s"]) > 1
            assert {each for each in found["dead_letters"] if each is not None} == {0}
            assert 0 < last("broker", "apple", "disk") < 100 and 0 < last("broker", "berry", "disk") < 100
            oldest_s = max(filter(None, (last("broker", name, "oldest_s") for name in rig.brokers)))
            assert 0 < oldest_s < time.monotonic() - begun + 2
            page = (await asyncio.to_thread(fetched, "history?kind=topic&name=Orders&view=table")).decode()
            assert "<td" in page and "cannot be read" not in page

            rig.brokers["berry"].kill()
            await eventually(lambda: unknown("broker", "berry", "disk"), "a gap of the broker")
            assert unknown("cluster", "", "in") and unknown("topic", "Orders", "in"), "sums lack a broker"
            assert not unknown("broker", "apple", "disk")

    asyncio.run(work())
