"""Lite topics (RIP-83) over gRPC: what the recorded conversation in test_recorded_lite.py does not have."""

import pytest

pytest.importorskip("gantrymq_grpc")

from grpc_broker import consumer_settings, message_of, receive_request

from gantrymq.plugin.model import GroupConfig
from gantrymq_grpc.definitions import (
    METHODS,
    ClientType,
    Code,
    FilterType,
    LiteSubscriptionAction,
    MessageType,
    Resource,
    TelemetryCommand,
)

SETTINGS = {"store": "mmap", "enableLmq": True, "enableMultiDispatch": True}
INVALID_ARGUMENT, INTERNAL = 3, 13


@pytest.fixture
def lite(grpc_broker):
    """Run ``work(served)`` with a broker that has the parent topic P, and the group G of its lite topics."""
    pytest.importorskip("gantrymq_lite")
    pytest.importorskip("gantrymq_storage_mmap")

    def run(work, **group):
        async def main(served):
            served.topic("P", 2, "LITE")
            served.broker.groups.put(GroupConfig("G", attributes={"lite.bind.topic": "P"}, **group))
            return await work(served)

        return grpc_broker(main, settings=SETTINGS)

    return run


async def consumer(sdk, *lite_topics, group="G"):
    """Send the settings of a lite push consumer, subscribe, and return the stream."""
    stream, answer = await sdk.telemetry(consumer_settings(group, "P", kind=ClientType.LITE_PUSH_CONSUMER))
    assert answer is not None, stream.stream.text
    assert (await sync(sdk, *lite_topics, group=group)).code == Code.OK
    return stream


async def sync(sdk, *lite_topics, action=LiteSubscriptionAction.COMPLETE_ADD, group="G", topic="P", **more):
    request = METHODS["SyncLiteSubscription"].request(
        action=action, topic=Resource(name=topic), group=Resource(name=group), lite_topic_set=lite_topics, **more
    )
    return (await sdk.call("SyncLiteSubscription", request)).status


async def send(sdk, lite_topic, body=b"hello", **properties):
    request = METHODS["SendMessage"].request(messages=[message_of("P", body, lite_topic=lite_topic, **properties)])
    return (await sdk.call("SendMessage", request)).status


async def receive(sdk, **fields):
    return await sdk.receive("G", "P", auto_renew=True, **fields)


async def handled(sdk, message, method, *, lite_topic, **fields):
    """Send one of the requests that name a message by its handle, and return the status."""
    system = message.system_properties
    request = METHODS[method].request(group=Resource(name="G"), topic=Resource(name="P"), **fields)
    named = request.entries.add() if method == "AckMessage" else request
    named.message_id, named.receipt_handle = system.message_id, system.receipt_handle
    if lite_topic:
        named.lite_topic = lite_topic
    return (await sdk.call(method, request)).status


def bodies(messages):
    return [each.body for each in messages]


# --- messages ---------------------------------------------------------------------------------------------------------


def test_a_message_is_renewed_until_its_client_ends(lite):
    async def main(served):
        sdk, other = await served.sdk(), await served.sdk("c2")
        await consumer(sdk, "a")
        await consumer(other, "a")
        for body in (b"1", b"2"):
            await send(sdk, "a", body)
        (first,) = await receive(sdk, batch=1)
        for _ in range(60):  # ten minutes
            for each in (sdk, other):
                await each.call("Heartbeat", METHODS["Heartbeat"].request(group=Resource(name="G"), client_type=5))
                assert (await sync(each, "a")).code == Code.OK
            assert await receive(other) == []
        assert (await handled(sdk, first, "AckMessage", lite_topic="a")).code == Code.OK  # with its first handle
        (second,) = await receive(sdk)
        assert (second.body, second.system_properties.delivery_attempt) == (b"2", 1)
        assert len(served.protocol._renewing) == 1
        await sdk.call("NotifyClientTermination")
        began = served.clock.monotonic()
        (again,) = await receive(other)
        assert (again.body, again.system_properties.delivery_attempt) == (b"2", 2)
        assert served.clock.monotonic() - began == pytest.approx(1, abs=0.5)

    lite(main)


@pytest.mark.parametrize("method", ["AckMessage", "ChangeInvisibleDuration", "ForwardMessageToDeadLetterQueue"])
def test_a_request_without_the_lite_topic_finds_it_by_the_handle(lite, method):
    async def main(served):
        sdk = await served.sdk()
        await consumer(sdk, "a")
        for body in (b"1", b"2"):
            await send(sdk, "a", body)
        (first,) = await receive(sdk, batch=1)
        status = await handled(sdk, first, method, lite_topic="")
        assert status.code == Code.OK, status.message
        found = await receive(sdk, batch=1)
        assert bodies(found) == [b"1" if method == "ChangeInvisibleDuration" else b"2"]

    lite(main)


