"""Requests of gRPC clients that the broker refuses: each is answered with the reason, in a simulated world."""

import logging
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_grpc")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "grpc"))  # its simulated broker

from grpc_broker import GrpcBroker, Telemetry, consumer_settings, message_of, receive_request
from grpc_served import prefixed

from gantrymq_grpc.definitions import METHODS, Resource, Settings, TelemetryCommand

ACKS = ("AckMessage", "ChangeInvisibleDuration", "ForwardMessageToDeadLetterQueue")


@pytest.fixture
def refuses(gantrymq_simulation, row):
    """Run ``work(sdk, check)`` with a client of a broker that has topic T, and an ordinary message afterwards."""

    def run(work):
        async def main(cluster):
            async with GrpcBroker(cluster) as served:
                served.topic("T")
                await work(await served.sdk(), row.check)
                other = await served.sdk("c2")
                await other.send()
                (message,) = await other.receive("Others")
                assert (await other.ack(message, "Others")).code == 20000

        return gantrymq_simulation(main)

    return run


async def ended(sdk, method, request=None, *, body=None):
    """Return the stream of a call, whose request may exceed the windows, after its end."""
    stream = sdk.open(method, end=False)
    body = prefixed(request.SerializeToString()) if body is None else body
    if body:
        await sdk.client.upload(stream, body)
    else:
        sdk.client.data(stream, b"", end=True)
    return await sdk.client.ended(stream)


async def named(sdk, handle, *, group="G", topic="T"):
    """Name a message by *handle* in each request that can, and return their statuses."""
    statuses = []
    for method in ACKS:
        request = METHODS[method].request(group=Resource(name=group), topic=Resource(name=topic))
        place = request.entries.add() if method == "AckMessage" else request
        place.receipt_handle = handle
        if method == "ChangeInvisibleDuration":
            request.invisible_duration.seconds = 30
        (answer,) = sdk.messages(method, await ended(sdk, method, request))
        statuses.append(answer.entries[0].status if method == "AckMessage" else answer.status)
    return statuses


def test_bi403_a_request_of_130_mib(refuses):
    async def work(sdk, check):
        stream = await ended(sdk, "SendMessage", body=b"\0" + (130 << 20).to_bytes(4, "big"))
        check(stream.text, stream.status, size=130 << 20, limit=16 << 20)

    refuses(work)


def test_bi404_ten_thousand_properties(refuses):
    async def work(sdk, check):
        request = METHODS["SendMessage"].request(messages=[message_of(user={f"k{n}": "v" for n in range(10_000)})])
        stream = await ended(sdk, "SendMessage", request)
        check(stream.text, stream.status, size=request.ByteSize())

    refuses(work)


def test_bi405_more_messages_than_are_stored_at_once(refuses):
    async def work(sdk, check):
        request = METHODS["SendMessage"].request(messages=[message_of() for _ in range(1025)])
        (answer,) = sdk.messages("SendMessage", await ended(sdk, "SendMessage", request))
        check(answer.status.message, answer.status.code, number=1025)
        del request.messages[1000:]
        (answer,) = sdk.messages("SendMessage", await ended(sdk, "SendMessage", request))
        assert {each.status.code for each in answer.entries} == {20000}
        assert len(answer.entries) == 1000

    refuses_messages(refuses, work)


def refuses_messages(refuses, work):
    """Like *refuses*, for a test that leaves messages of its own in the topic."""

    async def emptied(sdk, check):
        await work(sdk, check)
        while messages := await sdk.receive("Others"):
            for each in messages:
                await sdk.ack(each, "Others")

    refuses(emptied)


def test_bi406_more_user_properties_than_the_limit(refuses):
    async def work(sdk, check):
        request = METHODS["SendMessage"].request(messages=[message_of(user={f"k{n}": "v" for n in range(129)})])
        status = (await sdk.call("SendMessage", request)).status
        check(status.message, status.code, limit=128)

    refuses(work)


def test_bi407_a_handle_of_a_megabyte(refuses):
    async def work(sdk, check):
        handle = "1 " * 500_000
        for status in await named(sdk, handle):
            check(status.message, status.code, start=handle[:80], size=1_000_000)

    refuses(work)


async def received(sdk):
    """Send a message, receive it, and return it with the parts of its handle."""
    await sdk.send()
    (message,) = await sdk.receive()
    return message, message.system_properties.receipt_handle.split(" ")


def test_bi408_a_handle_of_another_broker(refuses):
    async def work(sdk, check):
        message, parts = await received(sdk)
        own, parts[5] = parts[5], "broker-z"
        for status in await named(sdk, " ".join(parts)):
            check(status.message, status.code, own=own, other="broker-z")
        refused = (await sdk.all("ReceiveMessage", receive_request(broker="broker-z")))[0].status
        assert (refused.code, refused.message) == (40000, status.message)
        await acknowledge(sdk, message)

    refuses(work)


