"""Groups with members of both protocols: they share messages, redeliveries and dead letters."""

import asyncio
from collections import Counter

import pytest

pytest.importorskip("gantrymq_grpc")

from grpc_broker import send_request

from gantrymq.client import Message, TransactionState
from gantrymq.model.group import GroupConfig
from gantrymq_grpc.definitions import (
    METHODS,
    Code,
    MessageType,
    Resource,
    TransactionResolution,
    TransactionSource,
)


def test_members_of_both_protocols_that_pop_share_the_messages(grpc_broker):
    async def main(served):
        await served.cluster.create_topic("T", 4)
        sdk = await served.sdk()
        await sdk.consumer("G", "T")
        got = {"remoting": Counter(), "grpc": Counter()}

        async def receiving():
            while True:
                for message in await sdk.receive(polling=5, batch=4, auto_renew=True):
                    got["grpc"][message.body] += 1
                    await sdk.ack(message)

        async with served.cluster.client() as client:
            consumer = client.pop_consumer("G", "T", poll_s=5, batch=4)

            async def popping():
                while True:
                    for message in await consumer.pop():
                        got["remoting"][message.body] += 1
                        await consumer.ack(message)

            loops = [asyncio.ensure_future(each()) for each in (receiving, popping)]
            await served.clock.sleep(2)
            sender, producer = await served.sdk("p"), client.producer("P")
            for number in range(60):
                await producer.send(Message("T", b"remoting %d" % number))
                await sender.send("T", b"grpc %d" % number)
            await served.clock.sleep(10)
            for each in loops:
                each.cancel()
            await asyncio.wait(loops)
        both = got["remoting"] + got["grpc"]
        assert (len(both), set(both.values())) == (120, {1})
        assert min(len(got["remoting"]), len(got["grpc"])) > 20

    grpc_broker(main)


def test_what_one_member_does_not_acknowledge_is_delivered_to_the_other(grpc_broker):
    async def main(served):
        await served.cluster.create_topic("T", 1)
        served.broker.groups.put(GroupConfig("G", retry_max_times=3))
        sdk = await served.sdk()
        await sdk.receive()
        async with served.cluster.client() as client:
            consumer = client.pop_consumer("G", "T", invisible_s=10)
            sent = await sdk.send(body=b"stubborn")
            attempts = []
            for _ in range(2):
                (message,) = await sdk.receive(invisible=10, polling=20)
                attempts.append(("grpc", message.system_properties.delivery_attempt, message.body))
                messages = ()
                while not messages:
                    messages = await consumer.pop(poll_s=20)
                attempts.append(("remoting", messages[0].reconsume_times + 1, bytes(messages[0].body)))
            assert attempts == [(who, number, b"stubborn") for number, who in enumerate(["grpc", "remoting"] * 2, 1)]
            assert await sdk.receive(polling=20) == []  # the fifth delivery goes to the dead letters
            await served.clock.sleep(1)
            assert await sdk.receive(polling=20) == []
            reader = client.reader("%DLQ%G", start="first")
            (dead,) = [each async for each in _first(reader, 1)]
            assert (bytes(dead.body), dead.properties["UNIQ_KEY"]) == (b"stubborn", sent.message_id)

    grpc_broker(main)


async def _first(reader, number):
    async for message in reader:
        yield message
        number -= 1
        if not number:
            return


def test_remoting_members_that_pull_leave_queues_to_grpc_members(grpc_broker):
    """A gRPC member counts in the allocation of queues, as in RocketMQ; it receives from all of them."""

    async def main(served):
        await served.cluster.create_topic("T", 4)
        sdk = await served.sdk("zzz")
        stream = await sdk.consumer("G", "T")
        async with served.cluster.client() as client:
            consumer = client.consumer("G", "T")
            await consumer.wait_assigned()

            def own():
                return [each.queue_id for each in consumer.assignment if each.topic == "T"]

            assert own() == [0, 1]
            assert (await sdk.call("NotifyClientTermination")).status.code == Code.OK
            await served.clock.sleep(1)
            assert own() == [0, 1, 2, 3]  # the remaining members are told at once
            stream.end()
            await sdk.consumer("G", "T")
            await served.clock.sleep(1)
            assert own() == [0, 1]

    grpc_broker(main)


def test_a_transaction_of_one_protocol_is_decided_through_the_other(grpc_broker):
    """A remoting producer whose group has the name of the topic is one of its producers, for gRPC."""
    asked = []

    async def check(message):
        asked.append(bytes(message.body))
        return TransactionState.COMMIT

    async def main(served):
        await served.cluster.create_topic("T", 2)
        served.topic("T", kind="TRANSACTION")
        sdk, consumer = await served.sdk("p"), await served.sdk("c")
        assert await consumer.receive() == []
        async with served.cluster.client() as client:
            producer = client.transaction_producer("T", check)
            async with producer.transaction(Message("T", b"first")) as transaction:  # it is registered now
                transaction.state = TransactionState.ROLLBACK
            request = send_request("T", b"of grpc")
            request.messages[0].system_properties.message_type = MessageType.TRANSACTION
            (entry,) = (await sdk.call("SendMessage", request)).entries
            assert entry.status.code == Code.OK
            (message,) = await consumer.receive(polling=20)
            assert (message.body, asked) == (b"of grpc", [b"of grpc"])
            assert (await consumer.ack(message)).code == Code.OK
            async with producer.transaction(Message("T", b"of remoting")) as transaction:
                transaction.state = TransactionState.UNKNOWN
        stream = await sdk.producer("T")
        await served.clock.sleep(12)
        checks = [each.recover_orphaned_transaction_command for each in stream.all()[1:]]
        assert {each.message.body for each in checks} == {b"of remoting"}
        end = METHODS["EndTransaction"].request(
            topic=Resource(name="T"),
            message_id=checks[-1].message.system_properties.message_id,
            transaction_id=checks[-1].transaction_id,
            resolution=TransactionResolution.COMMIT,
            source=TransactionSource.SOURCE_SERVER_CHECK,
        )
        assert (await sdk.call("EndTransaction", end)).status.code == Code.OK
        (message,) = await consumer.receive(polling=20)
        assert message.body == b"of remoting"

    grpc_broker(main, settings={"transactionTimeOut": 6000, "transactionCheckInterval": 3000})
