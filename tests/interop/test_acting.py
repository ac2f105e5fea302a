"""A slave acts for its killed master: what waits comes on time through another broker name, each message once.

Master and slave are of two kinds, the other broker name is ours.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, Process, create_topic
from harness.ports import free_port
from harness.probe import request, route_of
from polling import wait_until

from gantrymq.client import Client, Message, MessageQueue

pytestmark = pytest.mark.interop

OURS, JAVA = "ours", "5.3.3"
Running = Callable[[Process], Process]
NAMES = {"supportActingMaster": "true", "notifyMinBrokerIdChanged": "true"}
ACTING = {
    "enableSlaveActingMaster": "true",
    "enableRemoteEscape": "true",
    "totalReplicas": "2",
    "slaveReadEnable": "true",
    "messageDelayLevel": "1s 12s 45s",
    "timerWheelEnable": "true",
    "transactionCheckInterval": "1000",
    "mappedFileSizeCommitLog": "1048576",
}
IN_GROUP = {"brokerName": "broker-a", "transactionTimeOut": "15000"}  # before that the master does not check
OTHER = {"brokerName": "broker-b", "transactionTimeOut": "1000"}
# A Java master saves its timers each second while it takes over, and may overwrite what its slave told
# (TimerMessageStore.prepareTimerCheckPoint).
RARE_SAVES = {"timerFlushIntervalMs": "60000"}
WORDS = ["ask-commit"] * 4
SLAVE = {"brokerRole": "SLAVE", "brokerId": "1"}
COPIED_S, DUE_S, RETURN_S = 60.0, 30.0, 60.0
EARLY_MS, LATE_MS = 1000, 4000
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
GET_MAX_OFFSET, GET_TIMER_CHECK_POINT = 30, 60


def start(kind: str, scratch: Path, namesrv: str, ports: tuple[int, int], settings: dict[str, str]) -> Process:
    """Start a broker of *kind* on the store in *scratch*, which may exist."""
    ha = {"haListenPort": str(ports[1])}
    if kind == OURS:
        own = {"listenPort": str(ports[0]), "metricsExporterType": "DISABLE", **ha}
        return GantryServer.broker(scratch, namesrv, settings={**ACTING, **settings, **own})
    return JavaBroker(kind, scratch, namesrv, settings={**ACTING, **settings, **ha}, port=ports[0])


async def send(namesrv: str, topic: str) -> dict[str, int]:
    """Send messages of both kinds of delay to broker-a; return their times by key."""
    due = {}
    async with Client(namesrv) as client, client.producer("acting") as producer:
        for number in range(4):
            queue = MessageQueue(topic, "broker-a", number % 2)
            for name, seconds, delay in (
                ("level", 12, {"delay_level": 2}),
                ("late", 45, {"delay_level": 3}),
                ("timed", 10 + number, {"delay_ms": 1000 * (10 + number)}),
                ("long", 45, {"delay_ms": 45_000}),
            ):
                key = f"{name}{number}"
                await producer.send(Message(topic, b"acting", keys=key, **delay), queue=queue)
                due[key] = round(time.time() * 1000) + 1000 * seconds
    return due


def end_of(address: str, topic: str, queue_id: int) -> int:
    """Return the end of a queue at one broker, -1 if it has none or does not answer."""
    try:
        header, _ = request(address, GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)})
    except OSError:
        return -1
    return int(header["extFields"]["offset"]) if header["code"] == 0 else -1


def saved_timers(store: Path) -> int:
    """Return how many timed messages a broker has saved; a killed Java broker repeats those after them."""
    check = store / "config" / "timercheck"
    return int.from_bytes(check.read_bytes()[16:24], "big") if check.exists() else 0


def timers_read(address: str) -> int:
    """Return the time up to which a slave says that it has delivered timed messages."""
    header, body = request(address, GET_TIMER_CHECK_POINT, {})
    return int.from_bytes(body[:8], "big") if header["code"] == 0 else 0


def delivered(address: str, topic: str) -> int:
    """Return how many messages of *topic* one broker has."""
    return sum(max(0, end_of(address, topic, queue_id)) for queue_id in range(2))


@pytest.mark.parametrize(
    ("names", "master_kind", "slave_kind"),
    [
        pytest.param(OURS, JAVA, OURS, id="java master", marks=pytest.mark.long),
        pytest.param(OURS, OURS, OURS, id="ours", marks=pytest.mark.long),
        pytest.param(OURS, OURS, JAVA, id="java slave"),
        pytest.param(JAVA, JAVA, OURS, id="java master and name server", marks=pytest.mark.long),
    ],
)
def test_what_waits_at_a_killed_master_comes_once(
    names: str, master_kind: str, slave_kind: str, running: Running, tmp_path: Path, topic: str
) -> None:
    namesrv = name_server(names, tmp_path / "names", running)
    ports = [(free_port(also_below=2), free_port()) for _ in range(3)]
    at_master, at_slave, at_other = (f"127.0.0.1:{port}" for port, _ in ports)
    running(start(OURS, tmp_path / "other", namesrv, ports[2], OTHER))
    master = running(start(master_kind, tmp_path / "master", namesrv, ports[0], IN_GROUP))
    wait_until(lambda: at_master in (route_of(namesrv, "TBW102") or ""), "the master", COPIED_S)
    create_topic(namesrv, topic, 2)
    running(start(slave_kind, tmp_path / "slave", namesrv, ports[1], {**IN_GROUP, **SLAVE}))
    wait_until(lambda: at_slave in (route_of(namesrv, topic) or ""), "the slave", COPIED_S)
    queues = [("SCHEDULE_TOPIC_XXXX", 1), ("SCHEDULE_TOPIC_XXXX", 2), ("rmq_sys_wheel_timer", 0), (HALF_TOPIC, 0)]
    due = asyncio.run(send(namesrv, topic))
    driver = Driver(JAVA, tmp_path / "client", namesrv)
    producer = running(driver.start("decide", topic=topic, prefix="half", words=",".join(WORDS)))
    producer.wait_for(lambda p: p.of("started"), "started")

    def copied() -> bool:
        return all(end_of(at_slave, *each) == end_of(at_master, *each) > 0 for each in queues)

    wait_until(copied, "the copy", COPIED_S, lambda: str([end_of(at_slave, *each) for each in queues]))
    timers = sum(key.startswith(("timed", "long")) for key in due)
    wait_until(lambda: saved_timers(tmp_path / "master" / "store") >= timers, "saved timers of the master", COPIED_S)
    master.kill()
    soon = {key for key in due if key.startswith(("level", "timed"))}
    wait_until(lambda: delivered(at_other, topic) >= len(soon) + len(WORDS), "messages at the other broker", DUE_S)
    last_ms = max(due[key] for key in soon)
    wait_until(lambda: timers_read(at_slave) > last_ms, "saved timers of the slave", DUE_S)  # Java's lags by a second
    running(start(master_kind, tmp_path / "master", namesrv, ports[0], {**IN_GROUP, **RARE_SAVES}))
    last_s = max(due.values()) / 1000 + LATE_MS / 1000
    wait_until(lambda: time.time() > last_s, "the time of the last one", RETURN_S)
    got = driver.pull(topic)
    halves = [f"k{number}" for number in range(1, len(WORDS) + 1)]
    assert Counter(str(each["keys"]) for each in got) == Counter([*due, *halves])
    for each in (each for each in got if each["keys"] in due):
        late_ms = int(each["storeTimestamp"]) - due[each["keys"]]
        assert -EARLY_MS < late_ms < LATE_MS, each
    assert delivered(at_other, topic) + delivered(at_master, topic) == len(due) + len(WORDS)


def name_server(kind: str, scratch: Path, running: Running) -> str:
    """Start a name server of *kind* and return its address."""
    if kind == OURS:
        ours = GantryServer.name_server(scratch, settings=NAMES)
        running(ours)
        return ours.namesrv
    java = JavaNameServer(kind, scratch, settings=NAMES)
    running(java)
    return java.address
