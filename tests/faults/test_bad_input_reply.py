"""Replies without a recipient, requests for consumers that are offline, and invalid offset resets of groups."""

import json
import threading
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from faulty_broker import Peer, start_broker

from gantrymq.cli import main
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, encode
from gantrymq_testing.running_broker import RunningBroker

replies = pytest.importorskip("gantrymq_request_reply.replies")
members = pytest.importorskip("gantrymq_diagnosis.members")

PLUGINS = "diagnosis,filter_tag,request_reply,storage_mmap"
TOPIC = "DefaultCluster_REPLY_TOPIC"
CG = {"consumerGroup": "CG", "clientId": "c1"}
SECONDS = 0.3  # time that a client has to answer, for tests that wait for it


@pytest.fixture
def broker(tmp_path, logged):
    """A broker that serves replies."""
    running = start_broker(tmp_path / "store", plugins=PLUGINS)
    yield running
    assert running.serves()
    running.close()


def reply(peer, topic=TOPIC, body=b"the reply", to="c1"):
    own = f"REPLY_TO_CLIENT\x01{to}\x02" if to else ""
    letters = {"a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": own}
    return peer.ask(RequestCode.SEND_REPLY_MESSAGE_V2, letters, body)


def kept(broker):
    """The number of replies in the topic."""
    with broker.peer() as peer:
        return int(peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": 0}).ext["offset"])


def join(peer, kind="producerDataSet"):
    """A heartbeat of client c1: a producer, or a consumer of group CG."""
    subscription = {"topic": "T", "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    consumer = {
        "groupName": "CG",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "BROADCASTING",  # whose members are not notified of each other
        "subscriptionDataSet": [subscription],
    }
    members = [consumer] if kind == "consumerDataSet" else [{"groupName": "PG"}]
    body = json.dumps({"clientID": "c1", kind: members}).encode()
    assert peer.ask(RequestCode.HEART_BEAT, {}, body).code == 0


def test_bi138_a_reply_that_names_no_client(broker, row):
    with broker.peer() as peer:
        answer = reply(peer, to="")
    row.check(answer.remark, answer.code)
    assert kept(broker) == 1


def test_bi139_a_reply_to_a_client_that_is_gone(broker, row):
    with broker.peer() as peer:
        join(peer)
    with broker.peer() as peer:
        answer = reply(peer, to="gone")
    row.check(answer.remark, answer.code, client="gone")
    assert kept(broker) == 1


def test_bi140_a_reply_to_a_client_that_does_not_answer(broker, row, monkeypatch):
    monkeypatch.setattr(replies, "ANSWER_S", SECONDS)
    with broker.peer() as silent, broker.peer() as peer:
        join(silent)
        answer = reply(peer)
        assert silent.answer().code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    row.check(answer.remark, answer.code, client="c1", seconds=SECONDS)
    assert kept(broker) == 1


def test_bi141_a_reply_for_a_topic_that_may_not_be_made(broker, row):
    broker.server.settings.set("autoCreateTopicEnable", False, "test")
    with broker.peer() as silent, broker.peer() as peer:
        join(silent)
        answer = reply(peer, "Other_REPLY_TOPIC")
        row.check(answer.remark, answer.code, topic="Other_REPLY_TOPIC", peer=peer.name)
        assert peer.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "Other_REPLY_TOPIC", "lo": "true"}).code == 17


def test_bi142_a_reply_without_a_body(broker, row):
    with broker.peer() as peer:
        answer = reply(peer, body=None)
    row.check(answer.remark, answer.code, topic=TOPIC)
    assert kept(broker) == 0


def test_bi143_a_reply_that_is_too_long(broker, row):
    with broker.peer() as peer:
        answer = reply(peer, body=b"x" * 4_194_305)
    row.check(answer.remark, answer.code, bytes=4_194_305, limit=4_194_304)
    assert kept(broker) == 0


def test_bi144_more_replies_than_may_wait(broker, row, monkeypatch):
    monkeypatch.setattr(replies, "MOST_WAITING", 1)
    with broker.peer() as asker, broker.peer() as peer, broker.peer() as other:
        join(asker)
        waiting = threading.Thread(target=reply, args=(peer,))
        waiting.start()
        push = asker.answer()
        answer = reply(other)
        row.check(answer.remark, answer.code, most=1)
        asker.write(encode(Command(0, opaque=push.opaque, flag=1)))
        waiting.join()
    assert kept(broker) == 1


@pytest.mark.parametrize("code", [RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY])
def test_bi145_a_question_for_a_consumer_that_is_not_there(broker, row, code):
    with broker.peer() as peer:
        answer = peer.ask(code, CG)
    row.check(answer.remark, answer.code, group="CG", client="c1")


def test_bi146_running_info_of_a_consumer_that_does_not_answer(broker, row, monkeypatch):
    monkeypatch.setattr(members, "ANSWER_S", SECONDS)
    with broker.peer() as silent, broker.peer() as peer:
        join(silent, "consumerDataSet")
        answer = peer.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, CG)
        row.check(answer.remark, answer.code, group="CG", client="c1", address=silent.name, seconds=SECONDS)


