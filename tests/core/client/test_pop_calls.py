"""Pop requests and their responses, with scripted brokers."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from gantrymq.client import BrokerRefused, Client, ClientError
from gantrymq.client.errors import AnswerUnreadable
from gantrymq.client.pop.receipts import ReceiptHandles, receipt_of
from gantrymq.loose_json import loads
from gantrymq.model.properties import POP_CK
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

POP, ACK, BATCH, CHANGE = (
    RequestCode.POP_MESSAGE,
    RequestCode.ACK_MESSAGE,
    RequestCode.BATCH_ACK_MESSAGE,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
)


def answer(*records, **more):
    ext = {"popTime": "1700", "invisibleTime": "60000", "reviveQid": "3", "restNum": "0", **more}
    return Command(0, ext=ext, body=b"".join(records))


NOTHING = Command(210, ext={"popTime": "0", "invisibleTime": "0", "reviveQid": "0", "restNum": "0"})


@asynccontextmanager
async def consumer(c, world, **more):
    async with Client(c.namesrv, world=world, client_ip="10.0.0.1", instance_name="one") as client:
        yield client.pop_consumer("G", "T", **more)


def test_a_pop_asks_what_java_asks(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, consumer(c, world, expression="B || A") as pops:
            c.brokers["a"].answers[POP] = NOTHING
            assert await pops.pop(5, poll_s=2, invisible_s=30) == ()
            (asked,) = c.brokers["a"].of(POP)
            born = int(asked.ext.pop("bornTime"))
            assert world.clock.now_ms() - born < 1000
            assert asked.ext == {
                "consumerGroup": "G",
                "topic": "T",
                "queueId": "-1",
                "maxMsgNums": "5",
                "invisibleTime": "30000",
                "pollTime": "2000",
                "initMode": "1",
                "expType": "TAG",
                "exp": "A || B",
                "order": "false",
                "bname": "a",
            }

    simulate(work)


def test_receipts_are_made_of_what_the_answer_says(simulate, cluster, record):
    async def work(world):
        async with cluster(world, "a") as c, consumer(c, world) as pops:
            c.brokers["a"].answers[POP] = answer(
                record(queue_id=2, queue_offset=12),
                record(queue_id=2, queue_offset=10),
                record(queue_id=0, queue_offset=7, topic="%RETRY%G_T"),
                record(queue_id=0, queue_offset=3, topic="%RETRY%G+T"),
                record(queue_id=0, queue_offset=9, properties=b"POP_CK\x018 1 2 3 1 a 0 9\x02"),
                startOffsetInfo="0 2 10;1 0 6;2 0 3",
                msgOffsetInfo="0 2 10,12;1 0 7;2 0 3",
            )
            messages = await pops.pop()
            assert [message.properties[POP_CK] for message in messages] == [
                "10 1700 60000 3 0 a 2 12",
                "10 1700 60000 3 0 a 2 10",
                "6 1700 60000 3 1 a 0 7",
                "3 1700 60000 3 2 a 0 3",
                "8 1 2 3 1 a 0 9",
            ]
            assert {message.topic for message in messages} == {"T"}
            assert {message.properties["1ST_POP_TIME"] for message in messages} == {"1700"}
            assert {message.broker_name for message in messages} == {"a"}

    simulate(work)


def test_messages_that_came_back_do_not_count_among_those_of_their_topic(simulate, cluster, record):
    """A broker sets the name of the topic, but queue and offset of the retry topic."""

    async def work(world):
        async with cluster(world, "a") as c, consumer(c, world) as pops:
            c.brokers["a"].answers[POP] = answer(
                record(queue_id=0, queue_offset=0, properties=b"POP_CK\x010 1700 60000 3 1 a 0 0\x02"),
                record(queue_id=0, queue_offset=3),
                record(queue_id=0, queue_offset=4),
                startOffsetInfo="0 0 3;1 0 0",
                msgOffsetInfo="0 0 3,4;1 0 0",
            )
            messages = await pops.pop()
            assert [receipt_of(message).queue_offset for message in messages] == [0, 3, 4]
            assert [receipt_of(message).kind for message in messages] == ["1", "0", "0"]

    simulate(work)


def test_offsets_of_the_answer_count_where_a_record_has_another(simulate, cluster, record):
    async def work(world):
        async with cluster(world, "a") as c, consumer(c, world) as pops:
            c.brokers["a"].answers[POP] = answer(
                record(queue_id=1, queue_offset=0),
                record(queue_id=1, queue_offset=1),
                startOffsetInfo="0 1 100",
                msgOffsetInfo="0 1 100,101",
            )
            one, two = await pops.pop()
            assert (receipt_of(one).queue_offset, receipt_of(two).queue_offset) == (100, 101)

    simulate(work)


def test_without_such_texts_the_first_message_is_where_the_pop_began(simulate, cluster, record):
    async def work(world):
        async with cluster(world, "a") as c, consumer(c, world) as pops:
            c.brokers["a"].answers[POP] = answer(record(queue_id=1, queue_offset=5), record(queue_id=1, queue_offset=4))
            messages = await pops.pop()
            receipts = [receipt_of(message) for message in messages]
            assert [(each.start_offset, each.queue_offset) for each in receipts] == [(4, 5), (4, 4)]

    simulate(work)


@pytest.mark.parametrize(
    ("starts", "offsets"), [("0 1 x", "0 1 4"), ("0 1", "0 1 4"), ("0 2 4", "0 2 4"), ("0 1 4", ""), ("0 1 4", "0 1 ,")]
)
def test_an_answer_that_does_not_say_where_its_messages_lie(simulate, cluster, record, starts, offsets):
    async def work(world):
        async with cluster(world, "a") as c, consumer(c, world) as pops:
            c.brokers["a"].answers[POP] = answer(
                record(queue_id=1, queue_offset=4), startOffsetInfo=starts, msgOffsetInfo=offsets
            )
            with pytest.raises(AnswerUnreadable, match="a:10911 to a pop lacks the offsets of its messages"):
                await pops.pop()

    simulate(work)


def test_how_often_an_ordered_pop_gave_a_message(simulate, cluster, record):
    async def work(world):
        async with cluster(world, "a") as c, consumer(c, world, orderly=True) as pops:
            c.brokers["a"].answers[POP] = answer(
                record(queue_id=1, queue_offset=4),
                record(queue_id=1, queue_offset=5),
                startOffsetInfo="0 1 4",
                msgOffsetInfo="0 1 4,5",
                orderCountInfo="0 qo1%4 3;0 1 1",
            )
            assert [message.reconsume_times for message in await pops.pop()] == [3, 1]
            (asked,) = c.brokers["a"].of(POP)
            assert (asked.ext["order"], asked.ext["attemptId"]) == ("true", "10.0.0.1@one-1")

    simulate(work)


def test_an_ordered_pop_that_brought_no_answer_is_asked_again_under_its_id(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, consumer(c, world, orderly=True) as pops:
            broker = c.brokers["a"]
            broker.answers[POP] = None
            with pytest.raises(TimeoutError):
                await pops.pop(poll_s=1)
            broker.answers[POP] = NOTHING
            await pops.pop()
            await pops.pop()
            ids = [asked.ext["attemptId"] for asked in broker.of(POP)]
            assert ids[0] == ids[1] != ids[2]

    simulate(work)


def test_acknowledgements_go_where_the_message_lies(simulate, cluster, record):
    async def work(world):
        async with cluster(world, "a") as c, consumer(c, world) as pops:
            broker = c.brokers["a"]
            broker.answers.update({ACK: Command(0), BATCH: Command(0)})
            broker.answers[POP] = answer(
                record(queue_id=2, queue_offset=10),
                record(queue_id=2, queue_offset=19),
                record(queue_id=0, queue_offset=7, topic="%RETRY%G_T"),
                startOffsetInfo="0 2 10;1 0 7",
                msgOffsetInfo="0 2 10,19;1 0 7",
            )
            messages = await pops.pop()
            await pops.ack(messages[2])
            (asked,) = broker.of(ACK)
            assert asked.ext == {
                "consumerGroup": "G",
                "topic": "%RETRY%G_T",
                "queueId": "0",
                "extraInfo": "7 1700 60000 3 1 a 0 7",
                "offset": "7",
                "bname": "a",
            }
            await pops.ack(*messages)
            (asked,) = broker.of(BATCH)
            same = {"c": "G", "it": 60000, "pt": 1700, "rq": 3, "t": "T"}
            assert loads(asked.payload) == {
                "acks": [
                    {**same, "b": "AQI=", "q": 2, "r": "0", "so": 10},  # offsets 0 and 9 as Java's client writes them
                    {**same, "b": "AQ==", "q": 0, "r": "1", "so": 7},
                ],
                "brokerName": "a",
            }

    simulate(work)


def test_a_changed_time_makes_a_receipt_of_its_own_pop(simulate, cluster, record):
    async def work(world):
        async with cluster(world, "a") as c, consumer(c, world) as pops:
            broker = c.brokers["a"]
            broker.answers[CHANGE] = Command(0, ext={"popTime": "1900", "invisibleTime": "30000", "reviveQid": "5"})
            broker.answers[POP] = answer(
                record(queue_id=2, queue_offset=12), startOffsetInfo="0 2 10", msgOffsetInfo="0 2 12"
            )
            (message,) = await pops.pop()
            await pops.nack(message)
            (asked,) = broker.of(CHANGE)
            assert (asked.ext["invisibleTime"], asked.ext["extraInfo"]) == ("10000", "10 1700 60000 3 0 a 2 12")
            assert message.properties[POP_CK] == "12 1900 30000 5 0 a 2 12"

    simulate(work)


def test_what_the_broker_refuses_is_raised(simulate, cluster, record):
    async def work(world):
        async with cluster(world, "a") as c, consumer(c, world) as pops:
            broker = c.brokers["a"]
            broker.answers[POP] = Command(16, remark="not readable")
            with pytest.raises(BrokerRefused, match="a:10911 answered code 16: not readable"):
                await pops.pop()
            broker.answers[POP] = Command(3, remark="request type 200050 not supported")
            with pytest.raises(
                ClientError, match=r"broker a \(a:10911\) does not support pop: RocketMQ does from 5.0 on"
            ):
                await pops.pop()
            broker.answers[POP] = answer(record(), startOffsetInfo="0 0 0", msgOffsetInfo="0 0 0")
            (message,) = await pops.pop()
            broker.answers.update({ACK: Command(208, remark="no such"), CHANGE: Command(13, remark="not mine")})
            with pytest.raises(BrokerRefused, match="code 208: no such"):
                await pops.ack(message)
            with pytest.raises(BrokerRefused, match="code 13: not mine"):
                await pops.nack(message)

    simulate(work)


def test_every_broker_is_asked_and_the_first_with_messages_answers(simulate, cluster, record):
    """The next call returns the messages of another broker, without a request."""

    async def work(world):
        async with cluster(world, "ab") as c, consumer(c, world) as pops:
            a, b = c.brokers.values()
            a.answers[POP] = None  # held
            b.answers[POP] = answer(record(queue_offset=1), startOffsetInfo="0 0 1", msgOffsetInfo="0 0 1")
            (message,) = await pops.pop()
            assert message.broker_name == "b"
            (held,) = a.of(POP)
            found = answer(record(queue_offset=2), startOffsetInfo="0 0 2", msgOffsetInfo="0 0 2")
            a.connections[0].reply(held, found)
            await world.clock.sleep(1)
            b.answers[POP] = NOTHING
            (message,) = await pops.pop()
            assert message.broker_name == "a"
            assert len(a.of(POP)) == 1

    simulate(work)


def test_what_came_and_nobody_asked_for_comes_again_after_a_close(simulate, cluster, record):
    async def work(world):
        async with cluster(world, "ab") as c:
            a, b = c.brokers.values()
            async with consumer(c, world) as pops:
                a.answers.update({POP: None, CHANGE: Command(0, ext=NOTHING.ext)})
                b.answers[POP] = answer(record(queue_offset=1), startOffsetInfo="0 0 1", msgOffsetInfo="0 0 1")
                await pops.pop()
                found = answer(record(queue_offset=2), startOffsetInfo="0 0 2", msgOffsetInfo="0 0 2")
                a.connections[0].reply(a.of(POP)[0], found)
                await world.clock.sleep(1)
            (asked,) = a.of(CHANGE)
            assert (asked.ext["offset"], asked.ext["invisibleTime"]) == ("2", "1000")
            assert b.of(CHANGE) == []  # the application has it

    simulate(work)


def test_a_task_that_goes_on_popping_does_not_disturb_a_close(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, consumer(c, world) as pops:
            broker = c.brokers["a"]
            broker.answers[POP] = None

            async def pop_on():
                while True:
                    await pops.pop()

            task = asyncio.create_task(pop_on())
            await world.clock.sleep(1)
            await pops.close()
            assert len(broker.of(POP)) == 1
            with pytest.raises(ClientError, match="is being closed"):
                await task

    simulate(work)


def test_a_loop_that_asks_for_the_route_while_its_consumer_closes_ends(simulate, cluster, record):
    async def work(world):
        async with cluster(world, "a") as c, consumer(c, world) as pops:
            broker, route = c.brokers["a"], RequestCode.GET_ROUTEINFO_BY_TOPIC
            found = answer(record(queue_offset=1), startOffsetInfo="0 0 1", msgOffsetInfo="0 0 1")
            broker.answers.update({POP: found, ACK: None})
            known = c.ns.answers[route]

            async def loop():
                async for _ in pops:
                    broker.answers[POP] = Command(209, ext=NOTHING.ext)  # one pop a second
                    c.ns.answers[route] = None

            task = asyncio.create_task(loop())
            await world.clock.sleep(0.5)
            while not task.done() and len(c.ns.of(route)) < 2:
                await world.clock.sleep(0.5)
            closing = asyncio.create_task(pops.close())  # waits for the acknowledgement
            await world.clock.sleep(0.1)
            c.ns.connections[0].reply(c.ns.of(route)[-1], known(c.ns.of(route)[-1]) if callable(known) else known)
            await closing
            await task

    simulate(work)


def test_one_broker_that_is_away_hides_no_messages(simulate, cluster, record):
    async def work(world):
        async with cluster(world, "ab") as c, consumer(c, world) as pops:
            a, b = c.brokers.values()
            await a.stop()
            b.answers[POP] = answer(record(queue_offset=1), startOffsetInfo="0 0 1", msgOffsetInfo="0 0 1")
            assert len(await pops.pop()) == 1
            b.answers[POP] = NOTHING
            with pytest.raises(ConnectionError):
                await pops.pop()

    simulate(work)


def test_a_loop_waits_for_a_broker_that_is_away_and_where_no_pop_may_wait(simulate, cluster, record, caplog):
    async def work(world):
        async with cluster(world, "a") as c, consumer(c, world) as pops:
            broker = c.brokers["a"]
            broker.answers.update({ACK: Command(0), POP: Command(209, ext=NOTHING.ext)})
            seen = []

            async def loop():
                async for message in pops:
                    seen.append(message.queue_offset)

            task = asyncio.create_task(loop())
            await world.clock.sleep(4.5)
            assert len(broker.of(POP)) == 5  # once a second
            await broker.stop()
            await world.clock.sleep(20)
            await broker.start()
            broker.answers[POP] = answer(record(queue_offset=1), startOffsetInfo="0 0 1", msgOffsetInfo="0 0 1")
            await world.clock.sleep(2)
            assert seen
            await pops.close()
            await task
            assert caplog.text.count("popping T: ") == 1

    simulate(work)


def test_an_answer_without_the_parts_of_receipts():
    with pytest.raises(AnswerUnreadable):
        ReceiptHandles("0", None, None, "a:1", ())
