"""The service in a broker: heartbeats in; logs, refusals and explanations out."""

import asyncio
import json
import logging

import attrs
import pytest

from gantrymq.formats.record import iter_records
from gantrymq.formats.tags_code import delay_levels_of
from gantrymq.interfaces import MetricFamily
from gantrymq.loose_json import dumps
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import MessageQueue, Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.command import request
from gantrymq_diagnosis.other_readers import OtherReaders

CONFLICTS = {
    "subscriptions": ({"expression": "TagA"}, "subscribes to T"),
    "consume-type": ({"consumeType": "CONSUME_ACTIVELY"}, "uses PULL"),
    "message-model": ({"messageModel": "BROADCASTING"}, "is BROADCASTING"),
}
LOG = "gantrymq_diagnosis.service"


async def topic(cluster, queues=4, name="T"):
    cluster.broker.topics.put(TopicConfig(name, queues, queues))


def warnings(caplog):
    return [each.getMessage() for each in caplog.records if each.name == LOG]


@pytest.mark.parametrize("kind", CONFLICTS)
def test_a_conflict_is_logged_once_and_shown(beside, caplog, kind):
    fields, words = CONFLICTS[kind]

    async def work(cluster, client_of):
        one, other = client_of("one"), client_of("other")
        assert (await one.join()).code == 0
        for _ in range(5):
            assert (await other.join(**fields)).code == 0
            assert (await one.join()).code == 0
            await cluster.world.clock.sleep(30)
        found, _ = await one.explain()
        assert [each["kind"] for each in found["conflicts"]] == [kind]
        assert f"conflict-{kind}" in [each["reason"] for each in found["diagnosis"]]
        await other.remoting.close()
        await cluster.world.clock.sleep(1)
        assert (await one.explain())[0]["conflicts"] == []

    with caplog.at_level(logging.WARNING, LOG):
        beside(work)
    (said,) = warnings(caplog)
    assert words in said


@pytest.mark.parametrize(
    ("expression", "kind", "told"), [("a >", "SQL92", "with code 23: "), ("a > 4", "SQL29", "with code 1: ")]
)
def test_an_expression_that_the_broker_refuses_is_told_with_its_code(beside, expression, kind, told):
    pytest.importorskip("gantrymq_filter_sql92")

    async def work(cluster, client_of):
        await topic(cluster, 1)
        await client_of("one").join(expression=expression, kind=kind)
        found, _ = await client_of("x").explain()
        (queue,) = found["queues"]
        assert queue["reason"] == "filter-refused" and told in queue["sentence"]

    beside(work)


def test_a_misspelt_topic_is_told_and_counted(beside):
    async def work(cluster, client_of):
        await topic(cluster, 1)
        await topic(cluster, 1, "Orders")
        one = client_of("one")
        await one.join(topic="Ordres")
        found, _ = await client_of("x").explain()
        (reason,) = found["diagnosis"]
        assert reason["reason"] == "topic-missing" and "(did you mean Orders?)" in reason["sentence"]

        def counted():
            return {each.name: dict(each.values) for each in cluster.broker.metrics.snapshot().plugin_metrics}[
                "gantrymq_group_missing_topics"
            ]

        assert counted() == {("CG",): 1}
        await topic(cluster, 1, "Ordres")
        assert counted() == {} and not (await client_of("x").explain())[0]["diagnosis"]

    beside(work)


def test_one_client_id_on_two_connections(beside, caplog):
    async def work(cluster, client_of):
        assert (await client_of("same").join()).code == (await client_of("same").join()).code == 0
        found, _ = await client_of("x").explain()
        assert [each["kind"] for each in found["conflicts"]] == ["client-id"]

    with caplog.at_level(logging.WARNING, LOG):
        beside(work)
    assert "used by two connections" in warnings(caplog)[0]


def test_a_client_that_comes_back_is_no_conflict(beside, caplog):
    async def work(cluster, client_of):
        first = client_of("same")
        await first.join()
        await first.remoting.close()
        await cluster.world.clock.sleep(1)
        await client_of("same").join()

    with caplog.at_level(logging.WARNING, LOG):
        beside(work)
    assert warnings(caplog) == []


