"""What RocketMQ's own gRPC tests check. As there, clients end their telemetry streams before they send or receive.

Source: apache/rocketmq test/.../test/grpc/v2/GrpcBaseIT.java.
"""

import pytest

pytest.importorskip("gantrymq_grpc")

from grpc_broker import (
    ENDPOINTS,
    TRANSACTIONS,
    beat,
    checks,
    consumer_settings,
    decide,
    half,
    message_of,
    producer_settings,
)

from gantrymq.plugin.model import GroupConfig, Queue
from gantrymq_grpc.definitions import METHODS, ClientType, Code, Encoding, MessageType, Resource, TelemetryCommand

SIMPLE, PUSH = ClientType.SIMPLE_CONSUMER, ClientType.PUSH_CONSUMER
SHORT = {"minInvisibleTimeMillsForRecv": "3000", "grpcClientConsumerMinLongPollingTimeoutMillis": "0"}


async def told(sdk, settings):
    """Send settings, and return the answer when the stream has ended."""
    stream, answer = await sdk.telemetry(settings)
    assert answer.status.code == Code.OK
    stream.end()
    assert await stream.next() is None
    return answer.settings


async def consumer(served, kind=SIMPLE, **group):
    """Return a client of group G, which has received nothing yet."""
    served.broker.groups.put(GroupConfig("G", **group))
    sdk = await served.sdk()
    await told(sdk, consumer_settings("G", kind=kind))
    assert await sdk.receive(polling=1, batch=1, invisible=3) == []
    return sdk


async def delayed(sdk, served, kind, after_s=5):
    """Send a message that is due in five seconds, as a producer, and return its entry."""
    await told(sdk, producer_settings("T"))
    message = message_of("T")
    system = message.system_properties
    system.message_type, system.body_encoding = kind, Encoding.GZIP
    system.delivery_timestamp.FromMilliseconds(served.clock.now_ms() + 1000 * after_s)
    (entry,) = (await sdk.call("SendMessage", METHODS["SendMessage"].request(messages=[message]))).entries
    assert (entry.status.code, entry.message_id) == (Code.OK, system.message_id)
    await told(sdk, consumer_settings("G", kind=SIMPLE))
    return entry


def test_of_two_handles_of_a_message_the_older_one_is_refused(grpc_broker):
    async def main(served):
        sdk = await consumer(served)
        await told(sdk, producer_settings("T"))
        entry = await sdk.send()
        assert not entry.recall_handle
        await told(sdk, consumer_settings("G", kind=SIMPLE))
        (message,) = await sdk.receive(batch=1, invisible=3)
        changed = await sdk.change(message, 5)
        assert changed.status.code == Code.OK
        assert changed.receipt_handle != message.system_properties.receipt_handle
        while not (again := await sdk.receive(batch=1, invisible=3)):
            assert served.clock.monotonic() < 60
        request = METHODS["AckMessage"].request(group=Resource(name="G"), topic=Resource(name="T"))
        for handle in (changed.receipt_handle, again[0].system_properties.receipt_handle):
            request.entries.add(message_id=entry.message_id, receipt_handle=handle)
        response = await sdk.call("AckMessage", request)
        assert response.status.code == Code.MULTIPLE_RESULTS
        codes = [each.status.code for each in response.entries]
        assert codes == [Code.INVALID_RECEIPT_HANDLE, Code.OK]

    grpc_broker(main, settings=SHORT)


@pytest.mark.parametrize("kind", [MessageType.DELAY, MessageType.NORMAL])
def test_a_delayed_message_arrives_on_time_whatever_type_its_producer_names(grpc_broker, kind):
    async def main(served):
        served.topic("T", kind="DELAY")
        sdk = await consumer(served)
        sent_at = served.clock.monotonic()
        entry = await delayed(sdk, served, kind)
        while not (messages := await sdk.receive(batch=1, invisible=3)):
            assert served.clock.monotonic() < sent_at + 20
        assert abs(served.clock.monotonic() - sent_at - 5) < 2
        assert messages[0].system_properties.message_id == entry.message_id

    grpc_broker(main, settings=SHORT)