async def acknowledge(sdk, message):
    """Acknowledge a message in both groups, the refusals did not."""
    assert (await sdk.ack(message)).code == 20000
    (again,) = await sdk.receive("Others")
    assert (await sdk.ack(again, "Others")).code == 20000


def test_bi409_a_handle_of_another_topic(refuses):
    async def work(sdk, check):
        message, parts = await received(sdk)
        sdk.served.topic("Small", queues=int(parts[6]))
        for topic in ("Unknown", "Small") if parts[6] != "0" else ("Unknown",):
            for status in await named(sdk, " ".join(parts), topic=topic):
                check(status.message, status.code, queue=parts[6], topic=topic)
        await acknowledge(sdk, message)

    refuses(work)


def test_bi410_a_handle_of_an_unknown_group(refuses):
    async def work(sdk, check):
        message, parts = await received(sdk)
        for status in await named(sdk, " ".join(parts), group="Unknown"):
            check(status.message, status.code, group="Unknown")
        await acknowledge(sdk, message)

    refuses(work)


def test_bi411_a_negative_time(refuses):
    async def work(sdk, check):
        for seconds in (-5, 10**13):
            status = (await sdk.all("ReceiveMessage", receive_request(invisible=seconds)))[0].status
            check(status.message, status.code, time=1000 * seconds)
            status = (await sdk.all("ReceiveMessage", receive_request(polling=seconds)))[0].status
            assert (status.code, status.message) == (
                40018,
                f"long_polling_timeout is {1000 * seconds} ms; give 0 or more",
            )
        message, _ = await received(sdk)
        status = (await sdk.change(message, -5)).status
        check(status.message, status.code, time=-5000)
        late = message_of()
        late.system_properties.delivery_timestamp.seconds = -1
        status = (await sdk.call("SendMessage", METHODS["SendMessage"].request(messages=[late]))).status
        assert (status.code, "is -1000 ms since 1970; give a time of the" in status.message) == (40012, True)
        await acknowledge(sdk, message)

    refuses(work)


async def told(sdk, command):
    """Send a command on a new telemetry stream, and return the stream at its end."""
    stream = Telemetry(sdk, sdk.open("Telemetry", command, end=False))
    assert await stream.next() is None
    return stream.stream


def test_bi412_settings_of_nothing(refuses):
    async def work(sdk, check):
        stream = await told(sdk, TelemetryCommand(settings=Settings()))
        check(stream.text, stream.status)
        silent = Telemetry(sdk, sdk.open("Telemetry", TelemetryCommand(), end=False))
        silent.end()
        assert await silent.next() is None
        assert silent.stream.status == 0

    refuses(work)


def test_bi413_an_unknown_type_of_client(refuses):
    async def work(sdk, check):
        settings = consumer_settings("New")
        settings.client_type = 88
        stream = await told(sdk, TelemetryCommand(settings=settings))
        check(stream.text, stream.status, type=88)
        assert sdk.served.broker.groups.get("New") is None

    refuses(work)


@pytest.mark.parametrize("method", ["SendMessage", "ReceiveMessage", "AckMessage"])
def test_bi414_a_call_without_a_request(refuses, method):
    async def work(sdk, check):
        stream = await ended(sdk, method, body=b"")
        check(stream.text, stream.status)
        cut = sdk.open(method, end=False)
        sdk.client.data(cut, b"\0\0\0\0\5ab", end=True)
        await sdk.client.ended(cut)
        assert (cut.status, cut.text) == (13, "the request ends within a message")
        two = await ended(sdk, method, body=prefixed(b"") * 2)
        assert (two.status, two.text) == (13, "more than one request in a call with one request")

    refuses(work)


def test_bi415_five_thousand_calls_that_read_nothing(gantrymq_simulation, row, caplog):
    caplog.set_level(logging.INFO)

    async def main(cluster):
        async with GrpcBroker(cluster) as served:
            served.topic("T", queues=8)
            request = METHODS["QueryRoute"].request(topic=Resource(name="T"))
            sdks = [await served.sdk(f"c{number}") for number in range(5)]
            for sdk in sdks:
                sdk.client.acknowledging = False
                for _ in range(1000):
                    sdk.open("QueryRoute", request)
            other = await served.sdk("other")
            await served.clock.sleep(30)
            assert (await other.call("QueryRoute", request)).status.code == 20000
            assert len(served.protocol._server.connections) == 6
            await served.clock.sleep(45)
            assert served.protocol._server.connections == [served.protocol._server.connections[-1]]
            assert (await other.call("QueryRoute", request)).status.code == 20000

    gantrymq_simulation(main)
    lines = [each for each in caplog.messages if "has read none of" in each]
    assert len(lines) == 5
    peer, size = re.match(r"(\S+): closed: .* (\d+) bytes", lines[0]).groups()
    row.check(lines[0], "closed", peer=peer, size=size)
