"""Pops, acknowledgements and redeliveries, with plain requests and a virtual clock."""

import asyncio

import pytest

from gantrymq.formats.record import encode_record, read_record
from gantrymq.model.java import ordered_text
from gantrymq_pop.revive import retry_copy


def test_messages_are_given_out_once_and_come_back_when_their_time_is_over(popped):
    async def main(client):
        await client.send(b"1", b"2", b"3")
        await client.send(b"4", queue_id=1)
        answer = await client.pop()
        assert sorted(answer.bodies) == [b"1", b"2", b"3", b"4"]
        assert answer.remark == "FOUND"
        assert (await client.pop()).code == 210
        for each in answer.messages[:3]:
            assert (await client.ack(each)).code == 0
        (left,) = answer.messages[3:]
        began = client.clock.now_ms()
        again = await client.pop(poll=20_000)
        waited = client.clock.now_ms() - began
        assert (again.bodies, again.messages[0].times) == ([left.body], 1)
        assert 9_000 < waited < 11_000
        assert again.messages[0].record_topic == "T"
        assert again.messages[0].handle.split(" ")[4] == "1"
        assert "1ST_POP_TIME" in again.messages[0].properties
        assert (await client.ack(again.messages[0])).code == 0
        assert (await client.pop(poll=30_000)).code == 210

    popped(main)


@pytest.mark.parametrize(
    ("tagged", "own", "java"),
    [
        (True, 3, "KEYS UNIQ_KEY CLUSTER 1ST_POP_TIME TAGS"),
        (True, 6, "TRACE_ON MSG_REGION KEYS UNIQ_KEY CLUSTER 1ST_POP_TIME WAIT TAGS"),
        (False, 2, "UNIQ_KEY 1ST_POP_TIME KEYS"),
        (False, 5, "UNIQ_KEY CLUSTER TRACE_ON 1ST_POP_TIME MSG_REGION KEYS"),
        (False, 6, "TRACE_ON MSG_REGION KEYS UNIQ_KEY CLUSTER 1ST_POP_TIME WAIT"),
    ],
)
def test_properties_of_redelivered_messages_are_ordered_as_in_java_maps(tagged, own, java):
    given = dict.fromkeys(("KEYS", "UNIQ_KEY", "CLUSTER", "MSG_REGION", "TRACE_ON", "WAIT")[:own], "v")
    text = ordered_text({**given, **({"TAGS": "A"} if tagged else {})})
    data = encode_record(
        topic="T", queue_id=0, body=b"x", properties=text, queue_offset=0, log_offset=0, store_timestamp=1
    )
    copied = retry_copy(read_record(data), "%RETRY%CG_T", 7, b"\x7f\0\0\1\0\0\0\0").properties
    assert [piece.partition(b"\x01")[0].decode() for piece in copied.split(b"\x02")[:-1]] == java.split()


def test_the_last_pop_is_known_for_a_minute_and_while_it_waits(popped):
    async def main(client):
        pop = client.cluster.broker.service("pop")
        assert pop.last_pop("CG", "T") is None
        await client.pop(poll=0)
        at, by = pop.last_pop("CG", "T")
        assert (client.clock.monotonic() - at) == pytest.approx(0, abs=0.1) and by[1] > 0
        assert pop.last_pop("CG", "Else") is pop.last_pop("Else", "T") is None
        await client.clock.sleep(59)
        assert pop.last_pop("CG", "T") == (at, by)
        waiting = asyncio.ensure_future(client.pop(poll=90_000))
        await client.clock.sleep(80)
        assert pop.last_pop("CG", "T") == (client.clock.monotonic(), by)
        assert (await waiting).code == 210
        await client.clock.sleep(60)
        assert pop.last_pop("CG", "T") is None

    popped(main)


@pytest.mark.parametrize("queue", [-1, 1])
@pytest.mark.parametrize("others", [0, 9])
def test_a_waiting_pop_is_found_among_those_of_other_groups(popped, queue, others):
    async def main(client):
        pop = client.cluster.broker.service("pop")
        waiting = [asyncio.ensure_future(client.pop(poll=90_000, group=f"G{each}")) for each in range(others)]
        waiting.append(asyncio.ensure_future(client.pop(poll=90_000, queue=queue)))
        await client.clock.sleep(80)
        assert pop.last_pop("CG", "T").at == client.clock.monotonic()
        assert pop.last_pop("CG", "Else") is pop.last_pop("Else", "T") is None
        assert {each.code for each in await asyncio.gather(*waiting)} == {210}

    popped(main)


def test_a_pop_waits_for_a_message(popped):
    async def main(client):
        waiting = asyncio.ensure_future(client.pop(poll=15_000))
        await client.clock.sleep(3)
        await client.send(b"now", queue_id=1)
        assert (await client.ack((await waiting).messages[0])).code == 0
        began = client.clock.now_ms()
        assert (await client.pop(poll=15_000)).code == 210
        assert client.clock.now_ms() - began == pytest.approx(15_000, abs=100)

    popped(main)


def test_a_burst_is_shared_by_all_waiting_clients(popped):
    async def main(client):
        waiting = [asyncio.ensure_future(client.pop(poll=15_000, most=1)) for _ in range(8)]
        await client.clock.sleep(1)
        info = await client.ask(200055, {"consumerGroup": "CG", "topic": "T", "queueId": "-1"})
        assert info.ext == {"pollingNum": "8"}
        began = client.clock.now_ms()
        await client.send(*(b"%d" % each for each in range(8)))
        answers = await asyncio.gather(*waiting)
        assert sorted(body for each in answers for body in each.bodies) == [b"%d" % each for each in range(8)]
        assert client.clock.now_ms() - began < 100

    popped(main)


