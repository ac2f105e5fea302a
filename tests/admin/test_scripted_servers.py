"""The commands `status`, `topic` and `message`, against scripted servers on real sockets of this machine."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from scripted_cluster import Cluster, record

from gantrymq.cli import main
from gantrymq.commands.run import run
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.world.real import real_world

PULL = RequestCode.PULL_MESSAGE


class Servers:
    """A name server and one broker on a thread of their own; a queue holds what was sent to it."""

    def __init__(self) -> None:
        self.stored: dict[str, list[bytes]] = {}
        self.send_code = 0
        self._ready = threading.Event()
        # uvloop as in a server: asyncio's transport of a connection that was reset before it was accepted says that it
        # was never closed (CPython sets TCP_NODELAY after it has taken the socket, and that fails).
        self._thread = threading.Thread(target=lambda: run(self._serve()))

    def __enter__(self) -> "Servers":
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        cluster = self.cluster = Cluster(real_world(), "a", queues=2, real=True)
        broker = cluster.brokers["a"].answers
        cluster.ns.answers[RequestCode.GET_BROKER_CLUSTER_INFO] = lambda _: Command(0, body=self._clusters())
        cluster.ns.answers[RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER] = Command(
            0, body=b'{"topicList":["T","TBW102","a","C","C_REPLY_TOPIC","rmq_sys_x","%RETRY%G"]}'
        )
        cluster.ns.answers[RequestCode.DELETE_TOPIC_IN_NAMESRV] = Command(0)
        broker[RequestCode.GET_BROKER_RUNTIME_INFO] = Command(
            0,
            body=b'{"table":{"brokerVersionDesc":"V5_3_3","brokerActive":"true","putTps":"1.5 0 0",'
            b'"msgPutTotalTodayNow":"9","msgPutTotalTodayMorning":"2"}}',
        )
        broker[RequestCode.GET_TOPIC_STATS_INFO] = Command(
            0,
            body=b'{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:'
            b'{"lastUpdateTimestamp":1700000000000,"maxOffset":5,"minOffset":2}}}',
        )
        broker[RequestCode.UPDATE_AND_CREATE_TOPIC] = broker[RequestCode.DELETE_TOPIC_IN_BROKER] = Command(0)
        broker[RequestCode.SEND_MESSAGE_V2] = self._store
        broker[PULL] = self._pull
        broker[RequestCode.GET_MIN_OFFSET] = Command(0, ext={"offset": "0"})
        broker[RequestCode.GET_MAX_OFFSET] = lambda r: Command(0, ext={"offset": str(len(self._queue(r)))})
        broker[RequestCode.SEARCH_OFFSET_BY_TIMESTAMP] = Command(0, ext={"offset": "1"})
        async with cluster:
            self.namesrv = cluster.namesrv
            self._ready.set()
            await self._over.wait()

    def _clusters(self) -> bytes:
        address = self.cluster.brokers["a"].address
        brokers = {"a": {"brokerAddrs": {"0": address}, "brokerName": "a", "cluster": "C"}}
        return json.dumps({"brokerAddrTable": brokers, "clusterAddrTable": {"C": ["a"]}}).encode()

    def _queue(self, request: Command) -> list[bytes]:
        return self.stored.setdefault(request.ext["queueId"], [])

    def _store(self, request: Command) -> Command:
        queue = self.stored.setdefault(request.ext["e"], [])
        fields = {"queue_id": int(request.ext["e"]), "queue_offset": len(queue), "body": request.payload}
        queue.append(record(**fields, properties=request.ext["i"].encode()))
        return Command(
            self.send_code, ext={"msgId": "0" * 32, "queueId": request.ext["e"], "queueOffset": str(len(queue) - 1)}
        )

    def _pull(self, request: Command) -> Command | None:
        queue, at = self._queue(request), int(request.ext["queueOffset"])
        ext = {"nextBeginOffset": str(len(queue)), "minOffset": "0", "maxOffset": str(len(queue))}
        if at < len(queue):
            return Command(0, ext=ext, body=b"".join(queue[at:]))
        return None if int(request.ext["sysFlag"]) & 2 else Command(19, ext=ext)


@pytest.fixture
def servers() -> Iterator[Servers]:
    with Servers() as running:
        yield running


@pytest.fixture
def gantrymq(servers):
    def run(*words: str, code: int = 0, stdin: str | bytes | None = None, namesrv: str | None = None):
        result = CliRunner().invoke(main, [*words, "-n", namesrv or servers.namesrv], input=stdin)
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result

    return run


def documents(result) -> list:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_status_shows_servers_and_figures(gantrymq, servers):
    (found,) = documents(gantrymq("status", "--output", "json"))
    (broker,) = found["brokers"]
    assert found["name_servers"] == [{"address": servers.namesrv, "reachable": True, "topics": 7, "problem": None}]
    assert (found["clusters"], found["topics"]) == (["C"], 7)
    assert (broker["version"], broker["in_per_s"], broker["out_per_s"], broker["in_today"]) == ("V5_3_3", 1.5, None, 7)
    assert "V5_3_3" in gantrymq("status").stdout


def test_status_shows_the_name_server_that_is_away(gantrymq, servers):
    (found,) = documents(gantrymq("status", "--output", "json", namesrv=f"{servers.namesrv};127.0.0.1:1"))
    assert [server["reachable"] for server in found["name_servers"]] == [True, False]


def test_status_without_any_name_server_is_a_sentence(gantrymq):
    result = gantrymq("status", code=1, namesrv="127.0.0.1:1")
    assert result.stderr.startswith("gantrymq: no name server answers (127.0.0.1:1: ")
    assert not result.stdout


def test_status_fails_if_no_broker_answers(gantrymq, servers):
    remark = "User:guest has no permission to access Cluster:C: Get is not allowed"
    servers.cluster.brokers["a"].answers[RequestCode.GET_BROKER_RUNTIME_INFO] = Command(16, remark=remark)
    (found,) = documents(gantrymq("status", "--output", "json", code=1))
    assert [broker["reachable"] for broker in found["brokers"]] == [False]
    assert f"controls access and refused this client: {remark}" in found["brokers"][0]["problem"]
    assert "controls access" in gantrymq("status", code=1).stdout


def test_cluster_status_fails_if_a_copy_lacks_something(gantrymq, servers):
    (found,) = documents(gantrymq("cluster", "status", "--output", "json"))  # a broker before 5.0
    assert [each["healthy"] for each in found["sets"]] == [True]
    status = {"master": True, "inSyncSlaveNums": 0, "masterCommitLogMaxOffset": 7, "wantedCopies": 2}
    servers.cluster.brokers["a"].answers[RequestCode.GET_BROKER_HA_STATUS] = Command(
        0, body=json.dumps(status).encode()
    )
    (found,) = documents(gantrymq("cluster", "status", "--output", "json", code=1))
    assert [each["healthy"] for each in found["sets"]] == [False]
    assert "fewer than the 2" in gantrymq("cluster", "status", code=1).stdout


def test_topic_list_leaves_out_what_brokers_and_groups_made(gantrymq):
    assert gantrymq("topic", "list").stdout.split() == ["T"]
    assert documents(gantrymq("topic", "list", "--all", "--output", "json"))[0]["topics"][-1] == "rmq_sys_x"


def test_topic_create_goes_to_the_masters(gantrymq, servers):
    address = servers.cluster.brokers["a"].address
    servers.cluster.brokers["a"].answers[RequestCode.GET_TOPIC_CONFIG] = Command(17, remark="no topic")
    (made,) = documents(gantrymq("topic", "create", "-t", "New", "-r", "4", "-p", "r", "--output", "json"))
    assert made == {"topic": "New", "read_queues": 4, "write_queues": 8, "perm": 4, "brokers": [address]}
    assert address in gantrymq("topic", "create", "-t", "New", "-b", address, "-a", "+message.type=FIFO").stdout
    asked = servers.cluster.brokers["a"].of(RequestCode.UPDATE_AND_CREATE_TOPIC)
    assert [(a.ext["perm"], a.ext["attributes"]) for a in asked] == [("4", ""), ("6", "+message.type=FIFO")]


def test_topic_delete_tells_brokers_and_name_servers(gantrymq, servers):
    (gone,) = documents(gantrymq("topic", "delete", "-t", "T", "--output", "json"))
    assert gone == {"topic": "T", "brokers": [servers.cluster.brokers["a"].address], "name_servers": [servers.namesrv]}
    assert "there is no topic Nope" in gantrymq("topic", "delete", "-t", "Nope", code=1).stderr


def test_topic_route_and_status(gantrymq):
    (route,) = documents(gantrymq("topic", "route", "-t", "T", "--output", "json"))
    assert route["queues"][0]["write_queues"] == 2
    assert "RW-" in gantrymq("topic", "route", "-t", "T").stdout
    (status,) = documents(gantrymq("topic", "status", "-t", "T", "--output", "json"))
    assert status["queues"] == [
        {"broker": "a", "queue": 0, "min_offset": 2, "max_offset": 5, "messages": 3, "updated_ms": 1700000000000}
    ]
    assert "Max offset" in gantrymq("topic", "status", "-t", "T").stdout


@pytest.mark.parametrize("stdin", [b"", b"\r\n\n"])
def test_a_send_without_a_line_on_stdin_fails(gantrymq, stdin):
    done = gantrymq("message", "send", "-t", "T", code=1, stdin=stdin)
    assert done.stderr == "gantrymq: nothing was sent: stdin has no line with a message; --body gives one\n"


def test_message_send_then_pull(gantrymq):
    words = ("-t", "T", "--queue", "1", "--output", "json")
    sent = documents(gantrymq("message", "send", *words, "--body", "hällo", "--tags", "A", "--property", "x=y=z"))
    assert [(s["status"], s["broker"], s["queue"], s["queue_offset"]) for s in sent] == [("SEND_OK", "a", 1, 0)]
    gantrymq("message", "send", *words, "--count", "2", stdin=b"one\r\n\n\xff")
    found = documents(gantrymq("message", "pull", "-t", "T", "--output", "json"))
    assert [f.get("body") for f in found] == ["hällo", "one", "one", None, None]
    assert found[-1]["body_base64"] == "/w=="
    assert (found[0]["tags"], found[0]["properties"]["x"], found[0]["message_id"]) == (
        "A",
        "y=z",
        sent[0]["message_id"],
    )


def test_messages_stored_without_what_the_broker_s_settings_ask_for_end_with_1(gantrymq, servers):
    servers.send_code = 11
    words = ("message", "send", "-t", "T", "--queue", "1", "--body", "b", "--count", "2")
    done = gantrymq(*words, "--output", "json", code=1)
    assert [each["status"] for each in documents(done)] == ["SLAVE_NOT_AVAILABLE"] * 2
    assert done.stderr.startswith("2 messages are stored, but on fewer disks or brokers than")
    assert gantrymq(*words[:-2], code=1).stderr.startswith("1 message is stored, but")
    servers.send_code = 0
    assert not gantrymq(*words).stderr


@pytest.mark.parametrize("command", [("pull",), ("tail", "--from-beginning")])
def test_a_body_that_cannot_be_decompressed_is_shown_as_a_problem(gantrymq, servers, command):
    bodies = ({"body": b"one"}, {"body": b"damaged", "sys_flag": 0x301}, {"body": b"three"})
    servers.stored["0"] = [record(queue_offset=number, **fields) for number, fields in enumerate(bodies)]
    words = ("message", *command, "-t", "T", "--queue", "0", "--max", "3")
    found = documents(gantrymq(*words, "--output", "json"))
    assert [each.get("body") for each in found] == ["one", None, "three"]
    assert (found[1]["queue_offset"], found[1]["body_base64"]) == (1, "ZGFtYWdlZA==")
    assert "is not a zlib stream" in found[1]["body_problem"]
    assert "body_problem" not in found[0]
    lines = gantrymq(*words).stdout.splitlines()
    assert len(lines) == 3
    assert "a:0 @1" in lines[1]
    assert "no body can be shown: compressed body of 7 bytes is not a zlib stream" in lines[1]


def test_message_pull_chooses_where_and_what(gantrymq):
    for tag in ("A", "B", "A"):
        gantrymq("message", "send", "-t", "T", "--queue", "a:0", "--body", f"is {tag}", "--tags", tag)
    pull = ("message", "pull", "-t", "T", "--output", "json")
    assert [d["queue_offset"] for d in documents(gantrymq(*pull, "-e", "A"))] == [0, 2]
    assert [d["queue_offset"] for d in documents(gantrymq(*pull, "--from-offset", "2", "--queue", "0"))] == [2]
    assert [d["queue_offset"] for d in documents(gantrymq(*pull, "--from-time", "2026-01-01", "--max", "1"))] == [1]
    assert "a:0 @1" in gantrymq("message", "pull", "-t", "T").stdout


@pytest.mark.parametrize(
    ("words", "code", "word"),
    [
        (("topic", "create", "-t", "a/b"), 2, "a/b"),
        (("topic", "create"), 2, "-t"),
        (("topic", "create", "-t", "N", "-p", "8"), 2, "-p"),
        (("topic", "create", "-t", "N", "-b", "here"), 2, "not host:port"),
        (("topic", "create", "-t", "N", "-b", "h:1", "-c", "C"), 2, "not both"),
        (("topic", "create", "-t", "N", "-c", "X"), 1, "no cluster is named X"),
        (("topic", "create", "-t", "N", "-a", "odd"), 2, "+NAME=VALUE"),
        (("topic", "route", "-t", "Nope"), 1, "gantrymq topic list"),
        (("message", "send", "-t", "T", "--body", ""), 1, "empty"),
        (("message", "send", "-t", "Nope", "--body", "x"), 1, "gantrymq topic create' creates one"),
        (("message", "send", "-t", "T", "--body", "x", "--property", "odd"), 2, "NAME=VALUE"),
        (("message", "send", "-t", "T", "--body", "x", "--queue", "7"), 1, "it has a:0, a:1"),
        (("message", "pull", "-t", "T", "--queue", "x"), 2, "BROKER:ID"),
        (("message", "pull", "-t", "T", "--from-time", "soon"), 2, "--from-time"),
        (("message", "pull", "-t", "T", "--from-time", "1", "--from-offset", "1"), 2, "not both"),
        (("message", "pull", "-t", "T", "-e", "||"), 1, "names no tag"),
        (("message", "tail", "-t", "Nope"), 1, "no name server knows topic Nope"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(gantrymq, words, code, word):
    result = gantrymq(*words, code=code)
    assert word in result.stderr
    assert not result.stdout


def test_unknown_name_server_list_is_a_sentence(gantrymq):
    assert "not host:port" in gantrymq("topic", "list", code=2, namesrv="nonsense").stderr


def test_tail_ends_after_as_many_as_were_asked_for(gantrymq):
    for body in ("one", "two"):
        gantrymq("message", "send", "-t", "T", "--queue", "0", "--body", body)
    result = gantrymq("message", "tail", "-t", "T", "--from-beginning", "--max", "2", "--output", "json")
    assert [d["body"] for d in documents(result)] == ["one", "two"]
    assert "following 2 queues of T" in result.stderr


def test_tail_ends_at_a_signal(servers):
    words = ["message", "tail", "-t", "T", "-n", servers.namesrv]
    code = "from gantrymq.cli import main; main(prog_name='gantrymq')"
    with subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert "following" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=30)
    assert (process.returncode, rest) == (0, ("", ""))


def test_topic_create_asks_an_older_broker_for_all_settings(gantrymq, servers):
    """One before 5.0 does not tell a single topic's settings."""
    present = {"topicConfigTable": {"T": {"topicName": "T", "readQueueNums": 4, "writeQueueNums": 2, "perm": 4}}}
    table = {f'{{"brokerName":"a","queueId":{n},"topic":"T"}}': '{"maxOffset":5,"minOffset":2}' for n in range(4)}
    body = '{"offsetTable":{' + ",".join(f"{key}:{value}" for key, value in table.items()) + "}}"
    answers = servers.cluster.brokers["a"].answers
    answers[RequestCode.GET_ALL_TOPIC_CONFIG] = Command(0, body=json.dumps(present).encode())
    answers[RequestCode.GET_TOPIC_STATS_INFO] = Command(0, body=body.encode())
    (made,) = documents(gantrymq("topic", "create", "-t", "T", "-r", "5", "--output", "json"))
    assert (made["read_queues"], made["write_queues"], made["perm"]) == (5, 2, 4)
    done = gantrymq("topic", "create", "-t", "T", "-r", "3", "-w", "3", code=1)
    assert "has 4 read queues" in done.stderr
    assert "queue 3, 3 messages" in done.stderr
    gantrymq("topic", "create", "-t", "T", "-r", "3", "-w", "3", "--fewer-queues")
    answers[RequestCode.GET_ALL_TOPIC_CONFIG] = Command(0, body=json.dumps({"topicConfigTable": {}}).encode())
    (made,) = documents(gantrymq("topic", "create", "-t", "T", "-r", "1", "--output", "json"))
    assert (made["read_queues"], made["write_queues"], made["perm"]) == (1, 8, 6)
