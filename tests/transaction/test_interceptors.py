"""Interceptors, which other plugins bring, and the messages of transactions."""

import asyncio

import pytest

pytest.importorskip("gantrymq_storage_memory")

from broker_desk import records
from desk import COMMIT, bodies, end, half, join, run_with_plugin

from gantrymq.errors import MessageIllegal
from gantrymq.interfaces import StoreMessage
from gantrymq.model import properties as props
from gantrymq.model.names import OP_TOPIC
from gantrymq.plugins import Plugins


def with_interceptor(main, interceptor, **values):
    from gantrymq_storage_memory.store import MemoryStore

    run_with_plugin(main, Plugins(stores={"memory": MemoryStore}, interceptors=(interceptor,)), **values)


class Marking:
    """Changes each message in place, refuses some, and fails on some."""

    order = 5

    def __init__(self):
        self.topics = []

    def __call__(self, message):
        self.topics.append(message.topic)
        own = props.decode(message.properties)
        if own.get("KEYS") == "refused":
            raise MessageIllegal("refused")
        if own.get("KEYS") == "bug":
            raise KeyError("bug in an interceptor")
        if own.get("KEYS") == "cancelled":
            raise asyncio.CancelledError
        own["MARKS"] = own.get("MARKS", "") + "x"
        message.properties = props.encode(own)
        return message


@pytest.mark.parametrize(("keys", "code"), [("refused", 13), ("bug", 1), ("cancelled", 1)])
def test_what_one_fails_on_leaves_those_beside_it_as_they_were(keys, code):
    async def main(desk, service):
        halves = [await half(desk, number, more=more) for number, more in enumerate(("", f"KEYS\x01{keys}\x02", ""))]
        answers = await asyncio.wait_for(asyncio.gather(*(end(desk, fields, COMMIT) for fields in halves)), 20)
        assert [answer.code for answer in answers] == [0, code, 0]
        found = records(await desk.pull("T"))
        assert [bytes(record.body) for record in found] == [b"body0", b"body2"]
        assert [record.properties["MARKS"] for record in found] == ["x", "x"]
        producer = await join(desk.peer())
        await desk.clock.sleep(65)
        assert {asked.ext["msgId"] for asked in producer.asked} == {"ID1"}
        assert service.undecided().count == 1
        assert await bodies(desk) == [b"body0", b"body2"]

    with_interceptor(main, Marking())


def test_op_messages_are_shown_to_none():
    interceptor = Marking()

    async def main(desk, service):
        assert (await end(desk, await half(desk), COMMIT)).code == 0

    with_interceptor(main, interceptor)
    assert interceptor.topics == ["T"]


def test_one_that_is_made_anew_stays_joined_to_the_message_before_it():
    made = []

    def again(message):
        made.append(StoreMessage(message.topic, message.queue_id, message.body, message.properties))
        return made[-1]

    again.order = 5

    async def main(desk, service):
        halves = [await half(desk, number) for number in range(2)]
        await asyncio.gather(*(end(desk, fields, COMMIT) for fields in halves))
        assert [message.topic for message in made] == ["T", "T"]
        assert [message.same_file_as_previous for message in made] == [False, True]
        assert OP_TOPIC not in {message.topic for message in made}

    with_interceptor(main, again)
