"""Unacknowledged messages are redelivered despite failures during the revival."""

import pytest

from gantrymq.broker.messages import BrokerMessages
from gantrymq.errors import StoreError
from gantrymq.interfaces import PutResult, PutStatus
from gantrymq.model import properties as property_text
from gantrymq.model.properties import MAX_BYTES
from gantrymq_pop.revive_log import ReviveLog


@pytest.fixture
def put_all(monkeypatch):
    """Runs a function before every append: ``set(work)``; *work* gets the messages and their storing function."""
    stores = BrokerMessages.put_all
    now = []

    def put(self, messages, *, skip_interceptors=False):
        async def store():
            return await stores(self, messages, skip_interceptors=skip_interceptors)

        return now[-1](messages, store) if now else store()

    monkeypatch.setattr(BrokerMessages, "put_all", put)
    return lambda work: now.append(work) if work else now.clear()


def refused(status):
    return PutResult(status, 0, 0, 0, 0, "refused by a test")


def is_copy(message):
    return message.topic.startswith("%RETRY%")


def test_a_store_that_refuses_everything_for_a_while_delays_and_loses_nothing(popped, put_all):
    async def refuse(messages, store):
        return [refused(PutStatus.SERVICE_NOT_AVAILABLE) for _ in messages]

    async def main(client):
        await client.send(b"1")
        assert (await client.pop(invisible=2000)).bodies == [b"1"]
        await client.clock.sleep(1)
        put_all(refuse)
        await client.clock.sleep(3)
        put_all(None)
        assert (await client.pop(poll=3000)).bodies == [b"1"]
        assert (await client.pop(poll=5000)).code == 210

    popped(main)


@pytest.mark.parametrize("status", [PutStatus.MESSAGE_ILLEGAL, PutStatus.SERVICE_NOT_AVAILABLE])
def test_a_copy_that_is_refused_alone_is_tried_again(popped, put_all, status):
    """Its neighbour comes back at once, and an acknowledgement is recorded already: so it gets a new checkpoint."""

    async def refuse_one(messages, store):
        results = list(await store())
        good = [each for each in messages if not (is_copy(each) and each.body == b"2")]
        return [result if each in good else refused(status) for each, result in zip(messages, results, strict=True)]

    async def main(client):
        await client.send(b"1", b"2", b"3")
        assert len((await client.pop(queue=0, invisible=2000)).messages) == 3
        put_all(refuse_one)
        await client.clock.sleep(3)
        put_all(None)
        await client.clock.sleep(15)
        found = []
        for _ in range(8):
            found += (await client.pop(poll=3000, invisible=60_000)).bodies
        # the append refused by the test was stored anyway: the other copy is from the second attempt
        assert sorted(found) == [b"1", b"2", b"2", b"3"]

    popped(main)


def test_a_message_with_properties_to_the_brim_comes_back(popped, monkeypatch):
    monkeypatch.setattr(property_text, "MAX_SENT_BYTES", MAX_BYTES)  # as a Java broker accepts them

    async def main(client):
        for spare in range(0, 40, 3):
            await client.send(b"%d" % spare, properties={"p": "x" * (MAX_BYTES - 60 - spare)})
        answer = await client.pop(invisible=2000)
        assert len(answer.messages) == 14
        found = []
        for _ in range(4):
            found += (await client.pop(poll=4000, invisible=60_000)).bodies
        assert sorted(found) == sorted(answer.bodies)

    popped(main)


def test_an_acknowledgement_during_a_revival_that_fails_ends_it(popped, put_all, caplog):
    async def main(client):
        async def fail(messages, store):
            if any(map(is_copy, messages)):
                await client.clock.sleep(0.2)
                raise StoreError("a gate failed")
            return await store()

        await client.send(b"1")
        (message,) = (await client.pop(invisible=2000)).messages
        put_all(fail)
        await client.clock.sleep(2.1)
        assert (await client.ack(message)).code == 0
        await client.clock.sleep(2)
        put_all(None)
        assert (await client.pop(poll=5000)).code == 210
        assert "Traceback" not in caplog.text

    popped(main)


def test_any_error_is_tried_again(popped, put_all):
    async def fail(messages, store):
        raise RuntimeError("a plugin's own")

    async def main(client):
        await client.send(b"1")
        assert (await client.pop(invisible=2000)).bodies == [b"1"]
        put_all(fail)
        await client.clock.sleep(4)
        put_all(None)
        assert (await client.pop(poll=3000)).bodies == [b"1"]

    popped(main)


@pytest.mark.parametrize("target", ["topic", "group"])
def test_what_is_deleted_while_its_messages_are_read_is_not_made_again(popped, monkeypatch, target):
    async def main(client):
        read = ReviveLog._message

        async def deleted_meanwhile(self, queue, offset):
            record = await read(self, queue, offset)
            if target == "topic":
                await client.ask(215, {"topic": "T"})
            else:
                await client.ask(207, {"groupName": "CG", "cleanOffset": "true"})
            return record

        monkeypatch.setattr(ReviveLog, "_message", deleted_meanwhile)
        await client.send(b"1")
        assert (await client.pop(invisible=2000)).bodies == [b"1"]
        await client.clock.sleep(5)
        assert not [name for name in client.cluster.broker.topics.view if name.startswith("%RETRY%CG")]
        assert not [queue for queue in client.cluster.store.queues() if queue.topic.startswith("%RETRY%CG")]

    popped(main)
