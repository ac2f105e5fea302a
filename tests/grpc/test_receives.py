"""Receives: what a client gets, what is filtered, how long it waits, and what comes again."""

import gc

import pytest

pytest.importorskip("gantrymq_grpc")

from grpc_broker import receive_request

from gantrymq.formats.record import RecordView
from gantrymq_grpc.definitions import ReceiveMessageResponse


async def reset(sdk, stream):
    sdk.client.reset(stream)


async def lose(sdk, stream):
    sdk.client.transport.abort()


async def back_after(served, sdk, *, within_s, group="G"):
    """Receive until a message comes, and return it with the seconds waited."""
    began = served.clock.monotonic()
    while served.clock.monotonic() - began < within_s:
        if found := await sdk.receive(group, polling=5):
            return found, served.clock.monotonic() - began
    raise AssertionError(f"nothing came within {within_s} s")


@pytest.mark.parametrize("leave", [reset, lose])
@pytest.mark.parametrize("renewed", [True, False])
def test_messages_that_a_client_did_not_read_to_the_end_come_again_soon(grpc_broker, leave, renewed):
    """They were written, so that the broker took them for delivered: a push consumer's were renewed for three hours."""

    async def main(served):
        sdk, other = await served.sdk(), await served.sdk("c2")
        await sdk.consumer("G", "T")
        await sdk.receive()
        await sdk.send()
        stream = sdk.open("ReceiveMessage", receive_request(auto_renew=renewed))
        sdk.client.transport.pause_reading()
        await served.clock.sleep(1)
        await leave(sdk, stream)
        ((message,), waited_s) = await back_after(served, other, within_s=10)
        assert (message.system_properties.delivery_attempt, waited_s) == (2, pytest.approx(1, abs=1.1))

    grpc_broker(main)


@pytest.mark.parametrize("renewed", [True, False])
def test_messages_that_were_written_are_not_kept_until_the_client_confirms_them(grpc_broker, renewed):
    async def main(served):
        sdk, other = await served.sdk(), await served.sdk("c2")
        await sdk.consumer("G", "T")
        await sdk.receive()
        for number in range(8):
            await sdk.send(body=b"%d" % number * 5_000)
        sdk.open("ReceiveMessage", receive_request(auto_renew=renewed))
        sdk.client.transport.pause_reading()
        await served.clock.sleep(1)
        assert records_of("T") == 0
        assert await other.receive(polling=5) == []  # all were written

    grpc_broker(main)


def test_a_client_that_reads_nothing_holds_at_most_one_answer(grpc_broker):
    """16 MB of records; the others of the topic are delivered to other clients."""

    async def main(served):
        sdk, other = await served.sdk(), await served.sdk("c2")
        await sdk.receive()
        for number in range(10):
            await sdk.send(body=bytes([number]) * 3_500_000)
        sdk.client.acknowledging = False
        sdk.open("ReceiveMessage", receive_request())
        await served.clock.sleep(1)
        found = [await other.receive(), await other.receive()]
        assert [len(each) for each in found] == [4, 2]
        assert records_of("T") == 0

    grpc_broker(main)


def test_many_receives_of_a_client_that_reads_nothing_hold_little_and_go_on_when_it_reads(grpc_broker):
    async def main(served):
        sdk = await served.sdk()
        await sdk.receive()
        for number in range(12):
            await sdk.send(body=bytes([number]) * 3_500_000)
        sdk.client.acknowledging = False
        streams = [sdk.open("ReceiveMessage", receive_request()) for _ in range(4)]
        await served.clock.sleep(1)
        assert records_of("T") == 0
        assert sum(isinstance(each, ReceiveMessageResponse) for each in gc.get_objects()) == 0
        (connection,) = served.protocol._server.connections
        assert 3_000_000 < connection.output.unsent_bytes < 8_000_000
        sdk.client.acknowledging = True
        for stream in streams:
            sdk.client.h2.increment_flow_control_window(1_000_000_000, stream.id)
        sdk.client.h2.increment_flow_control_window(1_000_000_000)
        sdk.client.flush()
        found = [each.message for stream in streams for each in await answers(sdk, stream) if each.HasField("message")]
        assert sorted(each.body[0] for each in found) == list(range(12))

    grpc_broker(main)


async def answers(sdk, stream):
    await sdk.client.ended(stream)
    return sdk.messages("ReceiveMessage", stream)


def records_of(topic):
    """Return how many records are referenced."""
    gc.collect()
    return sum(isinstance(each, RecordView) and each.topic == topic for each in gc.get_objects())
