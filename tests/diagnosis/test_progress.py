"""Offsets and lag of groups: 208, 303, 308, 314, 317."""

from __future__ import annotations

from broker_desk import body_of, commit, three_messages_one_consumed

from gantrymq.loose_json import ObjectKey

QUEUE = ObjectKey({"brokerName": "broker-a", "queueId": 0, "topic": "T"})


def test_progress_of_a_group_with_what_is_under_way(broker):
    async def main(desk):
        await three_messages_one_consumed(desk)
        await desk.clock.sleep(11)
        body = body_of(await desk.ask(208, {"consumerGroup": "CG"}))
        assert list(body["offsetTable"]) == [
            ObjectKey({"brokerName": "broker-a", "queueId": i, "topic": "T"}) for i in range(4)
        ]
        found = body["offsetTable"][QUEUE]
        assert (found["brokerOffset"], found["consumerOffset"], found["pullOffset"]) == (3, 1, 3)
        assert found["lastTimestamp"] > 0
        assert body["consumeTps"] > 0

    broker(main)


def test_progress_of_a_topic_the_group_no_longer_wants_is_left_out(broker):
    async def main(desk):
        await three_messages_one_consumed(desk)
        await desk.send("U")
        await commit(desk, 1, topic="U")
        body = body_of(await desk.ask(208, {"consumerGroup": "CG"}))
        assert {key["topic"] for key in body["offsetTable"]} == {"T"}
        body = body_of(await desk.ask(208, {"consumerGroup": "CG", "topicList": "U;Nowhere"}))
        assert body["offsetTable"] == {}

    broker(main)


def test_progress_of_all_groups_adds_up(broker):
    async def main(desk):
        await three_messages_one_consumed(desk)
        body = body_of(await desk.ask(317, {"isOrder": "false"}))
        assert (body["brokerAddr"], body["totalDiff"]) == ("10.0.0.1:10911", 2)
        by_group = {name: found for each in body["consumeStatsList"] for name, found in each.items()}
        assert by_group["TOOLS_CONSUMER"] == []
        assert by_group["CG"][0]["offsetTable"][QUEUE]["consumerOffset"] == 1
        ordered = body_of(await desk.ask(317, {"isOrder": "true"}))
        assert [each["CG"] for each in ordered["consumeStatsList"] if "CG" in each] == [[]]

    broker(main)


def test_time_span_says_how_late_the_next_message_is(broker):
    async def main(desk):
        await desk.send("T")
        await desk.clock.sleep(5)
        await desk.send("T")
        await desk.heartbeat("CG")
        await commit(desk, 1)
        await desk.clock.sleep(3)
        span = body_of(await desk.ask(303, {"topic": "T", "group": "CG"}))["consumeTimeSpanSet"][0]
        assert span["messageQueue"] == {"brokerName": "broker-a", "queueId": 0, "topic": "T"}
        assert span["minTimeStamp"] == span["consumeTimeStamp"] <= span["maxTimeStamp"] - 5000
        assert 3000 <= span["delayTime"] < 4000
        assert (await desk.ask(303, {"topic": "Nowhere", "group": "CG"})).code == 17

    broker(main)


def test_lowest_offsets_leave_out_groups_and_mark_who_is_behind(broker):
    async def main(desk):
        await desk.send("T")
        for group, offset in (("A", 1), ("B", 0), ("C", 1)):
            await desk.heartbeat(group, client_id=group)
            await commit(desk, offset, group=group)
        lowest = body_of(await desk.ask(308, {"topic": "T", "compareGroup": "C"}))
        assert lowest == {"correctionOffsets": {0: 0}}
        behind = body_of(await desk.ask(308, {"topic": "T", "compareGroup": "B", "filterGroups": "B"}))
        assert behind == {"correctionOffsets": {0: 2**63 - 1}}
        assert desk.tables.offsets.groups_of("T") == ["A", "B", "C"]

    broker(main)


def test_a_group_starts_where_another_is(broker):
    async def main(desk):
        await three_messages_one_consumed(desk)
        assert (await desk.ask(314, {"srcGroup": "CG", "destGroup": "New"})).code == 0
        assert desk.tables.offsets.table["T@New"] == {0: 1}
        assert (await desk.ask(314, {"srcGroup": "CG", "destGroup": "Other", "topic": "Nowhere"})).code == 0
        assert "Nowhere@Other" not in desk.tables.offsets.table

    broker(main)