def test_bi147_a_message_that_is_not_there_to_be_consumed(broker, row):
    with broker.peer() as member, broker.peer() as peer:
        join(member, "consumerDataSet")
        place = "7F00000100002A9F" + "0" * 13 + "3E8"
        answer = peer.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, {**CG, "msgId": place})
        row.check(answer.remark, answer.code, id=place, offset=1000)


def test_bi148_offsets_of_a_group_without_members(broker, row):
    with broker.peer() as peer:
        answer = peer.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"group": "CG", "topic": "T"})
    row.check(answer.remark, answer.code, group="CG")


def test_bi149_a_reset_of_a_group_without_members_that_they_are_to_do(broker_with, row):
    with broker_with(useServerSideResetOffset="false").peer() as peer:
        assert peer.create_topic("T").code == 0
        assert peer.send("T").code == 0
        join(peer, "consumerDataSet")
        commit = {"consumerGroup": "CG", "topic": "T", "queueId": 0, "commitOffset": 1}
        assert peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit).code == 0
        assert peer.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "c1", "consumerGroup": "CG"}).code == 0
        fields = {"topic": "T", "group": "CG", "timestamp": 0, "isForce": "true"}
        answer = peer.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        row.check(answer.remark, answer.code, group="CG", topic="T", time=0)
        assert peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, commit).ext["offset"] == "1"


def test_bi150_a_reset_behind_the_end_of_a_queue(broker, row):
    with broker.peer() as peer:
        assert peer.create_topic("T").code == 0
        join(peer, "consumerDataSet")
        fields = {"topic": "T", "group": "CG", "timestamp": -1, "isForce": "true", "queueId": 0, "offset": 5}
        answer = peer.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        row.check(answer.remark, answer.code, offset=5, min=0, max=0, topic="T", queue=0)


@contextmanager
def commands(tmp_path, **settings):
    """A name server and a broker with topic T and group CG; yields them and a command of `gantrymq group`."""
    with RunningBroker(tmp_path / "cluster", settings) as running:
        running.create_topic("T", 2)

        def command(*words):
            done = CliRunner().invoke(main, ["group", *words, "-n", running.namesrv])
            return done.stderr.removeprefix("gantrymq: "), f"exit {done.exit_code}"

        assert command("create", "-g", "CG")[1] == "exit 0"
        yield running, command


def last_line(seen):
    return seen.strip().splitlines()[-1]


def test_bi151_a_reset_to_a_time_that_is_still_to_come(tmp_path, row):
    with commands(tmp_path) as (_, command):
        seen, code = command("reset", "CG", "-t", "T", "--to", "2999-01-01")
        row.check(last_line(seen), code, time="2999-01-01")


def test_bi152_a_reset_to_an_offset_that_a_queue_does_not_have(tmp_path, row):
    with commands(tmp_path) as (running, command):
        running.put("T", b"one", queue_id=0)
        seen, code = command("reset", "CG", "-t", "T", "--to", "1")
        name = running.call(running.cluster.server.settings.text, "brokerName") or running.cluster.world.host_name
        row.check(seen, code, offset=1, queue=1, broker=name, min=0, max=0)


def test_bi153_a_reset_of_a_group_that_is_not_there(tmp_path, row):
    with commands(tmp_path) as (running, command):
        row.check(*command("reset", "Nobody", "-t", "T", "--to", "latest"), group="Nobody")
        assert running.call(running.broker.groups.get, "Nobody") is None


def test_bi154_a_reset_of_a_queue_that_is_not_there(tmp_path, row):
    with commands(tmp_path) as (_, command):
        row.check(*command("reset", "CG", "-t", "T", "--to", "latest", "-q", "9"), topic="T", queue=9)


def test_bi155_a_reset_to_an_offset_where_members_keep_offsets(tmp_path, row):
    with commands(tmp_path, useServerSideResetOffset=False) as (running, command):
        host, _, port = running.broker_address.rpartition(":")
        member = Peer((host, int(port)))
        join(member, "consumerDataSet")
        seen, code = command("reset", "CG", "-t", "T", "--to", "0")
        name = running.call(running.cluster.server.settings.text, "brokerName") or running.cluster.world.host_name
        row.check(seen, code, broker=name, group="CG")
        member.socket.close()


def test_bi156_a_group_cloned_to_itself(tmp_path, row):
    with commands(tmp_path) as (_, command):
        seen, code = command("clone", "CG", "CG")
        row.check(last_line(seen), code, group="CG")


def test_bi157_a_clone_of_a_group_that_committed_nothing(tmp_path, row):
    with commands(tmp_path) as (running, command):
        row.check(*command("clone", "CG", "Copy"), group="CG")
        assert running.call(running.broker.groups.get, "Copy") is None