def test_refuse_keeps_the_second_one_out_of_all_its_groups_until_it_agrees(beside, caplog):
    async def work(cluster, client_of):
        one, other = client_of("one"), client_of("other")
        await one.join("CG")
        for _ in range(3):
            answer = await other.join("Else", "CG", expression="TagA")
            assert answer.code == 16
            assert "subscribes to T with '*'" in answer.remark
            assert "consumerConflictPolicy=refuse" in answer.remark
            await cluster.world.clock.sleep(30)
            await one.join("CG")
        assert [each.client_id for each in cluster.broker.clients.consumers("CG")] == ["one"]
        assert cluster.broker.clients.consumers("Else") == ()
        assert (await other.join("CG")).code == 0
        assert len(cluster.broker.clients.consumers("CG")) == 2

    with caplog.at_level(logging.WARNING, LOG):
        beside(work, consumerConflictPolicy="refuse")
    (said,) = warnings(caplog)
    assert said.endswith("it was not let in")


def test_the_policy_changes_while_the_broker_runs(beside):
    async def work(cluster, client_of):
        one, other = client_of("one"), client_of("other")
        await one.join()
        assert (await one.ask(25, None, b"consumerConflictPolicy=refuse\n")).code == 0
        assert (await other.join(expression="A")).code == 16
        assert (await one.explain())[0]["policy"] == "refuse"
        assert (await one.ask(25, None, b"consumerConflictPolicy=warn\n")).code == 0
        assert (await other.join(expression="A")).code == 0

    beside(work)


def test_what_a_plugin_says_of_a_group_is_told_of_it_alone(beside):
    async def work(cluster, client_of):
        await topic(cluster, 2)
        labels = ("type", "group", "topic")
        why = {("X", "CG", "T"): "filter X of group CG on topic T is suspended", ("X", "Else", "T"): "another one"}
        cluster.broker.metrics.register(
            lambda: MetricFamily("gantrymq_things_off", "Things.", labels, dict.fromkeys(why, 1), sentences=why)
        )
        one = client_of("one")
        await one.join()
        found, queues = await one.explain()
        said = {"reason": "things-off", "sentence": why["X", "CG", "T"]}
        assert [{key: each[key] for key in said} for each in found["diagnosis"]] == [said]
        assert [{key: each[key] for key in said} for each in queues.values()] == [said] * 2
        answer = await one.ask(65022)
        figures = {each["name"]: each for each in json.loads(bytes(answer.payload))["figures"]}
        assert figures["gantrymq_things_off"]["value"] == 2
        assert figures["gantrymq_things_off"]["sentences"] == sorted(why.values())

    beside(work)