def test_a_handle_that_names_no_lite_message_is_refused_for_good(lite):
    async def main(served):
        sdk = await served.sdk()
        await consumer(sdk, "a")
        await sdk.send("T")
        await send(sdk, "a")
        (message,) = await receive(sdk)
        parts = message.system_properties.receipt_handle.split(" ")
        for handle, lite_topic in [
            (" ".join([*parts[:8], "0"]), ""),  # the log offset of a message of another topic
            (" ".join(parts[:8]), ""),
            (" ".join(parts), "no lite topic!"),
        ]:
            message.system_properties.receipt_handle = handle
            request = METHODS["AckMessage"].request(group=Resource(name="G"), topic=Resource(name="P"))
            request.entries.add(receipt_handle=handle, lite_topic=lite_topic)
            (entry,) = (await sdk.call("AckMessage", request)).entries
            assert entry.status.code == Code.INVALID_RECEIPT_HANDLE, entry.status
            assert "lite topic" in entry.status.message

    lite(main)


def test_a_message_that_failed_too_often_becomes_a_dead_letter(lite):
    async def main(served):
        sdk = await served.sdk()
        await consumer(sdk, "a")
        await send(sdk, "a", b"bad")
        await send(sdk, "a", b"good")
        for attempt in (1, 2):
            (message,) = await receive(sdk, batch=1)
            assert (message.body, message.system_properties.delivery_attempt) == (b"bad", attempt)
            request = {"method": "ChangeInvisibleDuration", "lite_topic": "a"}
            assert (await handled(sdk, message, **request)).code == Code.OK
        assert await receive(sdk, batch=1) == []  # the next receive gets it
        assert bodies(await receive(sdk, batch=1)) == [b"good"]
        served.broker.groups.put(GroupConfig("readers"))
        (dead,) = await sdk.receive("readers", "%DLQ%G")
        assert (dead.body, dead.system_properties.lite_topic) == (b"bad", "a")

    lite(main, retry_max_times=1)


def test_what_a_client_did_not_read_comes_again_soon(lite):
    async def main(served):
        sdk, other = await served.sdk(), await served.sdk("c2")
        await consumer(sdk, "a")
        await consumer(other, "a")
        await send(other, "a")
        stream = sdk.open("ReceiveMessage", receive_request("G", "P", auto_renew=True))
        sdk.client.transport.pause_reading()
        await served.clock.sleep(1)
        sdk.client.reset(stream)
        (message,) = await receive(other)
        assert message.system_properties.delivery_attempt == 2

    lite(main)


def test_tags_are_filtered_and_sql_is_refused(lite):
    async def main(served):
        sdk = await served.sdk()
        await consumer(sdk, "a")
        for tag in ("x", "y", "x"):
            await send(sdk, "a", tag.encode(), tag=tag)
        assert bodies(await receive(sdk, expression="y")) == [b"y"]
        request = receive_request("G", "P", auto_renew=True, expression="a > 1")
        request.filter_expression.type = FilterType.SQL
        (refused, _) = await sdk.all("ReceiveMessage", request)
        assert (refused.status.code, "SQL" in refused.status.message) == (Code.ILLEGAL_FILTER_EXPRESSION, True)

    lite(main)


def test_an_ordinary_group_reads_the_parent_topic(lite):
    async def main(served):
        sdk = await served.sdk("c3")
        await sdk.consumer("H", "P")
        assert await sdk.receive("H", "P", auto_renew=True) == []
        await send(sdk, "a")
        (message,) = await sdk.receive("H", "P", auto_renew=True)
        system = message.system_properties
        assert (system.message_type, system.lite_topic) == (MessageType.LITE, "a")
        await served.clock.sleep(100)  # it is renewed as an ordinary message
        assert (await sdk.ack(message, "H", "P")).code == Code.OK
        assert await sdk.receive("H", "P", auto_renew=True, polling=20) == []

    lite(main)


# --- subscriptions ----------------------------------------------------------------------------------------------------


def test_a_client_that_ends_or_leaves_its_group_has_no_subscriptions(lite):
    async def main(served):
        served.broker.groups.put(GroupConfig("E", attributes={"lite.bind.topic": "P", "lite.sub.model": "Exclusive"}))
        sdk, other = await served.sdk(), await served.sdk("c2")
        stream = await consumer(sdk, "a", group="E")
        await consumer(other, "a", group="E")  # a complete set takes nothing over
        assert await other.receive("E", "P", auto_renew=True) == []
        stream.send(TelemetryCommand(settings=consumer_settings("G", "P", kind=ClientType.LITE_PUSH_CONSUMER)))
        assert (await stream.next()).settings.subscription.group.name == "G"
        assert (await sync(other, "a", group="E")).code == Code.OK
        await send(sdk, "a")
        assert bodies(await other.receive("E", "P", auto_renew=True)) == [b"hello"]
        assert (await sync(sdk, "a")).code == Code.OK
        await sdk.call("NotifyClientTermination")
        assert await receive(sdk) == []

    lite(main)


