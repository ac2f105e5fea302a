"""``gantrymq start --brokers`` as processes."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import attrs
import pytest
from polling import until, wait_until

from gantrymq.cli.server_settings import ServerArguments, name_server_settings
from gantrymq.cli.several.child import _stop_with_parent
from gantrymq.cli.several.planned import plan_brokers
from gantrymq.cli.several.servers import SeveralBrokers
from gantrymq.cli.several.supervision import BrokerNotStarted
from gantrymq.client import Client, Message
from gantrymq.errors import GantryError
from gantrymq.model.topic import TopicConfig
from gantrymq.world.real import real_world

PROGRAM = Path(sys.executable).parent / "gantrymq"
DEADLINE_S = 60
SMALL = ("--set", "mappedFileSizeCommitLog=4194304", "--set", "mappedFileSizeConsumeQueue=60000")
METRICS = ("--set", "metricsPromExporterPort=0") if find_spec("gantrymq_metrics") else ()

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
    pytest.mark.skipif(find_spec("gantrymq_storage_mmap") is None, reason="needs gantrymq-storage-mmap"),
]


@pytest.fixture
def run(tmp_path):
    """Start ``gantrymq start``; what is left at the end is killed."""
    processes = []

    def begin(*words):
        environ = {key: value for key, value in os.environ.items() if key != "NAMESRV_ADDR"}
        words = ("start", "--namesrv-port", 0, "--output", "json", *SMALL, *METRICS, *words)
        process = subprocess.Popen(
            [PROGRAM, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environ, "HOME": str(tmp_path)},
        )
        timer = threading.Timer(DEADLINE_S, process.kill)
        timer.start()
        processes.append((process, timer))
        return process

    yield begin
    for process, timer in processes:
        timer.cancel()
        process.kill()
        process.communicate()


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_two_brokers_are_one_start_and_one_stop_and_a_killed_one_comes_back(run, tmp_path):
    log = tmp_path / "log"
    own = [tmp_path / "0.conf", tmp_path / "1.conf"]
    own[0].write_text("flushDiskType=ASYNC_FLUSH\n")
    own[1].write_text("brokerName=other\n")
    files = [word for file in own for word in ("--broker-config", file)]
    words = ("--brokers", 2, *files, "--broker-port", 0, "--store", tmp_path / "store", "--log-file", log)
    process = run(*words)
    ready = json.loads(process.stdout.readline())
    assert ready.keys() == {"ready", "namesrv", "brokers", "start_ms"}
    assert [each["name"] for each in ready["brokers"]] == ["broker-0", "other"]
    assert [each["flush"] for each in ready["brokers"]] == ["ASYNC_FLUSH", "SYNC_FLUSH"]
    assert [each["store"] for each in ready["brokers"]] == [f"{tmp_path}/store/broker-0", f"{tmp_path}/store/other"]
    addresses = {each["broker"] for each in ready["brokers"]}
    victim = ready["brokers"][1]

    async def send():
        sent = []

        async def one(producer):
            with contextlib.suppress(GantryError):
                sent.append((await producer.send(Message("T", b"x"))).queue.broker_name)

        async with Client(ready["namesrv"]) as client, client.producer("senders") as producer:

            async def both():
                await one(producer)
                return {*sent} == {"broker-0", "other"}

            assert {*await client.admin.create_topic_in(TopicConfig("T"))} == addresses
            await until(both, "sends to both", poll_s=0)
            os.kill(victim["pid"], signal.SIGKILL)
            await until(lambda: not alive(victim["pid"]), "end of the process")
            before = len(sent)

            async def goes_on():
                await one(producer)
                return "ready again" in log.read_text() and "broker-0" in sent[before:]

            await until(goes_on, "restart and sends to the other broker", detail=log.read_text, poll_s=0.01)
            sent.clear()
            await until(both, "sends to the restarted broker", poll_s=0.01)
            assert {*await client.admin.masters()} == addresses

    asyncio.run(send())
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, errors) == (0, "")
    text = log.read_text()
    assert f"other (process {victim['pid']}) was killed by SIGKILL" in text
    assert "\nbroker-0 2" in text
    assert "\nother 2" in text
    assert not list((tmp_path / "store").glob("*/abort"))


def test_brokers_stop_when_the_supervising_process_is_killed(run, tmp_path):
    process = run("--brokers", 2, "--broker-port", 0, "--store", tmp_path / "store")
    brokers = json.loads(process.stdout.readline())["brokers"]
    process.kill()
    process.communicate(timeout=DEADLINE_S)
    for each in brokers:
        wait_until(lambda pid=each["pid"]: not alive(pid), "end of the broker")
    assert not list((tmp_path / "store").glob("*/abort"))  # they stopped, and were not killed


def test_a_broker_that_cannot_start_ends_all_with_its_sentence(run, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        own = [tmp_path / "0.conf", tmp_path / "1.conf"]
        own[0].write_text("listenPort=0\n")
        own[1].write_text(f"listenPort={port}\nfastPortEnable=false\n")
        process = run(*[word for file in own for word in ("--broker-config", file)], "--store", tmp_path / "store")
        out, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    assert f"gantrymq: broker-1: port {port} on 127.0.0.1 is taken by another process" in errors
    assert "Traceback" not in errors
    assert json.loads(out)["exit_code"] == 1
    assert not list((tmp_path / "store").glob("*/abort"))


class Deaf:
    """A process that is never ready, and ends only when it is killed."""

    pid = 1

    def __init__(self):
        self.ended = asyncio.get_running_loop().create_future()

    async def answer(self):
        await asyncio.shield(self.ended)

    async def wait(self):
        return await asyncio.shield(self.ended)

    def terminate(self):
        pass

    def kill(self):
        self.ended.set_result(-signal.SIGKILL)


class Refused(Deaf):
    """A process that cannot start."""

    async def answer(self):
        self.ended.set_result(1)
        return {"error": "StoreError", "message": "the disk is gone", "exit_code": 1}


def test_the_reason_of_a_failed_start_is_told_although_another_broker_must_be_killed(monkeypatch, tmp_path, caplog):
    started = []

    async def launch(name, work):
        started.append(Deaf() if name == "broker-0" else Refused())
        return started[-1]

    monkeypatch.setattr("gantrymq.cli.several.servers.launch", launch)
    world = attrs.evolve(real_world(), environ={})
    arguments = ServerArguments("gantrymq start", pairs=(f"storePathRootDir={tmp_path}",))
    names = ServerArguments("gantrymq start", pairs=("listenPort=0", f"kvConfigPath={tmp_path}/kvConfig.json"))

    async def work():
        servers = SeveralBrokers(
            world, name_server_settings(world, names), plan_brokers(world, arguments, 2), stop_limit_s=0.01
        )
        with pytest.raises(BrokerNotStarted, match="broker-1: the disk is gone"):
            await servers.start()
        await servers.stop()
        await world.workers.close()

    asyncio.run(work())
    assert "broker-0 did not stop within 0.01 s and was killed" in caplog.text
    assert all(each.ended.done() for each in started)


def test_files_and_number_must_agree(run, tmp_path):
    file = tmp_path / "a.conf"
    file.write_text("")
    process = run("--brokers", 2, "--broker-config", file)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert "--brokers 2 needs --broker-config 2 times" in errors


def test_a_broker_that_hangs_when_its_parent_is_gone_is_killed():
    reader, writer = os.pipe()
    signals = []
    with contextlib.closing(os.fdopen(reader, "rb")):
        os.write(writer, b"more")
        os.close(writer)
        _stop_with_parent(7, reader, lambda pid, number: signals.append((pid, number)), limit_s=0.01)
    assert signals == [(7, signal.SIGTERM), (7, signal.SIGKILL)]
