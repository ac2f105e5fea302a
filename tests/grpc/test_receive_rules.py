"""Rules of receives: time left, tags with equal hashes, messages delivered too often, and repeated attempts."""

import asyncio

import pytest

pytest.importorskip("gantrymq_grpc")

from grpc_broker import consumer_settings, receive_request

from gantrymq.broker.messages import BrokerMessages
from gantrymq.errors import ServiceNotAvailable
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import Queue
from gantrymq_grpc.definitions import ClientType, Code

TOO_LATE = "The deadline time remaining is not enough for polling, please check network condition"
ONE, OTHER = "Aa", "BB"  # tags with the same hash in Java


def bodies(messages):
    return [bytes(each.body) for each in messages]


# --- the deadline of the call ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("polling_s", "left_s", "request_timeout_s", "expected_s"),
    [
        (None, None, None, 20),  # neither: the longest
        (None, 10, None, 8.5),  # what is left, without half of the usual request timeout of 3 s
        (None, 10, 6, 7),  # of the client's settings
        (None, 6, None, 5),  # at least 5 s
        (None, 60, None, 20),
        (7, 10, None, 7),
        (1, 10, None, 5),
        (60, 100, None, 20),
        (15, 10, None, 10),  # no longer than the call
    ],
)
def test_a_receive_without_messages_waits_as_long_as_the_call_allows(
    grpc_broker, polling_s, left_s, request_timeout_s, expected_s
):
    async def main(served):
        sdk = await served.sdk()
        settings = consumer_settings("G", "T")
        if request_timeout_s is not None:
            settings.request_timeout.seconds = request_timeout_s
        await sdk.telemetry(settings)
        deadline = {} if left_s is None else {"grpc_timeout": f"{left_s}S"}
        began = served.clock.monotonic()
        stream = await sdk.client.ended(sdk.open("ReceiveMessage", receive_request(polling=polling_s), **deadline))
        assert served.clock.monotonic() - began == pytest.approx(expected_s, abs=0.1)
        if left_s != expected_s:  # otherwise the call may end first
            assert sdk.messages("ReceiveMessage", stream)[0].status.code == Code.MESSAGE_NOT_FOUND

    grpc_broker(main)


@pytest.mark.parametrize(
    ("version", "code"),
    [
        ("5.0.3", Code.ILLEGAL_POLLING_TIME),
        ("5.2.0", Code.ILLEGAL_POLLING_TIME),
        ("5.0.2", Code.BAD_REQUEST),  # does not know the other code
        (None, Code.BAD_REQUEST),
    ],
)
@pytest.mark.parametrize("polling_s", [None, 5])
def test_a_receive_with_too_little_time_left_is_refused_at_once(grpc_broker, version, code, polling_s):
    async def main(served):
        sdk = await served.sdk(x_mq_client_version=version)
        await sdk.receive()
        await sdk.send()
        began = served.clock.monotonic()
        first, *_ = await sdk.all("ReceiveMessage", receive_request(polling=polling_s), grpc_timeout="4S")
        assert (first.status.code, first.status.message) == (code, TOO_LATE)
        assert served.clock.monotonic() - began < 0.1
        assert len(await sdk.receive()) == 1

    grpc_broker(main)


# --- tags with equal hashes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("renewed", [True, False])
def test_messages_whose_tag_only_has_the_same_hash_are_not_delivered_and_do_not_come_again(grpc_broker, renewed):
    async def main(served):
        sdk = await served.sdk()
        await sdk.consumer("G", "T", expression=ONE)
        await sdk.receive(expression=ONE)
        for number, tag in enumerate((OTHER, ONE, OTHER, ONE, OTHER)):
            await sdk.send(body=b"%d" % number, tag=tag)
        found = []
        while len(found) < 2:
            found += await sdk.receive(expression=f"{ONE} || C", auto_renew=renewed)
        assert sorted(bodies(found)) == [b"1", b"3"]
        for each in found:
            assert (await sdk.ack(each)).code == Code.OK
        await served.clock.sleep(70)
        assert await sdk.receive(expression="*") == []  # they are acknowledged, and not only hidden

    grpc_broker(main)