def test_a_group_that_is_bound_no_more_gets_nothing_of_the_parent_topic(lite):
    async def main(served):
        sdk = await served.sdk()
        await consumer(sdk, "a")
        served.broker.groups.put(GroupConfig("G"))
        await send(sdk, "a")
        first, _ = await sdk.all("ReceiveMessage", receive_request("G", "P", auto_renew=True))
        assert (first.status.code, "+lite.bind.topic" in first.status.message) == (Code.ILLEGAL_CONSUMER_GROUP, True)

    lite(main)


def test_a_client_that_loses_a_lite_topic_is_told(lite):
    async def main(served):
        served.broker.groups.put(GroupConfig("E", attributes={"lite.bind.topic": "P", "lite.sub.model": "Exclusive"}))
        sdk, other = await served.sdk(), await served.sdk("c2")
        stream = await consumer(sdk, "a", "b", group="E")
        await consumer(other, group="E")
        assert (await sync(other, "b", action=LiteSubscriptionAction.PARTIAL_ADD, group="E")).code == Code.OK
        command = await stream.next()
        assert command.notify_unsubscribe_lite_command.lite_topic == "b"

    lite(main)


def test_thousands_of_lite_topics_are_subscribed_with_one_request(lite):
    async def main(served):
        sdk = await served.sdk()
        names = [f"{number:064}" for number in range(5_000)]
        await consumer(sdk, *names)
        await send(sdk, names[-1])
        assert len(await receive(sdk)) == 1
        status = await sync(sdk, action=7)
        assert (status.code, "PARTIAL_ADD" in status.message) == (Code.BAD_REQUEST, True)

    lite(main)


# --- clients ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "kind", "status", "part"),
    [
        ("G", ClientType.PUSH_CONSUMER, INVALID_ARGUMENT, "lite group must use LITE mode: G"),
        ("G", ClientType.SIMPLE_CONSUMER, INVALID_ARGUMENT, "lite group must use LITE mode: G"),
        ("H", ClientType.LITE_PUSH_CONSUMER, INVALID_ARGUMENT, "-a +lite.bind.topic=P"),
        ("none", ClientType.LITE_PUSH_CONSUMER, INVALID_ARGUMENT, "does not exist"),
        ("G", ClientType.LITE_SIMPLE_CONSUMER, INTERNAL, "use a lite push consumer"),
    ],
)
def test_settings_that_do_not_fit_the_group_end_the_stream(lite, group, kind, status, part):
    async def main(served):
        served.broker.groups.put(GroupConfig("H"))
        sdk = await served.sdk()
        stream, answer = await sdk.telemetry(consumer_settings(group, "P", kind=kind))
        assert (answer, stream.stream.status) == (None, status)
        assert part in stream.stream.text
        assert not list(served.broker.clients.consumers(group))

    lite(main)


def test_a_broker_without_the_plugin_refuses_whatever_needs_lite_topics(grpc_broker, monkeypatch):
    async def main(served):
        found = served.broker.service

        def service(name):
            return found("no-lite" if name == "lite" else name)

        monkeypatch.setattr(served.broker, "service", service)
        served.topic("P", 2, "LITE")
        served.broker.groups.put(GroupConfig("G", attributes={"lite.bind.topic": "P"}))
        sdk = await served.sdk()
        stream, answer = await sdk.telemetry(consumer_settings("G", "P", kind=ClientType.LITE_PUSH_CONSUMER))
        assert (answer, stream.stream.status) == (None, INTERNAL)
        statuses = [await sync(sdk, "a"), await send(sdk, "a")]
        ack = METHODS["AckMessage"].request(group=Resource(name="G"), topic=Resource(name="P"))
        ack.entries.add(receipt_handle="0 1 1 999 0 broker-a 0 0 0", lite_topic="a")
        statuses.append((await sdk.call("AckMessage", ack)).status)
        first, _ = await sdk.all("ReceiveMessage", receive_request("G", "P", auto_renew=True))
        statuses.append(first.status)
        for status in statuses:
            assert status.code == Code.NOT_IMPLEMENTED
        for text in [stream.stream.text, *(each.message for each in [*statuses[:2], first.status])]:
            assert "gantrymq-" in text

    grpc_broker(main)
