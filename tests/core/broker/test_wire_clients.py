"""Heartbeats of every client family, leaving, member lists, notices and locks: 34, 35, 38, 40, 41, 42, 46."""

from __future__ import annotations

import pytest
from broker_desk import body_of

from gantrymq.loose_json import dumps
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import LanguageCode

NOTICE = 40


def consumer(group="CG", **fields):
    return {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [{"topic": "T", "subString": "*", "subVersion": 1}],
        "unitMode": False,
        **fields,
    }


def beat(*consumers, **fields):
    return dumps({"clientID": "c1", "consumerDataSet": list(consumers), **fields})


def online(desk, group="CG"):
    return desk.tables.clients.consumer_group(group)


def test_a_java_heartbeat_makes_the_client_known(broker):
    async def main(desk):
        answer = await desk.ask(34, None, beat(consumer(), producerDataSet=[{"groupName": "PG"}]))
        assert (answer.code, answer.ext) == (0, {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"})
        known = online(desk)
        (member,) = known.members.values()
        assert (member.client_id, member.language, member.version) == ("c1", "JAVA", 479)
        assert set(known.subscriptions) == {"T"}
        assert (known.consume_type, known.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
        assert known.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
        assert len(desk.tables.clients.producers("PG")) == 1
        assert desk.tables.topics.get("%RETRY%CG").write_queues == 1

    broker(main)


def test_a_repeated_heartbeat_registers_what_was_forgotten(broker):
    async def main(desk):
        body = beat(consumer(), producerDataSet=[{"groupName": "PG"}])
        for _ in range(2):
            assert (await desk.ask(34, None, body)).ext["IS_SUB_CHANGE"] == "true"
        await desk.ask(35, {"clientID": "c1", "consumerGroup": "CG", "producerGroup": "PG"})
        assert online(desk) is None
        await desk.ask(34, None, body)
        assert set(online(desk).subscriptions) == {"T"}
        assert len(desk.tables.clients.producers("PG")) == 1

    broker(main)


def test_a_heartbeat_that_changes_is_read_again(broker):
    async def main(desk):
        for sent, known in (
            ({}, ("JAVA", 479)),
            ({"language": LanguageCode.GO}, ("GO", 479)),
            ({"language": LanguageCode.GO, "version": 400}, ("GO", 400)),
        ):
            await desk.ask(34, None, beat(consumer()), **sent)
            (member,) = online(desk).members.values()
            assert (member.language, member.version) == known
        await desk.ask(34, None, beat(consumer(consumeType="CONSUME_ACTIVELY")))
        assert online(desk).consume_type == "CONSUME_ACTIVELY"
        await desk.ask(34, None, beat(consumer(subscriptionDataSet=[{"topic": "U" * 3000, "subString": "*"}])))
        assert set(online(desk).subscriptions) == {"U" * 3000}

    broker(main)


def test_the_retry_topic_is_ordered_when_a_subscribed_topic_is(broker):
    async def main(desk):
        for group, topic, order in (("Plain", "T", False), ("Ordered", "O", True)):
            desk.tables.topics.put(TopicConfig(topic, order=order))
            await desk.heartbeat(group, topic)
            assert desk.tables.topics.get(f"%RETRY%{group}").order is order
        await desk.heartbeat("Plain", "O")  # its retry topic was created before
        assert desk.tables.topics.get("%RETRY%Plain").order

    broker(main)


def test_a_cpp_heartbeat_with_ordinals_and_without_empty_lists(broker):
    async def main(desk):
        cpp = {"groupName": "CG", "consumeType": 1, "messageModel": 0, "consumeFromWhere": 4}
        body = dumps({"clientID": "c++", "consumerDataSet": [cpp]})
        assert (await desk.ask(34, None, body, language=LanguageCode.CPP, version=333)).code == 0
        known = online(desk)
        assert (known.consume_type, known.message_model) == ("CONSUME_PASSIVELY", "BROADCASTING")
        assert known.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
        assert [each.language for each in known.members.values()] == ["CPP"]

    broker(main)


def test_an_ali_ons_heartbeat(broker):
    """Pure JavaScript: claims to be Java, of an old version, sends numbers and booleans as JSON types."""

    async def main(desk):
        body = b"""{"clientID":"1.2.3.4@99","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",
            "consumeType":"CONSUME_PASSIVELY","groupName":"CG","messageModel":"CLUSTERING","subscriptionDataSet":[
            {"classFilterMode":false,"codeSet":[],"subString":"*","subVersion":1700000000000,"tagsSet":[],"topic":"T"}],
            "unitMode":false}],"producerDataSet":[]}"""
        assert (await desk.ask(34, None, body, version=121)).code == 0
        assert body_of(await desk.ask(38, {"consumerGroup": "CG"})) == {"consumerIdList": ["1.2.3.4@99"]}

    broker(main)


@pytest.mark.parametrize(
    ("field", "sent", "name", "known"),
    [
        ("consumeType", "consume_actively", "consume_type", "CONSUME_ACTIVELY"),
        ("consumeType", 99, "consume_type", "CONSUME_PASSIVELY"),
        ("messageModel", "SOMETHING", "message_model", "CLUSTERING"),
        ("messageModel", None, "message_model", "CLUSTERING"),
    ],
)
def test_enums_nobody_knows_become_the_usual_ones(broker, field, sent, name, known):
    async def main(desk):
        await desk.ask(34, None, beat(consumer(**{field: sent})))
        assert getattr(online(desk), name) == known

    broker(main)


@pytest.mark.parametrize("key", ["withoutSub", "isWithoutSub"])
def test_version_2_heartbeats_send_subscriptions_only_when_they_changed(broker, key):
    async def main(desk):
        async def changed(*consumers, **fields):
            answer = await desk.ask(34, None, beat(*consumers, heartbeatFingerprint=7, **fields))
            return answer.ext["IS_SUB_CHANGE"]

        assert await changed(consumer()) == "true"  # full, and new to the broker
        bare = consumer(subscriptionDataSet=[])
        assert await changed(bare, **{key: True}) == "false"
        assert set(online(desk).subscriptions) == {"T"}
        answer = await desk.ask(34, None, beat(bare, heartbeatFingerprint=8, **{key: True}))
        assert answer.ext["IS_SUB_CHANGE"] == "true"  # so that the client sends a full one next

    broker(main)


def test_a_group_that_may_not_be_made_is_passed_over(broker):
    async def main(desk):
        assert (await desk.ask(34, None, beat(consumer("Unknown"), consumer("CID_RMQ_SYS_X")))).code == 0
        assert desk.tables.clients.consumer_group("Unknown") is None
        assert desk.tables.clients.consumer_group("CID_RMQ_SYS_X") is not None

    broker(main, autoCreateSubscriptionGroup=False)


@pytest.mark.parametrize("body", [None, b"no json", b"[1]"])
def test_a_heartbeat_that_is_no_object_is_refused(broker, body):
    async def main(desk):
        answer = await desk.ask(34, None, body)
        assert answer.code == 1
        assert "HEART_BEAT" in answer.remark

    broker(main)


# --- notices --------------------------------------------------------------------------------------------------------


def notices(peer):
    return [asked.ext["consumerGroup"] for asked in peer.asked if asked.code == NOTICE]


def test_every_member_is_told_when_one_joins_or_leaves(broker):
    async def main(desk):
        first, second = desk.peer(), desk.peer()
        await first.heartbeat("CG", client_id="c1")
        await second.heartbeat("CG", client_id="c2")
        await desk.clock.sleep(1)
        assert (notices(first), notices(second)) == (["CG", "CG"], ["CG"])
        await second.heartbeat("CG", client_id="c2")  # nothing changed
        await second.client.close()
        await desk.clock.sleep(1)
        assert notices(first) == ["CG"] * 3
        assert all(asked.is_oneway for asked in first.asked)
        assert body_of(await desk.ask(38, {"consumerGroup": "CG"})) == {"consumerIdList": ["c1"]}

    broker(main)


@pytest.mark.parametrize("how", ["broadcasting", "group", "broker"])
def test_who_is_not_told(broker, how):
    async def main(desk):
        if how == "group":
            await desk.ask(200, None, dumps({"groupName": "CG", "notifyConsumerIdsChangedEnable": False}))
        model = "BROADCASTING" if how == "broadcasting" else "CLUSTERING"
        first = desk.peer()
        await first.heartbeat("CG", messageModel=model)
        await desk.peer().heartbeat("CG", client_id="c2", messageModel=model)
        await desk.clock.sleep(1)
        assert notices(first) == []

    broker(main, notifyConsumerIdsChangedEnable=how != "broker")


def test_leaving_takes_the_client_out_of_the_groups_it_names(broker):
    async def main(desk):
        await desk.heartbeat("CG")
        assert (await desk.ask(35, {"clientID": "c1", "consumerGroup": "CG"})).code == 0
        assert (await desk.ask(38, {"consumerGroup": "CG"})).code == 1
        assert online(desk) is None

    broker(main)


def test_a_client_without_heartbeats_is_forgotten_and_closed(broker):
    async def main(desk):
        silent = desk.peer()
        await silent.heartbeat("CG", client_id="silent")
        for _ in range(15):  # the connection is busy, but no heartbeat comes
            await desk.clock.sleep(10)
            if (await desk.ask(38, {"consumerGroup": "CG"})).code == 1:
                break
            await silent.ask(30, {"topic": "T", "queueId": "0"})
        assert 120 <= desk.clock.monotonic() <= 141
        assert silent.client.connected("10.0.0.1:10911") is None

    broker(main)


@pytest.mark.parametrize("stepped_us", [-86_400_000_000, 86_400_000_000])
def test_a_step_of_the_wall_clock_changes_no_age(broker, stepped_us):
    async def main(desk):
        queues, locks, clients = [MessageQueue("T", "broker-a", 0)], desk.tables.locks, desk.tables.clients
        await desk.heartbeat("CG")
        assert locks.lock("CG", "one", queues) == queues
        desk.clock._start_us += stepped_us
        await desk.clock.sleep(59)
        assert locks.lock("CG", "two", queues) == []
        assert clients.silent(120_000) == []
        await desk.clock.sleep(2)
        assert locks.lock("CG", "two", queues) == queues
        assert clients.consumer_group("CG") is not None
        await desk.clock.sleep(80)
        assert clients.consumer_group("CG") is None

    broker(main)


# --- checks and locks -----------------------------------------------------------------------------------------------


def test_an_expression_can_be_checked_before_it_is_used(broker):
    async def check(desk, kind, expression):
        data = {"topic": "T", "expressionType": kind, "subString": expression}
        return (await desk.ask(46, None, dumps({"clientId": "c1", "group": "CG", "subscriptionData": data}))).code

    async def main(desk):
        assert await check(desk, "TAG", "*") == 0
        assert await check(desk, "SQL92", "a = 1") == 1

    broker(main)


def test_locks_are_granted_to_one_client_and_given_up(broker):
    async def main(desk):
        queues = [{"topic": "T", "brokerName": "broker-a", "queueId": number} for number in (0, 1)]

        async def lock(client_id, wanted, code=41):
            body = {"clientId": client_id, "consumerGroup": "CG", "mqSet": wanted, "onlyThisBroker": False}
            answer = await desk.ask(code, None, dumps(body))
            assert answer.code == 0
            return body_of(answer)["lockOKMQSet"] if code == 41 else None

        assert await lock("c1", queues[:1]) == queues[:1]
        assert await lock("c2", queues) == queues[1:]
        await lock("c1", queues, code=42)
        assert await lock("c2", queues) == queues
        await desk.clock.sleep(61)
        assert await lock("c1", queues) == queues

    broker(main)


def test_a_lock_request_of_cpp_may_leave_out_its_sets(broker):
    async def main(desk):
        answer = await desk.ask(41, None, dumps({"clientId": "c1", "consumerGroup": "CG"}))
        assert (answer.code, body_of(answer)) == (0, {"lockOKMQSet": []})
        assert (await desk.ask(41, None, dumps({"mqSet": [{"topic": "T"}]}))).code == 1

    broker(main)


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (34, b'{"clientID":"c1","heartbeatFingerprint":1e400}'),
        (34, b'{"clientID":"c1","consumerDataSet":[{"groupName":"CG","subscriptionDataSet":[{"subVersion":1e400}]}]}'),
        (200, b'{"groupName":"CG","brokerId":1e400}'),
        (42, b'{"clientId":"c1","consumerGroup":"CG","mqSet":[{"topic":"T","brokerName":"b","queueId":1e400}]}'),
    ],
)
def test_an_infinite_number_is_refused_with_a_sentence(broker, caplog, code, body):
    async def main(desk):
        answer = await desk.ask(code, None, body)
        assert answer.code in (1, 29)
        assert "inf" in answer.remark
        assert [each for each in caplog.records if each.exc_info] == []

    broker(main)
