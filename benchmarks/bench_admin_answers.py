"""Answers that grow with topics, groups, queues or clients: time, longest step of the event loop, size, and our client.

    python benchmarks/bench_admin_answers.py                          5,000 topics of 8 queues, 2,000 groups
    python benchmarks/bench_admin_answers.py --topics 500 --only 317  a tenth of it, one request

`gantrymq start` with the store in memory and the name server in its process; steps are those of its loop
(`loop_watch.py`). Every queue has a message. Every topic has committed offsets of one group, which makes 40,000
offsets; then two more groups get offsets for every topic, one of them with a lag in every queue, and one topic gets
offsets of every group and more queues (`--wide`). Clients are connections with a heartbeat, all of one consumer and one
producer group.

Each request is sent three times over a raw connection; the row has the medians of its time and of the longest step, and
the most CPU time of the loop's thread between two calls of a timer that is due every 2 ms: other load delays steps, but
adds no CPU time. Then the client library sends it: its time, the longest step of its own loop, and whether it reads
the answer. Registrations are those after a topic is deleted, with the steps of both servers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from arguments import existing_folder, whole
from load_client import BrokerProcess, Connection, Pump, Request, connect, raise_descriptor_limit, send_request
from loop_watch import LONG_MS, LoopWatch, idle_log
from many_queues import group_name, topic_name

from gantrymq.client import Client
from gantrymq.client.admin import Admin
from gantrymq.errors import GantryError
from gantrymq.formats.config import (
    CONSUMER_OFFSETS,
    GROUPS,
    TOPICS,
    ConsumerOffsetsFile,
    GroupsFile,
    TopicsFile,
    pretty,
    save,
)
from gantrymq.model.group import GroupConfig
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode as Code
from gantrymq.remoting.headers.clients import ResetOffsetRequest
from gantrymq.remoting.headers.groups import QueryCorrectionOffsetRequest
from gantrymq.world.real import real_world
from gantrymq_admin.summaries import ConnectionSummaries, GroupSummaries, TopicSummaries, summary_page

ROUNDS: Final = 3
UNDER_WAY: Final = 64
SETTLE_S: Final = 0.3  # includes work that continues after an answer
REGISTERED_S: Final = 6.0  # a full registration follows a deletion within 5 s
PATIENCE_S: Final = 60.0
PERIOD_S: Final = 0.002
TABLE_KEPT_S: Final = 40.0  # longer than brokers keep lists of groups, connections and topics of this size
WIDE: Final = "Wide"
READER: Final = "reads-every-topic"
COPY: Final = "copy"
BEHIND: Final = "reads-nothing"  # the oldest message of each queue has to be read
ONLINE: Final = "online"
NAMESPACE: Final = "ORDER_TOPIC_CONFIG"

Read = Callable[[Admin, str], Awaitable[object]]


class Row(NamedTuple):
    """A request and the call of our client that reads its answer."""

    code: Code
    ext: dict[str, str]
    read: Read
    at_name_server: bool = False
    body: bytes = b""
    name: str = ""  # of a request of GantryMQ's own
    pause_s: float = 0.0  # before each request


def _list(code: int, name: str, order: str, read: Read) -> Row:
    """Return a page of 200 rows of a table that the broker computes anew."""
    body = json.dumps({"sort": order, "most": 200}).encode()
    return Row(cast(Code, code), {}, read, body=body, name=f"{name} by {order}", pause_s=TABLE_KEPT_S)


def _json(code: Code, header: Any = None) -> Read:
    return lambda admin, address: admin.request_json(address, code, header, what="the answer")


def rows(topics: int) -> list[Row]:
    """The requests, except for those that need further offsets."""
    wide = {"topic": WIDE, "group": READER, "consumerGroup": READER}
    correction = QueryCorrectionOffsetRequest(topic=WIDE, compare_group=READER, filter_groups="")
    reset = ResetOffsetRequest(topic=WIDE, group=READER, timestamp=-1, is_force=True)
    page = {"topicSeq": "0", "maxTopicNum": "2000"}
    return [
        Row(Code.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}, lambda admin, at: admin.broker_progress(at)),
        Row(Code.GET_ALL_TOPIC_CONFIG, {}, lambda admin, at: admin.topic_configs(at)),
        Row(Code.GET_ALL_TOPIC_CONFIG, page, _json(Code.GET_ALL_TOPIC_CONFIG)),
        Row(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {}, lambda admin, at: admin.groups(at)),
        Row(Code.GET_ALL_CONSUMER_OFFSET, {}, _json(Code.GET_ALL_CONSUMER_OFFSET)),
        Row(Code.GET_ALL_DELAY_OFFSET, {}, _json(Code.GET_ALL_DELAY_OFFSET)),
        Row(Code.GET_BROKER_RUNTIME_INFO, {}, lambda admin, at: admin.runtime_info(at)),
        Row(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, {}, _json(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)),
        Row(Code.GET_ALL_MESSAGE_REQUEST_MODE, {}, _json(Code.GET_ALL_MESSAGE_REQUEST_MODE)),
        Row(Code.GET_TIMER_METRICS, {}, _json(Code.GET_TIMER_METRICS)),
        Row(Code.GET_TOPIC_STATS_INFO, wide, lambda admin, at: admin.topic_stats(at, WIDE)),
        Row(Code.QUERY_TOPIC_CONSUME_BY_WHO, wide, lambda admin, at: admin.groups_of_topic(at, WIDE)),
        Row(Code.GET_CONSUME_STATS, {"consumerGroup": READER}, lambda admin, at: admin.group_progress(at, READER)),
        Row(Code.QUERY_TOPICS_BY_CONSUMER, wide, lambda admin, at: admin.topics_of_group(at, READER)),
        Row(Code.QUERY_CONSUME_TIME_SPAN, wide, lambda admin, at: admin.group_times(at, READER, WIDE)),
        Row(
            Code.QUERY_CORRECTION_OFFSET,
            {"topic": WIDE, "compareGroup": READER, "filterGroups": ""},
            _json(Code.QUERY_CORRECTION_OFFSET, correction),
        ),
        Row(
            Code.INVOKE_BROKER_TO_RESET_OFFSET,
            {**wide, "timestamp": "-1", "isForce": "true"},
            _json(Code.INVOKE_BROKER_TO_RESET_OFFSET, reset),
        ),
        Row(
            Code.CLONE_GROUP_OFFSET,
            {"srcGroup": READER, "destGroup": COPY, "topic": "", "offline": "true"},
            lambda admin, at: admin.topics_of_group(at, COPY),
        ),
        Row(Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": ONLINE}, lambda admin, at: admin.members(at, ONLINE)),
        Row(
            Code.GET_CONSUMER_CONNECTION_LIST,
            {"consumerGroup": ONLINE},
            lambda admin, at: admin.consumer_connections(at, ONLINE),
        ),
        Row(
            Code.GET_PRODUCER_CONNECTION_LIST,
            {"producerGroup": ONLINE},
            lambda admin, at: admin.producer_connections(at, ONLINE),
        ),
        Row(Code.GET_ALL_PRODUCER_INFO, {}, lambda admin, at: admin.producers(at)),
        _list(
            65023,
            "groups",
            "behind",
            lambda admin, at: summary_page(admin, at, GroupSummaries, order="behind", most=200),
        ),
        _list(
            65023, "groups", "late", lambda admin, at: summary_page(admin, at, GroupSummaries, order="late", most=200)
        ),
        _list(65024, "connections", "since", lambda admin, at: summary_page(admin, at, ConnectionSummaries, most=200)),
        _list(
            65025, "topics", "name", lambda admin, at: summary_page(admin, at, TopicSummaries, order="name", most=200)
        ),
        _list(
            65025, "topics", "kept", lambda admin, at: summary_page(admin, at, TopicSummaries, order="kept", most=200)
        ),
        Row(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}, lambda admin, at: admin.topics(at), True),
        Row(
            Code.GET_TOPICS_BY_CLUSTER,
            {"cluster": "DefaultCluster"},
            lambda admin, at: admin.topics_of_cluster("DefaultCluster"),
            True,
        ),
        Row(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, {}, _json(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS), True),
        Row(Code.GET_UNIT_TOPIC_LIST, {}, _json(Code.GET_UNIT_TOPIC_LIST), True),
        Row(Code.GET_BROKER_CLUSTER_INFO, {}, lambda admin, at: admin.clusters(at), True),
        Row(Code.GET_KVLIST_BY_NAMESPACE, {"namespace": NAMESPACE}, lambda admin, at: admin.kv_values(NAMESPACE), True),
    ]


def write_tables(root: Path, options: argparse.Namespace) -> None:
    """Write the tables of the broker: each topic has offsets of one group."""
    files, folder = real_world().files, root / "config"
    owners = [group_name(number) for number in range(options.groups)]
    listed = [topic_name(number) for number in range(options.topics)]
    topics = {name: TopicConfig(name, options.queues, options.queues) for name in listed}
    offsets = {
        f"{name}@{owners[number % len(owners)]}": dict.fromkeys(range(options.queues), 1)
        for number, name in enumerate(listed)
    }
    topics[WIDE] = TopicConfig(WIDE, options.wide, options.wide)
    mode = {"consumerGroup": ONLINE, "mode": "POP", "popShareQueueNum": 8}
    modes = {name: {ONLINE: {**mode, "topic": name}} for name in topics}
    save(files, folder / TOPICS, TopicsFile(topics).to_text())
    groups = {name: GroupConfig(name) for name in (*owners, READER, COPY, BEHIND)}
    save(files, folder / GROUPS, pretty(GroupsFile(groups).to_json()))
    save(files, folder / CONSUMER_OFFSETS, pretty(ConsumerOffsetsFile(offsets).to_json()))
    save(files, folder / "messageRequestMode.json", pretty({"messageRequestModeMap": modes}))
    counts = {name: {"count": 1, "timeStamp": 1} for name in topics}
    save(files, folder / "timermetrics", json.dumps({"dataVersion": {}, "timingCount": counts}))


class OwnLoop:
    """The longest step of this process's loop."""

    def __init__(self) -> None:
        self.longest_ms = 0.0

    async def watch(self) -> None:
        """Measure until cancelled."""
        while True:
            due = time.monotonic() + PERIOD_S
            await asyncio.sleep(PERIOD_S)
            self.longest_ms = max(self.longest_ms, (time.monotonic() - due) * 1000)