def test_a_recalled_message_never_arrives(grpc_broker):
    async def main(served):
        served.topic("T", kind="DELAY")
        sdk = await consumer(served)
        entry = await delayed(sdk, served, MessageType.DELAY)
        request = METHODS["RecallMessage"].request(topic=Resource(name="T"), recall_handle=entry.recall_handle)
        response = await sdk.call("RecallMessage", request)
        assert (response.status.code, response.status.message) == (Code.OK, "OK")
        assert response.message_id == entry.message_id
        sent_at = served.clock.monotonic()
        while served.clock.monotonic() < sent_at + 30:
            assert await sdk.receive(batch=1, invisible=3) == []

    grpc_broker(main, settings={**SHORT, "recallMessageEnable": True})


def test_a_message_beyond_the_attempts_of_its_group_goes_to_the_dead_letters(grpc_broker):
    async def main(served):
        sdk = await consumer(served, retry_max_times=1)
        await told(sdk, producer_settings("T"))
        entry = await sdk.send()
        assert (await told(sdk, consumer_settings("G", kind=SIMPLE))).backoff_policy.max_attempts == 2
        received = []
        while served.broker.topics.get("%DLQ%G") is None:
            received += await sdk.receive(batch=1, polling=1, invisible=3)
            assert served.clock.monotonic() < 60
        assert [each.system_properties.message_id for each in received] == [entry.message_id] * 2
        assert [each.system_properties.delivery_attempt for each in received] == [1, 2]
        assert served.broker.store.bounds(Queue("%DLQ%G", 0)).max_offset == 1
        assert await sdk.receive(batch=1, invisible=3) == []

    grpc_broker(main, settings=SHORT)


def test_an_ordered_group_receives_the_messages_of_a_message_group_in_order(grpc_broker):
    async def main(served):
        served.topic("T", 8, kind="FIFO")
        sdk = await consumer(served, PUSH, consume_message_orderly=True)
        await told(sdk, producer_settings("T"))
        sent = [(await sdk.send(message_group="group")).message_id for _ in range(3)]
        assert (await told(sdk, consumer_settings("G", kind=PUSH))).subscription.fifo
        received = []
        while len(received) < 3:
            for message in await sdk.receive(batch=1, invisible=3):
                received.append(message.system_properties.message_id)
                assert (await sdk.ack(message)).code == Code.OK
            assert served.clock.monotonic() < 60
        assert received == sent

    grpc_broker(main, settings=SHORT)


@pytest.mark.parametrize(("ordered", "ids"), [(False, [-1]), (True, list(range(8)))])
def test_members_are_assigned_whole_brokers_or_each_queue_if_the_group_is_ordered(grpc_broker, ordered, ids):
    async def main(served):
        served.topic("T", 8, kind="FIFO")
        sdk = await served.sdk()
        request = METHODS["QueryAssignment"].request(
            topic=Resource(name="T"), group=Resource(name="G"), endpoints=ENDPOINTS
        )
        if ordered:
            served.broker.groups.put(GroupConfig("G", consume_message_orderly=True))
        response = await sdk.call("QueryAssignment", request)
        assert (response.status.code, response.status.message) == (Code.OK, "OK")
        queues = [each.message_queue for each in response.assignments]
        assert [each.id for each in queues] == ids
        assert all(each.broker.endpoints == ENDPOINTS for each in queues)

    grpc_broker(main)


def test_a_consumer_that_becomes_a_producer_on_its_stream_is_asked_for_its_transaction(grpc_broker):
    async def main(served):
        served.topic("T", kind="TRANSACTION")
        sdk = await served.sdk()
        stream, _ = await sdk.telemetry(consumer_settings("G", kind=PUSH))
        assert await sdk.receive(polling=1) == []
        stream.send(TelemetryCommand(settings=producer_settings("T")))
        assert (await stream.next()).settings.WhichOneof("pub_sub") == "publishing"
        assert await beat(sdk) == Code.OK
        entry = await half(sdk)
        while not checks(stream):
            await served.clock.sleep(1)
            assert await beat(sdk) == Code.OK
        entry.transaction_id = checks(stream)[0].transaction_id
        assert await decide(sdk, entry, checked=True) == Code.OK
        stream.send(TelemetryCommand(settings=consumer_settings("G", kind=PUSH)))
        (message,) = await sdk.receive(batch=1)
        assert message.system_properties.message_id == entry.message_id
        stream.end()

    grpc_broker(main, settings={**TRANSACTIONS, **SHORT})