def test_a_queue_from_never_pulled_to_up_to_date(beside):
    async def work(cluster, client_of):
        await topic(cluster)
        one = client_of("one")
        await one.join()
        for number in range(3):
            await cluster.put("T", b"%d" % number)
        await cluster.world.clock.sleep(5)
        found, queues = await one.explain()
        assert (found["behind"], len(queues)) == (3, 4)
        assert 5000 <= found["lag_ms"] < 6000
        assert [queues["T", i]["reason"] for i in range(4)] == ["not-owned"] * 4
        await one.pull(0, 0, commit=1)
        _, queues = await one.explain()
        assert {key: queues["T", 0][key] for key in ("reason", "owner", "committed", "next_pull", "behind")} == {
            "reason": "reading",
            "owner": "one",
            "committed": 1,
            "next_pull": 3,
            "behind": 2,
        }
        held = asyncio.ensure_future(one.pull(0, 3, wait_ms=20_000))
        await cluster.world.clock.sleep(1)
        _, queues = await one.explain()
        assert (queues["T", 0]["reason"], queues["T", 0]["held"]) == ("reading", ["one"])
        await held
        await one.pull(0, 3, commit=3)
        _, queues = await one.explain()
        assert (queues["T", 0]["reason"], queues["T", 0]["lag_ms"]) == ("up-to-date", 0)
        await cluster.put("T", b"new")
        await cluster.world.clock.sleep(100)
        await one.join()
        _, queues = await one.explain()
        assert (queues["T", 0]["reason"], queues["T", 0]["last_pull_ms_ago"] // 1000) == ("paused", 100)

    beside(work)


def test_a_member_that_commits_is_slow_and_one_that_commits_nothing_for_a_minute_is_said(beside):
    async def work(cluster, client_of):
        await topic(cluster)
        one = client_of("one")
        await one.join()
        for number in range(6):
            await cluster.put("T", b"%d" % number)
        await one.pull(0, 0, commit=1)
        found = []
        for committed in (1, 2, 3, 4, 4, 4):
            await one.join()
            await one.pull(0, 6, commit=committed, wait_ms=20_000)
            held = asyncio.ensure_future(one.pull(0, 6, wait_ms=2_000))
            await cluster.world.clock.sleep(1)
            _, queues = await one.explain()
            found.append((queues["T", 0]["reason"], queues["T", 0]["moved_ms_ago"] // 10_000))
            sentence = queues["T", 0]["sentence"]
            await held
        fresh, slow = [("reading", 2)] * 2, [("slow", 2), ("slow", 2), ("slow", 4)]
        assert found == [*fresh, *slow, ("not-committed", 6)]
        assert "2 messages are with one, which has committed nothing for" in sentence

    beside(work)


def test_an_ordered_queue_that_does_not_get_past_a_message(beside):
    async def work(cluster, client_of):
        await topic(cluster)
        one = client_of("one")
        await one.join()
        for number in range(5):
            await cluster.put("T", b"%d" % number)
        cluster.broker.locks.lock("CG", "one", [MessageQueue("T", "broker-a", 0)])
        await one.pull(0, 0, commit=3)
        reasons = []
        for _ in range(4):
            held = asyncio.ensure_future(one.pull(0, 5, wait_ms=25_000))
            await cluster.world.clock.sleep(22)
            cluster.broker.locks.lock("CG", "one", [MessageQueue("T", "broker-a", 0)])
            _, queues = await one.explain()
            reasons.append(queues["T", 0]["reason"])
            await held
        assert reasons == ["reading", "reading", "order-stuck", "order-stuck"]
        assert "one reads it in order and keeps failing at offset 3" in queues["T", 0]["sentence"]

    beside(work)


def test_a_group_that_broadcasts_gets_no_advice_for_clustering(beside):
    async def work(cluster, client_of):
        await topic(cluster)
        one, two = client_of("one"), client_of("two")
        for each in (one, two):
            await each.join(messageModel="BROADCASTING")
        for number in range(8):
            await cluster.put("T", b"x", queue_id=number % 4)
        cluster.broker.offsets.commit("CG", Queue("T", 0), 1)
        await one.pull(0, 0)
        found, queues = await one.explain()
        assert {each["reason"] for each in queues.values()} == {"broadcasting"}
        assert (found["diagnosis"], found["behind"], queues["T", 0]["lag_ms"]) == ([], 0, None)
        assert not (found["behind_known"] or found["lag_known"] or queues["T", 0]["behind_known"])
        assert "one pulled it last, 1 ms ago, up to 2" in queues["T", 0]["sentence"]

    beside(work)


def test_the_lag_of_a_group_that_may_broadcast_is_not_known_while_it_is_offline(beside):
    async def work(cluster, client_of):
        one = client_of("one")
        known = []
        for name, broadcast in (("May", True), ("Not", False)):
            cluster.broker.groups.put(GroupConfig(name, consume_broadcast_enable=broadcast))
            found = (await one.explain(group=name))[0]
            known.append((found["behind"], found["behind_known"], found["lag_known"]))
        assert known == [(0, False, False), (0, True, True)]

    beside(work)


def test_a_topic_that_members_left_is_no_lag(beside):
    async def work(cluster, client_of):
        await topic(cluster)
        await cluster.create_topic("U", 1)
        one = client_of("one")
        await one.join(topic="U")
        await cluster.put("T", b"x")
        cluster.broker.offsets.commit("CG", Queue("T", 0), 0)
        found, queues = await one.explain()
        assert (found["behind"], queues["T", 0]["reason"], queues["T", 0]["behind"]) == (0, "not-subscribed", 0)
        assert found["behind_known"] and found["lag_known"] and queues["T", 0]["behind_known"]
        assert "gantrymq group delete-offsets CG -t T" in queues["T", 0]["sentence"]
        refused = await one.ask(65027, {"consumerGroup": "CG", "topic": "U"})
        assert (refused.code, "online members of group CG read topic U" in refused.remark) == (1, True)
        assert (await one.ask(65027, {"consumerGroup": "CG"})).code == 1
        assert (await one.ask(65027, {"consumerGroup": "CG", "topic": "T"})).payload == b'{"queues": [0]}'
        assert ("T", 0) not in (await one.explain())[1]
        assert cluster.server.tables.offsets.dirty

    beside(work)


def test_a_tag_without_messages(beside):
    async def work(cluster, client_of):
        await topic(cluster)
        one = client_of("one")
        await one.join(expression="TagA")
        for tag in ("TagB", "TagB", "TagA"):
            await cluster.put("T", b"x", tags=tag)
        await one.pull(0, 0, expression="TagC")
        _, queues = await one.explain()
        assert (queues["T", 0]["hit_rate"], queues["T", 0]["reason"]) == (0, "nothing-matches")
        await one.pull(0, 0, expression="TagA")
        _, queues = await one.explain()
        assert (queues["T", 0]["hit_rate"], queues["T", 0]["reason"]) == (round(1 / 6, 4), "reading")

    beside(work)


def test_left_members_lock_holders_and_resets(beside):
    async def work(cluster, client_of):
        await topic(cluster)
        one, two = client_of("one"), client_of("two")
        await one.join()
        await two.join()
        await cluster.put("T", b"x")
        await two.pull(0, 0)
        cluster.broker.locks.lock("CG", "dead", [MessageQueue("T", "broker-a", 1)])
        cluster.server.tables.offsets.reset("CG", Queue("T", 2), 0)
        await two.remoting.close()
        await cluster.world.clock.sleep(1)
        _, queues = await one.explain()
        assert [queues["T", i]["reason"] for i in range(3)] == ["owner-left", "lock-of-a-dead-client", "reset-pending"]
        assert queues["T", 1]["locked_by"] == "dead"
        assert queues["T", 2]["reset_to"] == 0

    beside(work)


def test_groups_and_topics_that_are_switched_off(beside):
    async def work(cluster, client_of):
        await topic(cluster)
        one = client_of("one")
        await one.join()
        tables = cluster.server.tables

        async def reason():
            return (await one.explain())[1]["T", 0]["reason"]

        config = tables.groups.get("CG")
        tables.groups.put(attrs.evolve(config, consume_enable=False))
        assert await reason() == "group-disabled"
        tables.groups.put(config)
        tables.topics.put(TopicConfig("T", 4, 4, perm=2))
        assert await reason() == "topic-not-readable"
        tables.topics.put(TopicConfig("T", 4, 4))
        await one.ask(353, {"group": "CG", "topic": "T", "readable": "false"})
        assert await reason() == "group-forbidden"
        await one.ask(353, {"group": "CG", "topic": "T", "readable": "true"})
        await one.pull(0, 0, commit=0)
        await one.remoting.close()
        await cluster.world.clock.sleep(1)
        found, queues = await client_of("asks").explain()
        assert queues["T", 0]["reason"] == "nobody-online"
        assert found["members"] == []

    beside(work)


def test_messages_in_queues_that_a_topic_has_no_more_are_told_until_they_are_read_again(beside):
    async def work(cluster, client_of):
        await topic(cluster)
        one = client_of("one")
        await one.join()
        await cluster.put("T", b"x", queue_id=2)
        await cluster.put("T", b"x", queue_id=3)
        for queue_id, offset in enumerate((0, 0, 0, 0)):
            cluster.broker.offsets.commit("CG", Queue("T", queue_id), offset)
        await topic(cluster, 1)
        _, queues = await one.explain()
        assert sorted(queues) == [("T", 0), ("T", 2), ("T", 3)], "queue 1 has nothing to read"
        for queue_id in (2, 3):
            assert queues["T", queue_id]["reason"] == "queue-not-read"
            assert queues["T", queue_id]["sentence"].endswith("have it read with: gantrymq topic create -t T -r 4")
        cluster.broker.topics.put(TopicConfig("T", 1, 6))
        assert (await one.explain())[1]["T", 3]["values"]["least"] == 6
        await topic(cluster)
        assert (await one.explain())[1]["T", 3]["reason"] == "not-owned"
        await topic(cluster, 1)
        for queue_id in (2, 3):
            cluster.broker.offsets.commit("CG", Queue("T", queue_id), 1)
        assert sorted((await one.explain())[1]) == [("T", 0)]

    beside(work)


def test_more_members_than_queues(beside):
    async def work(cluster, client_of):
        await topic(cluster, queues=1)
        clients = [client_of(f"c{number}") for number in range(3)]
        for each in clients:
            await each.join()
        await clients[1].pull(0, 0)
        found, _ = await clients[0].explain()
        (said,) = found["diagnosis"]
        assert said["reason"] == "too-few-queues"
        assert "c0, c2;" in said["sentence"]

    beside(work)


def test_retries_and_dead_letters(beside):
    async def work(cluster, client_of):
        one = client_of("one")
        await topic(cluster)
        await one.join()
        cluster.broker.topics.put(TopicConfig("%DLQ%CG", 1, 1))
        await cluster.put("%DLQ%CG", b"dead")
        await cluster.put("%RETRY%CG", b"now")
        waiting = {"REAL_TOPIC": "%RETRY%CG", "REAL_QID": "0"}
        await cluster.put("SCHEDULE_TOPIC_XXXX", b"later", queue_id=2, properties=waiting)
        await cluster.put("SCHEDULE_TOPIC_XXXX", b"of others", queue_id=2, properties={"REAL_TOPIC": "Else"})
        found, _ = await one.explain()
        assert found["dead_letters"] == found["retry"]["behind"] == found["retry"]["waiting"] == 1
        assert found["retry"]["next_due_ms"] == pytest.approx(cluster.world.clock.now_ms() + 10_000, abs=50)
        assert [each["reason"] for each in found["diagnosis"]] == ["retry-waiting", "retry-behind", "dead-letters"]
        await cluster.world.clock.sleep(10)
        assert (await one.explain())[0]["retry"]["waiting"] == 0

    beside(work, plugins="storage_memory,filter_tag,diagnosis,nameserver")


def test_a_thousand_queues_are_explained_in_short_steps(beside):
    async def work(cluster, client_of):
        await topic(cluster, queues=1000)
        one = client_of("one")
        await one.join()
        for queue_id in range(1000):
            await cluster.put("T", b"x", queue_id=queue_id)
        turns = 0

        async def others():
            nonlocal turns
            while True:
                turns += 1
                await cluster.world.clock.sleep(0)

        (service,) = (each for each in cluster.plugins.services if each.name == "diagnosis")
        beside_it = asyncio.ensure_future(others())
        answer = await service.handlers[65021](request(65021, {"consumerGroup": "CG"}), None)
        beside_it.cancel()
        found = json.loads(answer.body)
        assert (found["behind"], len(found["queues"])) == (1000, 1000)
        assert turns > 50

    beside(work)


def test_one_topic_of_a_group(beside):
    async def work(cluster, client_of):
        await topic(cluster)
        await topic(cluster, name="U")
        one = client_of("one")
        await one.join()
        _, queues = await one.explain(topic="T")
        assert {name for name, _ in queues} == {"T"}

    beside(work)


def test_levels_that_cannot_be_read_are_rocketmq_s(beside):
    async def work(cluster, client_of):
        assert list(delay_levels_of(cluster.settings)[:3]) == [1000, 5000, 10_000]
        assert len(delay_levels_of(cluster.settings)) == 18

    beside(work)


def test_what_plugins_show_is_told_and_conflicts_are_among_it(beside):
    async def work(cluster, client_of):
        one, other = client_of("one"), client_of("other")

        async def shown():
            answer = await one.ask(65022)
            return {each["name"]: each for each in json.loads(bytes(answer.payload))["figures"]}

        await one.join()
        assert (await shown())["gantrymq_group_conflicts"]["value"] == 0
        await other.join(expression="A", messageModel="BROADCASTING")
        found = (await shown())["gantrymq_group_conflicts"]
        assert (found["value"], found["counts"]) == (2, False)
        assert {shown.name: dict(shown.values) for shown in cluster.broker.metrics.snapshot().plugin_metrics}[
            "gantrymq_group_conflicts"
        ] == {("CG",): 2}
        await other.remoting.close()
        await cluster.world.clock.sleep(1)
        assert (await shown())["gantrymq_group_conflicts"]["value"] == 0

    beside(work)


def test_what_plugins_show_is_read_alone_and_in_short_steps(beside, monkeypatch):
    async def work(cluster, client_of):
        monkeypatch.setattr(cluster.broker.metrics, "snapshot", None)  # it reads every topic
        read = together = most = 0

        def figure(number):
            def look():
                nonlocal read, together, most
                read += 1
                together += 1
                most = max(most, together)
                return MetricFamily(f"gantrymq_figure_{number:03}", "One.", (), {(): number})

            return look

        for number in range(100):
            cluster.broker.metrics.register(figure(number))

        async def others():
            nonlocal together
            while True:
                together = 0
                await asyncio.sleep(0)

        beside_it = asyncio.ensure_future(others())
        (service,) = (each for each in cluster.plugins.services if each.name == "diagnosis")
        answer = await service.handlers[65022](request(65022), None)
        beside_it.cancel()
        names = [each["name"] for each in json.loads(answer.body)["figures"]]
        assert names == sorted(names)
        assert (len(names), read) == (102, 100)
        assert most <= 4

    beside(work, plugins="storage_memory,filter_tag,diagnosis,nameserver")


def test_a_message_that_was_sent_back_waits_with_its_time(beside):
    pytest.importorskip("gantrymq_schedule")

    async def work(cluster, client_of):
        await topic(cluster, queues=1)
        one = client_of("one")
        await one.join()
        await cluster.put("T", b"x")
        (record,) = iter_records((await one.pull(0, 0)).payload)
        back = {
            "offset": str(record.log_offset),
            "group": "CG",
            "delayLevel": "0",
            "originMsgId": "",
            "originTopic": "T",
            "unitMode": "false",
            "maxReconsumeTimes": "16",
        }
        assert (await one.ask(36, back)).code == 0
        found, _ = await one.explain()
        assert (found["retry"]["waiting"], found["retry"]["behind"]) == (1, 0)
        assert 9_000 < found["retry"]["next_due_ms"] - cluster.world.clock.now_ms() <= 10_000
        assert "1 message waits for another try of the group, the next is due in" in found["diagnosis"][0]["sentence"]
        await cluster.world.clock.sleep(11)
        found, _ = await one.explain()
        assert (found["retry"]["waiting"], found["retry"]["behind"]) == (0, 1)

    beside(work)


def test_a_group_that_pops(beside):
    pytest.importorskip("gantrymq_pop")

    async def work(cluster, client_of):
        await topic(cluster)
        one = client_of("one")
        await one.join()
        await cluster.put("T", b"x")
        await one.pull(0, 0)
        mode = {"topic": "T", "consumerGroup": "CG", "mode": "POP", "popShareQueueNum": 0}
        assert (await one.ask(401, None, dumps(mode))).code == 0
        _, queues = await one.explain()
        assert [queues["T", queue_id]["reason"] for queue_id in (0, 1)] == ["popped", "up-to-date"]
        mode["mode"] = "PULL"
        await one.ask(401, None, dumps(mode))
        _, queues = await one.explain()
        assert queues["T", 0]["reason"] == "reading"

    beside(work)


def test_a_group_whose_pops_came_back_and_that_pulls_nothing(beside):
    async def work(cluster, client_of):
        await topic(cluster)
        one = client_of("one")
        await one.join()
        cluster.broker.topics.put(TopicConfig("%RETRY%CG_T", 1, 1))
        await cluster.put("T", b"x")
        await cluster.put("%RETRY%CG_T", b"x")
        found, queues = await one.explain()
        assert (queues["T", 0]["reason"], found["retry"]["behind"]) == ("popped", 1)
        await one.pull(0, 0)
        assert (await one.explain())[1]["T", 0]["reason"] == "reading"

    beside(work)


def test_a_group_that_clients_pull_for_that_are_no_members(beside):
    async def work(cluster, client_of):
        await topic(cluster, queues=2)
        other, asks = client_of("other"), client_of("asks")
        for queue_id in (0, 0, 1):
            await cluster.put("T", b"x", queue_id=queue_id)
        await other.pull(0, 0, commit=0)
        cluster.broker.offsets.commit("CG", Queue("T", 1), 0)
        await cluster.world.clock.sleep(5)
        found, queues = await asks.explain()
        (reason,) = found["diagnosis"]
        assert (reason["reason"], found["members"]) == ("read-without-members", [])
        assert reason["values"] == {
            "group": "CG",
            "client": queues["T", 0]["owner"],
            "ago_ms": pytest.approx(5000, abs=100),
        }
        assert reason["values"]["client"].startswith("127.0.0.1:") and "read for it 5" in reason["sentence"]
        assert [(queues["T", i]["reason"], queues["T", i]["variant"]) for i in (0, 1)] == [
            ("reading", ""),
            ("not-pulled", ""),
        ]
        assert queues["T", 1]["values"] == {"client": queues["T", 0]["owner"]}
        await cluster.world.clock.sleep(56)
        found, queues = await asks.explain()
        assert found["diagnosis"][0]["reason"] == queues["T", 0]["reason"] == "nobody-online"
        assert queues["T", 0]["owner"] is None
        holding = asyncio.ensure_future(other.pull(0, 2, wait_ms=30_000))
        await cluster.world.clock.sleep(1)
        found, queues = await asks.explain()
        assert (found["diagnosis"][0]["values"]["ago_ms"], queues["T", 0]["reason"]) == (0, "slow")
        await other.remoting.close()
        await asyncio.gather(holding, return_exceptions=True)
        await cluster.world.clock.sleep(1)
        assert (await asks.explain())[0]["diagnosis"][0]["reason"] == "nobody-online"
        await asks.join()
        assert (await asks.explain())[0]["diagnosis"] == []

    beside(work)


def test_connections_are_gone_through_once_and_not_for_each_queue(beside, monkeypatch):
    passes = []

    class Counted(dict):
        def values(self):
            passes.append(self)
            return super().values()

    monkeypatch.setattr(OtherReaders, "names", property(lambda readers: Counted(readers._clients)))

    async def work(cluster, client_of):
        await topic(cluster, queues=50)
        cluster.broker.groups.put(GroupConfig("CG"))
        cluster.broker.offsets.commit("CG", Queue("T", 0), 0)
        _, queues = await client_of("asks").explain()
        assert (len(queues), len(passes)) == (50, 1)

    beside(work)


def test_a_group_that_clients_pop_for_that_are_no_members(beside):
    pytest.importorskip("gantrymq_pop")

    async def work(cluster, client_of):
        await topic(cluster, queues=2)
        other, asks = client_of("other"), client_of("asks")
        cluster.broker.groups.put(GroupConfig("CG"))
        ext = {"consumerGroup": "CG", "topic": "T", "queueId": "-1", "maxMsgNums": "1", "invisibleTime": "60000"}
        ext |= {"pollTime": "0", "bornTime": str(cluster.world.clock.now_ms()), "initMode": "0"}
        for queue_id in (0, 1):
            for _ in range(2):
                await cluster.put("T", b"x", queue_id=queue_id)
        assert (await other.ask(200050, ext)).code == 0
        await cluster.world.clock.sleep(5)
        found, queues = await asks.explain()
        (reason,) = found["diagnosis"]
        assert (reason["reason"], reason["values"]["ago_ms"]) == ("read-without-members", pytest.approx(5000, abs=100))
        assert {each["reason"] for each in queues.values()} == {"popped"}
        await cluster.world.clock.sleep(56)
        found, queues = await asks.explain()
        assert found["diagnosis"][0]["reason"] == "nobody-online"

    beside(work)
