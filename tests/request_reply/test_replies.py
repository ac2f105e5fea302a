"""Replies: their receivers, their storage, and the responses to failed pushes."""

import asyncio

import pytest

from gantrymq.formats.record import iter_records
from gantrymq.interfaces import GetLimit
from gantrymq.model.properties import decode_text
from gantrymq.model.queue import Queue
from gantrymq.remoting.command import Command
from gantrymq_request_reply.replies import ANSWER_S

KEPT = Queue("DefaultCluster_REPLY_TOPIC", 0)
TO_P1 = {"MSG_TYPE": "reply", "REPLY_TO_CLIENT": "p1", "CORRELATION_ID": "c-1", "TTL": "3000"}


async def kept(cluster):
    """The records of the reply topic."""
    found = await cluster.broker.messages.get(KEPT, 0, GetLimit(100))
    return [record for buffer in found.buffers for record in iter_records(buffer)]


@pytest.mark.parametrize("code", [324, 325])
def test_a_reply_reaches_the_producer_that_its_property_names_and_is_kept(replying, code):
    async def main(cluster, peer):
        asker, other, replier = peer(), peer(), peer()
        await asker.produce("p1")
        await other.produce("p2")
        answer = await replier.reply(TO_P1, code=code, flag=7, reconsume_times=2)
        (push,) = asker.asked
        (record,) = await kept(cluster)
        assert (push.code, bytes(push.payload), other.asked) == (326, b"the reply", [])
        assert (answer.code, answer.remark) == (0, None)
        assert answer.ext.items() >= {"queueId": "0", "queueOffset": "0", "MSG_REGION": "DefaultRegion"}.items()
        assert len(answer.ext["msgId"]) == 32 and answer.ext["TRACE_ON"] == "true"
        assert (bytes(record.body), record.flag, record.reconsume_times) == (b"the reply", 7, 2)
        own = decode_text(push.ext.pop("properties"))
        assert own.pop("PUSH_REPLY_TIME") == push.ext.pop("storeTimestamp")
        assert own == {**TO_P1, "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"} == record.properties
        assert push.ext.pop("bornHost").startswith("127.0.0.1:")
        assert push.ext == {
            "producerGroup": "PG_reply",
            "topic": KEPT.topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "queueId": "0",
            "sysFlag": "0",
            "bornTimestamp": "1700000000000",
            "flag": "7",
            "reconsumeTimes": "2",
            "unitMode": "false",
            "storeHost": cluster.broker_address,
        }

    replying(main)


def test_the_answer_waits_for_the_producer_s(replying):
    async def main(cluster, peer):
        asker, replier = peer(), peer()
        asker.answers = {}
        await asker.produce("p1")
        replying = asyncio.ensure_future(replier.reply(TO_P1))
        await cluster.world.clock.sleep(ANSWER_S / 2)
        assert not replying.done() and not await kept(cluster)
        (push,) = asker.asked
        connection = await asker.client.connect(cluster.broker_address)
        connection.reply(push, Command(0))
        assert (await replying).code == 0 and len(await kept(cluster)) == 1

    replying(main)


def test_compressed_bodies_stay_so_and_no_other_flag_is_kept(replying):
    async def main(cluster, peer):
        asker, replier = peer(), peer()
        await asker.produce("p1")
        for flags in (0x301, 0x101, 0x201, 0x4, 0x80):
            assert (await replier.reply(TO_P1, sys_flag=flags)).code == 0
        assert [push.ext["sysFlag"] for push in asker.asked] == ["769", "257", "513", "4", "128"]
        assert [record.sys_flag for record in await kept(cluster)] == [0x301, 0x101, 0x201, 0, 0]

    replying(main)


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"MSG_TYPE": "reply"}, "reply message properties[REPLY_TO_CLIENT] is null"),
        (TO_P1, "push reply message fail, channel of <p1> not found."),
    ],
)
def test_a_reply_to_an_offline_producer_is_stored_and_answered_with_code_1(replying, own, says):
    async def main(cluster, peer):
        answer = await peer().reply(own)
        assert (answer.code, answer.remark, answer.ext["queueOffset"]) == (1, says, "0")
        assert len(await kept(cluster)) == 1

    replying(main)


def test_a_producer_that_refuses_is_silent_or_leaves_is_reported(replying):
    async def main(cluster, peer):
        asker, replier = peer(), peer()
        await asker.produce("p1")
        asker.answers = {326: Command(1, remark="no request waits")}
        refused = await replier.reply(TO_P1)
        asker.answers = {}
        silent = await replier.reply(TO_P1)
        leaving = asyncio.ensure_future(replier.reply(TO_P1))
        await cluster.world.clock.sleep(1)
        await asker.client.close()
        gone = await replier.reply(TO_P1)
        assert [each.code for each in (refused, silent, await leaving, gone)] == [1, 1, 1, 1]
        assert refused.remark == "push reply message to p1 fail: it answered 1 no request waits"
        assert silent.remark == "push reply message to p1 fail: it did not answer within 10 s"
        assert (await leaving).remark == "push reply message to p1 fail: its connection closed"
        assert gone.remark == "push reply message fail, channel of <p1> not found."
        assert len(await kept(cluster)) == 4

    replying(main)


