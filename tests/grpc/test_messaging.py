"""Sends, receives, acknowledgements and telemetry of gRPC clients of a simulated broker."""

import asyncio

import pytest

pytest.importorskip("gantrymq_grpc")

from grpc_broker import receive_request

from gantrymq_grpc.definitions import (
    ClientType,
    Code,
    HeartbeatRequest,
    NotifyClientTerminationRequest,
    Resource,
)


def test_a_message_is_sent_received_and_acknowledged(grpc_broker):
    async def main(served):
        sdk = await served.sdk()
        stream = await sdk.consumer("G", "T")
        assert await sdk.receive(polling=5) == []
        entry = await sdk.send(body=b"one", tag="a", keys=["k1", "k2"], user={"color": "red"})
        (message,) = await sdk.receive(auto_renew=True)
        system = message.system_properties
        assert (message.body, system.tag, list(system.keys)) == (b"one", "a", ["k1", "k2"])
        assert (system.message_id, message.user_properties["color"]) == (entry.message_id, "red")
        assert system.delivery_attempt == 1
        assert (await sdk.ack(message)).code == Code.OK
        assert (await sdk.ack(message)).code == Code.OK
        assert await sdk.receive() == []
        stream.end()
        assert await stream.next() is None

    grpc_broker(main)


def test_a_receive_waits_for_a_message(grpc_broker):
    async def main(served):
        sdk, other = await served.sdk(), await served.sdk("c2")
        await sdk.receive()
        receiving = asyncio.ensure_future(sdk.receive(polling=20))
        await served.clock.sleep(7)
        await other.send()
        began = served.clock.monotonic()
        assert len(await receiving) == 1
        assert served.clock.monotonic() - began < 0.1

    grpc_broker(main)


@pytest.mark.parametrize("lost", ["connection", "stream"])
def test_messages_for_a_client_that_leaves_while_it_receives_come_again_after_a_second(grpc_broker, lost):
    async def main(served):
        sdk, other = await served.sdk(), await served.sdk("c2")
        await other.receive()
        for number in range(8):  # more than the client's window of 64 KB
            await other.send(body=b"%d" % number * 30_000)
        sdk.client.acknowledging = False
        stream = sdk.open("ReceiveMessage", receive_request(polling=20))
        await served.clock.sleep(0.1)
        if lost == "connection":
            sdk.client.transport.abort()
        else:
            sdk.client.h2.reset_stream(stream.id)
            sdk.client.flush()
        began, bodies = served.clock.monotonic(), set()
        while served.clock.monotonic() - began < 8:
            bodies |= {each.body[:1] for each in await other.receive(polling=5)}
        assert len(bodies) >= 4  # the others were written, and are invisible for 30 s

    grpc_broker(main)


def test_messages_of_a_push_consumer_are_renewed_until_it_goes(grpc_broker):
    async def main(served):
        sdk = await served.sdk()
        await sdk.consumer("G", "T")
        await sdk.receive()
        await sdk.send(body=b"1")
        await sdk.send(body=b"2")
        messages = await sdk.receive(auto_renew=True)
        messages += await sdk.receive(auto_renew=True)
        assert sorted(each.body for each in messages) == [b"1", b"2"]
        for _ in range(40):
            await served.clock.sleep(10)
            response = await sdk.call("Heartbeat", HeartbeatRequest(group=Resource(name="G"), client_type=2))
            assert response.status.code == Code.OK
        other = await served.sdk("c2")
        assert await other.receive(polling=5) == []
        assert (await sdk.ack(messages[0])).code == Code.OK
        request = NotifyClientTerminationRequest(group=Resource(name="G"))
        assert (await sdk.call("NotifyClientTermination", request)).status.code == Code.OK
        (again,) = await other.receive(polling=5)
        assert (again.body, again.system_properties.delivery_attempt) == (messages[1].body, 2)

    grpc_broker(main)


def test_the_shortest_times_of_receives_are_settings(grpc_broker):
    settings = {"minInvisibleTimeMillsForRecv": "3000", "grpcClientConsumerMinLongPollingTimeoutMillis": "0"}

    async def main(served):
        sdk = await served.sdk()
        await sdk.consumer("G", "T", kind=ClientType.SIMPLE_CONSUMER)
        began = served.clock.monotonic()
        first, _ = await sdk.all("ReceiveMessage", receive_request(polling=None, invisible=3), grpc_timeout="1S")
        assert first.status.code == Code.MESSAGE_NOT_FOUND
        assert served.clock.monotonic() - began < 1
        await sdk.send()
        (first,) = await sdk.receive(invisible=3)
        await served.clock.sleep(5)
        (again,) = await sdk.receive(invisible=3)
        assert again.system_properties.message_id == first.system_properties.message_id
        response = (await sdk.all("ReceiveMessage", receive_request(invisible=2)))[0]
        assert (response.status.code, response.status.message) == (
            Code.ILLEGAL_INVISIBLE_TIME,
            "the invisibleTime is too small. min is 3000",
        )

    grpc_broker(main, settings=settings)