def test_changed_invisible_time(popped):
    async def main(client):
        await client.send(b"1", b"2")
        answer = await client.pop()
        changed = await client.change(answer.messages[0], 30_000)
        assert (changed.code, changed.ext["invisibleTime"]) == (0, "30000")
        first = await client.pop(poll=20_000)
        assert first.bodies == [b"2"]
        assert (await client.ack(first.messages[0])).code == 0
        began = client.clock.now_ms()
        second = await client.pop(poll=60_000)
        assert second.bodies == [b"1"]
        assert 19_000 < client.clock.now_ms() - began < 21_000

    popped(main)


def test_the_new_handle_of_a_changed_message_acknowledges_it(popped):
    async def main(client):
        await client.send(b"1")
        (message,) = (await client.pop()).messages
        changed = (await client.change(message, 30_000)).ext
        message.handle = f"0 {changed['popTime']} 30000 {changed['reviveQid']} 0 broker-a 0 0"
        assert (await client.ack(message)).code == 0
        assert (await client.pop(poll=50_000)).code == 210

    popped(main)


def test_a_change_that_is_repeated_gives_the_message_out_once(popped):
    """Its answer was lost, so the client repeats it with the handle that it has."""

    async def main(client):
        await client.send(b"1")
        (message,) = (await client.pop(invisible=60_000)).messages
        changed = await client.change(message, 1_000)
        await client.clock.sleep(0.5)
        again = await client.change(message, 1_000)
        assert again.ext == changed.ext
        await client.clock.sleep(2)
        assert (await client.change(message, 1_000)).ext == changed.ext
        (back,) = (await client.pop(invisible=60_000)).messages
        assert (await client.ack(back)).code == 0
        assert (await client.pop(poll=70_000)).bodies == []

    popped(main)


def test_a_batch_of_acknowledgements(popped):
    async def main(client):
        await client.send(*(b"%d" % each for each in range(20)))
        answer = await client.pop()
        assert (await client.batch_ack(answer.messages[:19])).code == 0
        assert (await client.pop(poll=20_000)).bodies == [b"19"]

    popped(main)


def test_only_what_matches_is_given_out(popped):
    async def main(client):
        await client.send(b"1", b"2", tags="A")
        await client.send(b"3", tags="B")
        answer = await client.pop(exp="B", expType="TAG")
        assert answer.bodies == [b"3"]
        assert (await client.pop(exp="B", expType="TAG")).code == 210

    popped(main)


def test_notification_and_peek(popped):
    async def main(client):
        ext = {"consumerGroup": "CG", "topic": "T", "queueId": "-1", "pollTime": "0", "bornTime": "0"}
        assert (await client.ask(200054, ext)).ext == {"hasMsg": "false"}
        told = asyncio.ensure_future(client.ask(200054, {**ext, "pollTime": "9000"}))
        await client.clock.sleep(1)
        await client.send(b"1", b"2")
        assert (await told).ext == {"hasMsg": "true"}
        peek = {"consumerGroup": "CG", "topic": "T", "queueId": "-1", "maxMsgNums": "5"}
        peeked = await client.ask(200052, peek)
        assert (peeked.code, peeked.ext["restNum"]) == (0, "2")
        assert (await client.pop()).bodies == [b"1", b"2"]
        assert (await client.ask(200052, peek)).code == 19

    popped(main)


def test_in_order_a_queue_waits_for_its_acknowledgements(popped):
    async def main(client):
        await client.send(b"1", b"2", b"3")
        answer = await client.pop(order="true", most=2)
        assert (answer.bodies, answer.ext["reviveQid"], answer.ext["orderCountInfo"]) == ([b"1", b"2"], "999", "0 0 0")
        assert (await client.pop(order="true")).code == 210
        assert (await client.ack(answer.messages[0])).code == 0
        waiting = asyncio.ensure_future(client.pop(order="true", poll=15_000))
        await client.clock.sleep(1)
        assert not waiting.done()
        assert (await client.ack(answer.messages[1])).code == 0
        third = await waiting
        assert third.bodies == [b"3"]
        began = client.clock.now_ms()
        again = await client.pop(order="true", poll=30_000)
        assert (again.bodies, again.ext["orderCountInfo"]) == ([b"3"], "0 qo0%2 1;0 0 1")
        assert 9_000 < client.clock.now_ms() - began < 11_000

    popped(main)


def test_a_group_that_begins_at_the_end(popped):
    async def main(client):
        await client.send(b"1", b"2")
        assert (await client.pop(mode=1)).bodies == [b"1", b"2"]  # the first message is in memory
        client.cluster.settings.set("initPopOffsetByCheckMsgInMem", False, "a test")
        assert (await client.pop(mode=1, group="other")).bodies == [b"2"]

    popped(main)


def test_retry_topics_of_the_second_form(popped):
    async def main(client):
        await client.send(b"1")
        await client.pop(invisible=1000)
        again = await client.pop(poll=5000)
        assert again.messages[0].topic == "%RETRY%CG+T"
        assert (await client.ack(again.messages[0])).code == 0

    popped(main, settings={"enableRetryTopicV2": True})


def test_what_waits_outlives_a_restart(popped):
    async def main(client):
        await client.send(b"1", b"2", b"3")
        answer = await client.pop(invisible=20_000)
        assert (await client.ack(answer.messages[0])).code == 0
        await client.cluster.restart()
        assert (await client.pop()).code == 210
        assert (await client.ack(answer.messages[1])).code == 0
        assert (await client.pop(poll=25_000)).bodies == [b"3"]

    pytest.importorskip("gantrymq_storage_mmap")
    popped(main, settings={"store": "mmap"})