def test_a_receive_that_finds_only_other_tags_with_the_same_hash_says_so(grpc_broker):
    async def main(served):
        sdk = await served.sdk()
        await sdk.receive(expression=ONE)
        await sdk.send(tag=OTHER)
        first, _ = await sdk.all("ReceiveMessage", receive_request(expression=ONE))
        assert (first.status.code, first.status.message) == (Code.MESSAGE_NOT_FOUND, "no match message")

    grpc_broker(main)


# --- messages delivered too often -----------------------------------------------------------------------------------


def test_a_message_that_cannot_be_moved_to_the_dead_letters_leaves_its_pop_and_is_moved_later(grpc_broker, monkeypatch):
    """It must not be renewed with the other messages of the pop: it would be hidden for as long as they are."""

    refused = []

    async def refuse(*message, **more):
        refused.append(message)
        raise ServiceNotAvailable("refused by the test")

    async def main(served):
        sdk = await served.sdk()
        served.broker.groups.put(GroupConfig("G", retry_max_times=1))
        stream = await sdk.consumer("G", "T")
        await sdk.receive()
        await sdk.send(body=b"bad")
        assert bodies(await sdk.receive(invisible=10)) == [b"bad"]
        await served.clock.sleep(12)
        await sdk.send(body=b"good")
        assert sorted(bodies(await sdk.receive(invisible=10))) == [b"bad", b"good"]
        await served.clock.sleep(12)
        with monkeypatch.context() as patched:
            patched.setattr(BrokerMessages, "send_back", refuse)
            (good,) = await sdk.receive(auto_renew=True)  # both are in the retry topic, and popped together
            assert (good.body, good.system_properties.delivery_attempt, len(refused)) == (b"good", 2, 1)
        began = served.clock.monotonic()
        while served.broker.topics.get("%DLQ%G") is None and served.clock.monotonic() - began < 200:
            assert bodies(await sdk.receive(auto_renew=True)) == []
        assert 40 < served.clock.monotonic() - began < 80
        assert not stream.stream.ended
        assert bodies(await sdk.receive("D", "%DLQ%G")) == [b"bad"]
        assert (await sdk.ack(good)).code == Code.OK

    grpc_broker(main)


# --- repeated attempts ----------------------------------------------------------------------------------------------


def ordered(served):
    served.topic("T", kind="FIFO")
    served.broker.groups.put(GroupConfig("G", consume_message_orderly=True))


async def ordered_messages(served, sdk, count=3):
    ordered(served)
    await sdk.consumer("G", "T")
    await sdk.receive()
    for number in range(count):
        await sdk.send(body=b"%d" % number, message_group="g")


async def lose(served, sdk, stream):
    sdk.client.transport.abort()


async def reset(served, sdk, stream):
    sdk.client.reset(stream)


async def stall(served, sdk, stream):
    """Leave the first call open, as a half-open connection does."""


@pytest.mark.parametrize("fail", [lose, reset, stall])
@pytest.mark.parametrize("renewed", [True, False])
def test_a_repeated_attempt_gets_the_same_messages_at_once(grpc_broker, fail, renewed):
    async def main(served):
        sdk, other = await served.sdk(), await served.sdk("c2")
        await ordered_messages(served, sdk)
        request = receive_request(attempt_id="a1", auto_renew=renewed)
        stream = sdk.open("ReceiveMessage", request)
        sdk.client.transport.pause_reading()
        await served.clock.sleep(0.5)
        await fail(served, sdk, stream)
        again = await served.sdk("c1")
        began = served.clock.monotonic()
        found = await again.receive(attempt_id="a1", auto_renew=renewed)
        assert served.clock.monotonic() - began < 0.1
        assert bodies(found) == [b"0", b"1", b"2"]
        assert {each.system_properties.delivery_attempt for each in found} == {1}  # the same attempt
        sdk.client.transport.abort()  # the first call ends now at the latest, and must give nothing of the second back
        await served.clock.sleep(3)
        assert await other.receive(attempt_id="a2") == []
        for each in found:
            assert (await again.ack(each)).code == Code.OK
        assert await again.receive() == []

    grpc_broker(main)


