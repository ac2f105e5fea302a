"""Transactions of a producer, with an in-memory broker on a virtual clock."""

import asyncio
import contextlib

import pytest

from gantrymq.client import Client, ClientError, Message, TransactionState
from gantrymq_testing.simulation import simulate_cluster

TOPIC = "Orders"
OFTEN = {"transactionCheckInterval": 5000, "transactionTimeOut": 3000}


def client_of(cluster):
    return Client(cluster.namesrv, world=cluster.world)


async def visible(cluster):
    async with Client(cluster.namesrv, world=cluster.world) as client, client.reader(group="lookers") as reader:
        found = []
        for queue in await reader.queues(TOPIC):
            found += [message.body for message in (await reader.pull(queue, 0)).messages]
        return sorted(found)


class Silent:
    """A hook that is called for transactions."""

    def end_transaction(self, context):
        pass


def never(_):
    raise AssertionError("nobody is asked about what was decided")


def test_leaving_the_block_commits_and_an_exception_rolls_back():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with client_of(cluster) as client:
            producer = client.transaction_producer("shop", never)
            async with producer.transaction(Message(TOPIC, b"kept")) as transaction:
                assert await visible(cluster) == []
            assert transaction.state is TransactionState.COMMIT
            with contextlib.suppress(ZeroDivisionError):
                async with producer.transaction(Message(TOPIC, b"gone")) as transaction:
                    raise ZeroDivisionError
            assert transaction.state is TransactionState.ROLLBACK
            async with producer.transaction(Message(TOPIC, b"decided against")) as transaction:
                transaction.state = TransactionState.ROLLBACK
            await cluster.world.clock.sleep(60)
            assert await visible(cluster) == [b"kept"]

    simulate_cluster(work, settings=OFTEN)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_producer_is_asked_until_it_knows(is_async):
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        asked = []

        def check(message):
            asked.append((message.message_id, message.body, message.topic))
            if len(asked) == 1:
                return TransactionState.UNKNOWN
            if len(asked) == 2:
                raise RuntimeError("the database is away")
            return TransactionState.COMMIT

        async def check_later(message):
            await cluster.world.clock.sleep(0.1)
            return check(message)

        async with client_of(cluster) as client:
            producer = client.transaction_producer("shop", check_later if is_async else check)
            async with producer.transaction(Message(TOPIC, b"later")) as transaction:
                transaction.state = TransactionState.UNKNOWN
            await cluster.world.clock.sleep(120)
            assert asked == [(transaction.id, b"later", TOPIC)] * 3
            assert await visible(cluster) == [b"later"]

    simulate_cluster(work, settings=OFTEN)


def test_a_decision_that_is_lost_is_asked_for():
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with client_of(cluster) as client:
            producer = client.transaction_producer("shop", lambda _: TransactionState.ROLLBACK)
            async with producer.transaction(Message(TOPIC, b"lost")):
                producer._started().routes.find_broker = unreachable
            del producer._started().routes.find_broker
            await cluster.world.clock.sleep(60)
            assert await visible(cluster) == []

    simulate_cluster(work, settings=OFTEN)


@pytest.mark.parametrize("ends", [None, ZeroDivisionError, asyncio.CancelledError])
@pytest.mark.parametrize("closed", ["producer", "client"])
@pytest.mark.parametrize("hooks", [(), (Silent(),)], ids=["", "watched"])
def test_a_decision_after_closing_is_logged_and_hides_no_error(ends, closed, hooks, caplog):
    async def work(cluster):
        await cluster.create_topic(TOPIC)
        async with client_of(cluster) as client:
            producer = client.transaction_producer("shop", never, hooks=hooks)
            with pytest.raises(ends) if ends else contextlib.nullcontext():
                async with producer.transaction(Message(TOPIC, b"x")) as transaction:
                    await (client if closed == "client" else producer).close()
                    if ends:
                        raise ends
            return transaction

    transaction = simulate_cluster(work)
    state = "ROLLBACK" if ends else "COMMIT"
    assert transaction.state is TransactionState[state]
    told = [record.getMessage() for record in caplog.records if transaction.id in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith(f"{state} of transaction {transaction.id}: this TransactionProducer is closed")
    assert told[0].endswith("; the broker will check")


async def unreachable(*_):
    raise ClientError("the broker is not there")


def test_a_transaction_takes_no_delay():
    async def work(cluster):
        async with client_of(cluster) as client:
            producer = client.transaction_producer("shop", never)
            for delayed in (Message(TOPIC, b"x", delay_level=1), Message(TOPIC, b"x", deliver_at_ms=1)):
                with pytest.raises(ClientError, match="cannot be delayed"):
                    async with producer.transaction(delayed):
                        raise AssertionError("the block is not entered")

    simulate_cluster(work)
