"""Metrics of gRPC clients, the protocol's part of ``/healthz``, and the settings that bound messages."""

import pytest

pytest.importorskip("gantrymq_grpc")

from gantrymq.errors import RequestRefused
from gantrymq_grpc.definitions import (
    ClientType,
    Code,
    HeartbeatRequest,
    Publishing,
    ReceiveMessageRequest,
    Resource,
    Settings,
)


def metrics(served):
    """Return the metrics of the protocol by name."""
    return {each.name: each for each in served.broker.metrics.of_plugins() if each.name.startswith("gantrymq_grpc_")}


def values(served, name):
    return dict(metrics(served)[f"gantrymq_grpc_{name}"].values)


def test_requests_are_counted_by_their_code(grpc_broker):
    async def main(served):
        sdk = await served.sdk()
        await sdk.receive()
        await sdk.send()
        await sdk.send()
        await sdk.call("QueryRoute")
        stream = await sdk.client.ended(sdk.open("PullMessage"))
        assert stream.status == 12
        return values(served, "requests_total"), values(served, "errors_total")

    requests, errors = grpc_broker(main)
    assert requests == {
        ("ReceiveMessage", "MESSAGE_NOT_FOUND"): 1,
        ("SendMessage", "OK"): 2,
        ("QueryRoute", "ILLEGAL_TOPIC"): 1,
    }
    assert errors == {("UNIMPLEMENTED",): 1}


def test_connections_calls_and_clients_are_those_of_now(grpc_broker):
    async def main(served):
        assert values(served, "connections") == values(served, "calls") == {("sdk",): 0}
        sdk, other = await served.sdk(), await served.sdk("c2", x_mq_language="HTTP")
        third = await served.sdk("c3", x_mq_language="Fantasy " * 1000)
        await sdk.producer("T")
        await other.consumer("G")
        await third.consumer("G")
        found = metrics(served)
        assert values(served, "connections") == {("sdk",): 3}
        assert values(served, "calls") == {("sdk",): 3}  # telemetry streams
        assert values(served, "clients") == {("JAVA",): 1, ("HTTP",): 1, ("OTHER",): 1}
        assert found["gantrymq_grpc_connections"].health == {
            "grpc": {
                "listeners": {"sdk": "127.0.0.1:8081"},
                "connections": 3,
                "clients": {"HTTP": 1, "JAVA": 1, "OTHER": 1},
            }
        }
        assert found["gantrymq_grpc_calls"].sentences == {}

    grpc_broker(main)


def test_kept_receives_and_failed_renewals_are_counted(grpc_broker, monkeypatch):
    async def main(served):
        sdk = await served.sdk()
        await sdk.consumer("G")
        await sdk.receive()
        await sdk.send()
        await sdk.receive(auto_renew=True)
        await served.clock.sleep(1)  # until the client has confirmed that it has the message
        assert values(served, "pops_kept") == {(): 1}

        async def refuse(*_):
            raise RequestRefused(1, "no")

        monkeypatch.setattr(served.broker.service("pop"), "renew", refuse)
        for _ in range(8):
            await sdk.call(
                "Heartbeat", HeartbeatRequest(group=Resource(name="G"), client_type=ClientType.PUSH_CONSUMER)
            )
            await served.clock.sleep(10)
        assert values(served, "renewals_failed_total") == {(): 1}
        assert values(served, "pops_kept") == {(): 0}

    grpc_broker(main)


def test_a_connection_that_is_full_of_held_receives_is_named(grpc_broker):
    async def main(served):
        sdk, request = await served.sdk(), ReceiveMessageRequest()
        request.group.name = "G"
        request.message_queue.topic.name = "T"
        request.invisible_duration.seconds = 30
        for _ in range(8):
            sdk.open("ReceiveMessage", request)
            assert values(served, "connections_crowded") == {("sdk",): 0}
        await sdk.client.until(lambda: values(served, "calls") == {("sdk",): 8})
        assert values(served, "connections_crowded") == {("sdk",): 1}
        (sentence,) = metrics(served)["gantrymq_grpc_calls"].sentences.values()
        assert (
            "8 calls in progress on one connection, the limit is 10 (grpcMaxConcurrentCallsPerConnection)" in sentence
        )

    grpc_broker(main, settings={"grpcMaxConcurrentCallsPerConnection": 10})


@pytest.mark.parametrize(
    ("settings", "message", "code"),
    [
        ({"maxMessageSize": 2000}, {"body": bytes(2001)}, Code.MESSAGE_BODY_TOO_LARGE),
        ({"userPropertyMaxNum": 1}, {"user": {"a": "1", "b": "2"}}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"maxUserPropertySize": 3}, {"tag": "abcd"}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"maxMessageGroupSize": 3}, {"message_group": "abc"}, Code.ILLEGAL_MESSAGE_GROUP),
    ],
)
def test_settings_bound_messages(grpc_broker, settings, message, code):
    async def main(served):
        from grpc_broker import send_request  # not at the top: it needs the library h2

        sdk = await served.sdk()
        response = await sdk.call("SendMessage", send_request("T", **message))
        assert response.status.code == code, response.status

    grpc_broker(main, settings=settings)


def test_clients_learn_the_limits_of_the_broker(grpc_broker):
    async def main(served):
        sdk = await served.sdk()
        settings = Settings(client_type=ClientType.PRODUCER, publishing=Publishing(topics=[Resource(name="T")]))
        _, answer = await sdk.telemetry(settings)
        found = answer.settings
        assert found.publishing.max_body_size == 5000
        assert found.backoff_policy.max_attempts == 7

    grpc_broker(main, settings={"maxMessageSize": 5000, "grpcClientProducerMaxAttempts": 7})