def test_another_attempt_waits_until_the_messages_are_given_back_and_is_counted(grpc_broker):
    async def main(served):
        sdk, other = await served.sdk(), await served.sdk("c2")
        await ordered_messages(served, sdk)
        sdk.open("ReceiveMessage", receive_request(attempt_id="a1"))
        sdk.client.transport.pause_reading()
        await served.clock.sleep(0.5)
        sdk.client.transport.abort()
        began = served.clock.monotonic()
        found = await other.receive(attempt_id="a2")
        assert served.clock.monotonic() - began == pytest.approx(1, abs=0.2)
        assert bodies(found) == [b"0", b"1", b"2"]
        assert {each.system_properties.delivery_attempt for each in found} == {2}

    grpc_broker(main)


def test_a_repeated_attempt_gets_what_it_has_not_acknowledged(grpc_broker):
    async def main(served):
        sdk = await served.sdk()
        await ordered_messages(served, sdk)
        first, *_ = await sdk.receive(attempt_id="a1")
        assert (await sdk.ack(first)).code == Code.OK
        assert bodies(await sdk.receive(attempt_id="a1")) == [b"1", b"2"]

    grpc_broker(main)


def test_a_repeated_attempt_of_a_refused_receive_gets_the_messages(grpc_broker):
    """The first attempt ends with an error, and held ones with the connection, before there was a message."""

    async def main(served):
        sdk, other = await served.sdk(), await served.sdk("c2")
        ordered(served)
        await sdk.consumer("G", "T")
        await sdk.receive()
        refused, *_ = await sdk.all("ReceiveMessage", receive_request(attempt_id="a1", polling=None), grpc_timeout="1S")
        assert refused.status.code == Code.ILLEGAL_POLLING_TIME
        sdk.open("ReceiveMessage", receive_request(attempt_id="a1", polling=20))
        await served.clock.sleep(1)
        sdk.client.transport.abort()
        await served.clock.sleep(1)
        again = asyncio.ensure_future((await served.sdk("c1")).receive(attempt_id="a1", polling=20))
        await served.clock.sleep(1)
        await other.send(body=b"0", message_group="g")
        assert bodies(await again) == [b"0"]

    grpc_broker(main)


def test_a_simple_consumer_of_an_ordered_group_repeats_attempts_as_well(grpc_broker):
    """Order comes from the group, never from the settings of the client."""

    async def main(served):
        sdk = await served.sdk()
        await ordered_messages(served, sdk, 2)
        await sdk.consumer("G", "T", kind=ClientType.SIMPLE_CONSUMER)
        assert bodies(await sdk.receive(attempt_id="a1")) == [b"0", b"1"]
        assert bodies(await sdk.receive(attempt_id="a1")) == [b"0", b"1"]
        assert await sdk.receive(attempt_id="a2") == []

    grpc_broker(main)


@pytest.mark.parametrize("kind", [ClientType.SIMPLE_CONSUMER, ClientType.PUSH_CONSUMER])
def test_a_simple_consumer_of_an_ordered_group_gets_messages_of_all_queues(grpc_broker, kind):
    """It asks for one queue after the other, and would wait at empty ones. Push consumers ask for all at once."""

    async def main(served):
        sdk = await served.sdk()
        await ordered_messages(served, sdk)
        await sdk.consumer("G", "T", kind=kind)
        (full,) = (each for each in range(2) if served.broker.store.bounds(Queue("T", each)).max_offset)
        request = receive_request()
        request.message_queue.id = 1 - full
        _, *found, _ = await sdk.all("ReceiveMessage", request)
        expected = [] if kind == ClientType.PUSH_CONSUMER else [b"0", b"1", b"2"]
        assert bodies(each.message for each in found) == expected

    grpc_broker(main)