def test_of_two_connections_with_one_client_id_the_latest_is_asked_then_the_other(replying):
    async def main(cluster, peer):
        first, second, replier = peer(), peer(), peer()
        await first.produce("p1")
        await second.produce("p1", "another group")
        await first.produce("p1")  # a heartbeat of a known client is not a new connection
        assert (await replier.reply(TO_P1)).code == 0
        await second.client.close()
        await cluster.world.clock.sleep(1)
        assert (await replier.reply(TO_P1)).code == 0
        assert (len(first.asked), len(second.asked)) == (1, 1)

    replying(main)


def test_nothing_is_kept_when_replies_are_not_to_be_kept(replying):
    async def main(cluster, peer):
        asker, replier = peer(), peer()
        await asker.produce("p1")
        answer = await replier.reply(TO_P1)
        assert (answer.code, answer.ext["msgId"], answer.ext["queueOffset"]) == (0, "0", "0")
        assert len(asker.asked) == 1 and not await kept(cluster)

    replying(main, storeReplyMessageEnable=False)


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"topic": "Nowhere", "default_topic": "None"}, 17, "topic Nowhere does not exist on this broker"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, 16, "belongs to the broker itself"),
        ({"topic": "a b"}, 29, "has a character outside"),
        ({"queue_id": 1}, 29, "queueId 1 is outside topic"),
        ({"body": None}, 13, "has no body"),
        ({"body": b"x" * 4_194_305}, 13, "the most allowed is 4194304 (maxMessageSize)"),
    ],
)
def test_what_fails_a_check_is_neither_pushed_nor_kept(replying, fields, code, says):
    async def main(cluster, peer):
        asker, replier = peer(), peer()
        await asker.produce("p1")
        answer = await replier.reply(TO_P1, **fields)
        assert (answer.code, says in answer.remark) == (code, True), answer
        assert answer.ext["MSG_REGION"] == "DefaultRegion"
        assert asker.asked == [] and not await kept(cluster)

    replying(main)


def test_a_reply_that_cannot_be_kept_is_delivered_all_the_same(replying):
    async def main(cluster, peer):
        asker, replier = peer(), peer()
        await asker.produce("p1")
        long = {**TO_P1, "long": "x" * 40_000}
        answer = await replier.reply(long)
        assert (answer.code, answer.ext["msgId"], len(asker.asked)) == (0, "0", 1)
        assert not await kept(cluster)

    replying(main)


def test_replies_that_wait_are_bounded(replying, monkeypatch):
    monkeypatch.setattr("gantrymq_request_reply.replies.MOST_WAITING", 2)

    async def main(cluster, peer):
        asker, replier = peer(), peer()
        asker.answers = {}
        await asker.produce("p1")
        waiting = [asyncio.ensure_future(replier.reply(TO_P1)) for _ in range(2)]
        await cluster.world.clock.sleep(1)
        refused = await replier.reply(TO_P1)
        assert (refused.code, refused.remark) == (
            2,
            "2 replies wait for their producers here; send the reply again later",
        )
        assert [(await each).code for each in waiting] == [1, 1]
        asker.answers = {326: Command(0)}
        assert (await replier.reply(TO_P1)).code == 0

    replying(main)


def test_many_clients_get_their_own_replies(replying):
    async def main(cluster, peer):
        askers = {f"p{number}": peer() for number in range(20)}
        for client_id, asker in askers.items():
            await asker.produce(client_id)
        repliers = [peer() for _ in range(3)]
        order = [f"p{(number * 7) % 20}" for number in range(200)]
        answers = await asyncio.gather(
            *(
                repliers[number % 3].reply({**TO_P1, "REPLY_TO_CLIENT": client_id}, b"%d" % number)
                for number, client_id in enumerate(order)
            )
        )
        assert {each.code for each in answers} == {0}
        for client_id, asker in askers.items():
            wanted = {b"%d" % number for number, each in enumerate(order) if each == client_id}
            assert {bytes(push.payload) for push in asker.asked} == wanted

    replying(main)


def test_a_broker_that_stops_waits_for_no_producer(replying):
    async def main(cluster, peer):
        asker, replier = peer(), peer()
        asker.answers = {}
        await asker.produce("p1")
        waiting = asyncio.ensure_future(replier.reply(TO_P1))
        await cluster.world.clock.sleep(1)
        begun = cluster.world.clock.monotonic()
        await cluster.server.stop()
        answer = await waiting
        assert cluster.world.clock.monotonic() - begun < 1
        assert (answer.code, answer.remark) == (14, "push reply message to p1 fail: the broker is stopping")
        assert answer.ext["queueOffset"] == "0", "it was kept"

    replying(main)


def test_a_topic_that_is_not_there_is_made_as_a_send_makes_it(replying):
    """Clients in a namespace put it before the reply topic's name as well."""

    async def main(cluster, peer):
        asker, replier = peer(), peer()
        await asker.produce("p1")
        assert (await replier.reply(TO_P1, topic="shop%DefaultCluster_REPLY_TOPIC")).code == 0
        assert cluster.broker.topics.get("shop%DefaultCluster_REPLY_TOPIC").write_queues == 4
        assert (
            cluster.broker.store.bounds(Queue("shop%DefaultCluster_REPLY_TOPIC", 0)).max_offset == len(asker.asked) == 1
        )

    replying(main)