class Bench:
    """The measurements on one broker."""

    def __init__(self, options: argparse.Namespace, broker: BrokerProcess, watch: LoopWatch, idle: Path) -> None:
        self._options = options
        self._broker = broker
        self._name_server = str(broker.ready["namesrv"])
        self._watch = watch
        self._idle = idle
        self._good = True

    async def run(self) -> bool:
        """Print all rows; return whether no step was too long and every answer was read."""
        connections = await connect(self._broker.address, 8)
        (name_server,) = await connect(self._name_server)
        await self._fill(connections)
        online = await self._online()
        print(f"{'request':44}{'answer':>9}{'time':>10}{'step':>10}{'CPU':>10}{'client':>10}{'its step':>10}")
        async with Client(self._name_server) as client:
            admin = client.admin
            admin.timeout_s = PATIENCE_S
            for number, row in enumerate(rows(self._options.topics)):
                if number == 1:
                    await _all(connections, self._more_offsets())
                if self._options.only in (0, row.code):
                    await self._row(row, name_server if row.at_name_server else connections[0], admin)
        if self._options.only in (0, Code.REGISTER_BROKER):
            await self._registration(connections[0])
        for connection in [*connections, *online, name_server]:
            connection.close()
        return self._good

    async def _row(self, row: Row, connection: Connection, admin: Admin) -> None:
        times, longest, idle, cpu = list[float](), list[float](), 0.0, 0.0
        for _ in range(ROUNDS):
            await asyncio.sleep(row.pause_s)
            began = time.monotonic()
            answer = await connection.call(Request(row.code, row.ext, row.body))
            times.append(time.monotonic() - began)
            await asyncio.sleep(SETTLE_S)
            found = self._watch.between(began, time.monotonic(), self._idle)
            longest.append(found.longest_ms)
            idle, cpu = max(idle, found.idle_ms), max(cpu, found.longest_cpu_ms)
        steps = statistics.median(longest)
        own = OwnLoop()
        watching = asyncio.ensure_future(own.watch())
        began, outcome = time.monotonic(), ""
        try:
            await row.read(admin, self._name_server if row.at_name_server else self._broker.address)
        except GantryError as error:
            outcome = f"  NOT READ: {str(error)[:90]}"
        client_s = time.monotonic() - began
        await asyncio.sleep(2 * PERIOD_S)
        watching.cancel()
        if answer.code:
            outcome += f"  REFUSED with {answer.code}"
        if steps > LONG_MS:
            outcome += f"  OVER {LONG_MS:g} ms"
        self._good = self._good and not outcome
        name = f"{row.code} {row.name}" if row.name else f"{row.code.value} {row.code.name}"
        took_ms = statistics.median(times) * 1000
        print(
            f"{name[:43]:44}{answer.body_bytes / 1000:6.0f} kB{took_ms:7.0f} ms{steps:7.1f} ms{cpu:7.1f} ms"
            f"{client_s * 1000:7.0f} ms{own.longest_ms:7.1f} ms  idle process {idle:.1f} ms{outcome}",
            flush=True,
        )

    async def _registration(self, connection: Connection) -> None:
        began = time.monotonic()
        answer = await connection.call(Request(Code.DELETE_TOPIC_IN_BROKER, {"topic": topic_name(0)}))
        await asyncio.sleep(REGISTERED_S)
        steps = self._watch.between(began, time.monotonic(), self._idle)
        late = steps.longest_ms > LONG_MS
        self._good = self._good and not late and not answer.code
        over = f"  OVER {LONG_MS:g} ms" if late else ""
        print(
            f"{'103 REGISTER_BROKER':44}{steps.longest_ms:26.1f} ms{steps.longest_cpu_ms:7.1f} ms{'':20}  idle process "
            f"{steps.idle_ms:.1f} ms{over}"
        )

    # --- filling ----------------------------------------------------------------------------------------------------

    async def _fill(self, connections: list[Connection]) -> None:
        sends = (
            send_request(topic, queue_id, b"x" * 100) for topic, queues in self._queues() for queue_id in range(queues)
        )
        await _all(connections, sends)
        await _all(await connect(self._name_server), self._kv())

    def _queues(self) -> Iterator[tuple[str, int]]:
        for number in range(self._options.topics):
            yield topic_name(number), self._options.queues
        yield WIDE, self._options.wide

    def _more_offsets(self) -> Iterator[Request]:
        for topic, queues in self._queues():
            for queue_id in range(queues):
                yield _commit(topic, queue_id, READER)
                yield _commit(topic, queue_id, BEHIND, 0)
        for number in range(self._options.groups):
            yield _commit(WIDE, 0, group_name(number))

    def _kv(self) -> Iterator[Request]:
        for number in range(self._options.keys):
            yield Request(Code.PUT_KV_CONFIG, {"namespace": NAMESPACE, "key": f"key-{number}", "value": "broker-a:8"})

    async def _online(self) -> list[Connection]:
        connections = await connect(self._broker.address, self._options.clients)
        subscription = {"topic": WIDE, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
        consumer = {"groupName": ONLINE, "consumeType": "CONSUME_PASSIVELY", "subscriptionDataSet": [subscription]}
        for number, connection in enumerate(connections):
            body = {
                "clientID": f"127.0.0.1@{number}",
                "consumerDataSet": [consumer],
                "producerDataSet": [{"groupName": ONLINE}],
            }
            await _all([connection], iter([Request(Code.HEART_BEAT, {}, json.dumps(body).encode())]))
        return connections


def _commit(topic: str, queue_id: int, group: str, queue_offset: int = 1) -> Request:
    ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": str(queue_offset)}
    return Request(Code.UPDATE_CONSUMER_OFFSET, ext)


async def _all(connections: list[Connection], requests: Iterator[Request]) -> None:
    """Send all requests and wait for the answers; a refusal ends the program."""
    listed = list(requests)
    pump = Pump(connections, iter(listed).__next__, min(UNDER_WAY, len(listed)))
    await pump.send(len(listed))
    if pump.refused:
        raise SystemExit(f"the server refused {pump.refused.total()} of {len(listed)} requests")


def main() -> int:
    """Measure and print; return 0 if no step was too long and every answer was read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=whole(1), default=5000)
    parser.add_argument("--queues", type=whole(1), default=8, help="of each topic")
    parser.add_argument("--groups", type=whole(1), default=2000)
    parser.add_argument("--wide", type=whole(1), default=10_000, help="queues of one more topic")
    parser.add_argument("--clients", type=whole(1), default=1000)
    parser.add_argument("--keys", type=whole(1), default=1000, help="key-value pairs of the name server")
    parser.add_argument("--only", type=whole(0), default=0, metavar="CODE", help="only this request")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the broker's files are made")
    options = parser.parse_args()
    raise_descriptor_limit(options.clients + 200)
    print(f"load of this machine {os.getloadavg()[0]:.2f} over the last minute, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="gantrymq-answers-", dir=options.store) as name:
        folder = Path(name)
        write_tables(folder / "store", options)
        watch, idle = LoopWatch(folder / "steps"), folder / "idle"
        settings = {"store": "memory", "notifyConsumerIdsChangedEnable": "false", "timerWheelEnable": "true"}
        with (
            idle_log(idle),
            BrokerProcess(settings, store=folder / "store", python=watch.python, scratch=folder) as broker,
            asyncio.Runner() as runner,
        ):
            return 0 if runner.run(Bench(options, broker, watch, idle).run()) else 1


if __name__ == "__main__":
    sys.exit(main())
