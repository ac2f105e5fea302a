"""Requests of clients that are hostile or in error: each is answered with the reason, and costs little."""

import gc

import pytest
from grpc_broker import ENDPOINTS, message_of, receive_request, send_request
from grpc_served import prefixed

from gantrymq_grpc.definitions import METHODS, Address, Code, Endpoints, FilterType, Resource


def request_of(method, **fields):
    return METHODS[method].request(topic=Resource(name="T"), **fields)


async def answer_to(sdk, method, request):
    """Send a request of any size, and return its stream."""
    stream = sdk.open(method, end=False)
    await sdk.client.upload(stream, prefixed(request.SerializeToString()))
    return await sdk.client.ended(stream)


def test_a_request_with_too_many_messages_is_refused(grpc_broker):
    async def work(served):
        sdk = await served.sdk()
        messages = [message_of("T", b"x") for _ in range(1025)]
        taken = await sdk.call("SendMessage", METHODS["SendMessage"].request(messages=messages[:1024]))
        assert len(taken.entries) == 1024
        refused = await sdk.call("SendMessage", METHODS["SendMessage"].request(messages=messages))
        assert refused.status.code == Code.BAD_REQUEST
        assert refused.status.message == "the request has 1025 messages, at most 1024 are taken; send several requests"

    grpc_broker(work)


@pytest.mark.parametrize("method", ["QueryRoute", "QueryAssignment"])
def test_endpoints_that_are_sent_back_with_each_queue_are_bounded(grpc_broker, method):
    group = {} if method == "QueryRoute" else {"group": Resource(name="G")}

    async def work(served):
        served.topic("T", queues=1000)
        sdk = await served.sdk()
        many = Endpoints(addresses=[Address(host=f"proxy-{each}.example", port=8081) for each in range(100)])
        answer = await sdk.call(method, request_of(method, endpoints=many, **group))
        assert answer.status.code == Code.ILLEGAL_ACCESS_POINT
        assert answer.status.message.startswith("the endpoints have 100 addresses in 2")
        answer = await sdk.call(method, request_of(method, endpoints=ENDPOINTS, **group))
        assert answer.status.code == Code.OK

    grpc_broker(work)


def test_a_namespace_that_is_sent_back_with_each_queue_is_bounded(grpc_broker):
    async def work(served):
        sdk = await served.sdk()
        topic = Resource(name="T", resource_namespace="n" * 256)
        answer = await sdk.call("QueryRoute", METHODS["QueryRoute"].request(topic=topic, endpoints=ENDPOINTS))
        assert answer.status.code == Code.ILLEGAL_TOPIC
        assert "resource_namespace of topic T has 256 characters, the longest allowed is 255" in answer.status.message

    grpc_broker(work)


def test_an_authority_of_any_length_is_not_sent_back(grpc_broker):
    async def work(served):
        sdk = await served.sdk()
        answer = await sdk.call("QueryRoute", request_of("QueryRoute"), **{":authority": "a" * 5000 + ":8081"})
        (address,) = answer.message_queues[0].broker.endpoints.addresses
        assert address.host == "127.0.0.1"

    grpc_broker(work)


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("QueryRoute", {"endpoints": Endpoints(addresses=[Address(host="h" * 200_000)])}),
        ("EndTransaction", {"transaction_id": "t" * 200_000}),
        ("RecallMessage", {"recall_handle": "h" * 200_000}),
    ],
)
def test_requests_that_are_never_long_have_a_lower_limit(grpc_broker, method, fields):
    async def work(served):
        sdk = await served.sdk()
        stream = await answer_to(sdk, method, request_of(method, **fields))
        assert stream.status == 8
        assert stream.text.startswith("the request has 200")
        assert stream.text.endswith("the limit is 131072")

    grpc_broker(work)


@pytest.mark.parametrize("kind", [FilterType.TAG, FilterType.SQL])
def test_a_long_filter_is_refused(grpc_broker, kind):
    pytest.importorskip("gantrymq_filter_tag")
    pytest.importorskip("gantrymq_filter_sql92")

    async def work(served):
        sdk = await served.sdk()
        request = receive_request(expression="a||" * 30_000 + "a")
        request.filter_expression.type = kind
        status, _ = sdk.messages("ReceiveMessage", await answer_to(sdk, "ReceiveMessage", request))
        assert status.status.code == Code.ILLEGAL_FILTER_EXPRESSION
        assert "90001 characters" in status.status.message.replace(",", "")
        assert len(status.status.message) < 300

    grpc_broker(work)


@pytest.mark.parametrize("method", ["AckMessage", "ChangeInvisibleDuration", "ForwardMessageToDeadLetterQueue"])
def test_a_handle_of_a_megabyte_is_not_readable(grpc_broker, method):
    async def work(served):
        sdk = await served.sdk()
        request = request_of(method, group=Resource(name="G"))
        named = request.entries.add() if method == "AckMessage" else request
        named.receipt_handle = "1 " * 500_000
        stream = await answer_to(sdk, method, request)
        (answer,) = sdk.messages(method, stream)
        status = answer.entries[0].status if method == "AckMessage" else answer.status
        assert status.code == Code.INVALID_RECEIPT_HANDLE
        assert "it has 1000000 characters, at most 1024 are taken" in status.message

    grpc_broker(work)


def test_a_million_empty_acknowledgements_are_refused(grpc_broker):
    async def work(served):
        sdk = await served.sdk()
        request = METHODS["AckMessage"].request(topic=Resource(name="T"), group=Resource(name="G"))
        body = request.SerializeToString() + b"\x1a\x00" * 1_000_000
        stream = sdk.open("AckMessage", end=False)
        await sdk.client.upload(stream, prefixed(body))
        await sdk.client.ended(stream)
        assert (stream.status, stream.text) == (
            8,
            f"the request has more than 25000 fields in {len(body)} bytes; send it in parts",
        )
        few = METHODS["AckMessage"].request.FromString(request.SerializeToString() + b"\x1a\x00" * 10_000)
        answer = await sdk.call("AckMessage", few)
        assert answer.status.code == Code.BAD_REQUEST
        assert "acknowledges 10000 messages, at most 1024 are taken" in answer.status.message

    grpc_broker(work)


@pytest.mark.filterwarnings("error")  # a coroutine that was never awaited
@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"Telemetry"}))
def test_a_call_that_is_reset_in_the_packet_that_opened_it_does_nothing(grpc_broker, method):
    requests = {"SendMessage": send_request(), "ReceiveMessage": receive_request()}

    async def work(served):
        sdk = await served.sdk()
        flush, sdk.client.flush = sdk.client.flush, lambda: None
        for _ in range(20):
            stream = sdk.open(method, requests.get(method, METHODS[method].request()))
            sdk.client.h2.reset_stream(stream.id, 8)
        sdk.client.flush = flush
        flush()
        await served.clock.sleep(1)
        gc.collect()
        assert served.protocol.service.served.total() == 0

    grpc_broker(work)
