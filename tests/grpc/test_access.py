"""Access control of gRPC clients: the recorded answers of RocketMQ's proxy, and ways around it."""

import asyncio
import json
import lzma
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_grpc")
pytest.importorskip("gantrymq_access")

from google.protobuf.json_format import MessageToDict
from grpc_broker import ENDPOINTS, consumer_settings, message_of, producer_settings, receive_request, signed

from gantrymq.errors import NoPermission, ServiceNotAvailable
from gantrymq.plugin import hookimpl
from gantrymq.plugin.model import Decision, Principal
from gantrymq_access.authorizer import AclAuthorizer
from gantrymq_access.records import Acl
from gantrymq_grpc.definitions import METHODS, ClientType, Code, Publishing, Resource, Settings, TelemetryCommand

USERS = {"rocketmq": "Super", "alice": ["Pub,Sub Topic:TopicA", "Pub,Sub Group:GroupA"], "bob": []}
UNAUTHORIZED, OK = Code.UNAUTHORIZED, Code.OK

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "grpc_access.jsonl.xz"
OF_PYTHON = "MQv2-HMAC-SHA1 Credential=, SignedHeaders=x-mq-date-time, Signature=0011"


def _upper(metadata):
    head, mark, digits = metadata["authorization"].rpartition("Signature=")
    return {**metadata, "authorization": head + mark + digits.upper()}


CALLERS = {  # client id and metadata
    "super": ("super", signed("rocketmq")),
    "super, upper case hex": ("super", _upper(signed("rocketmq"))),
    "super, Credential with region": (
        "super",
        {
            **signed("rocketmq"),
            "authorization": signed("rocketmq")["authorization"].replace("=rocketmq,", "=rocketmq/cn/x,"),
        },
    ),
    "alice (TopicA, GroupA Pub Sub)": ("alice", signed("alice")),
    "nobody's policy (bob)": ("bob", signed("bob")),
    "wrong signature": ("c", signed("alice", "wrong")),
    "bad hex": ("c", {**signed("alice"), "authorization": "MQv2-HMAC-SHA1 Credential=alice, Signature=xyz"}),
    "no date-time": ("c", {**signed("alice"), "x_mq_date_time": None}),
    "authorization without parts": ("c", {**signed("alice"), "authorization": "MQv2-HMAC-SHA1"}),
    "unknown": ("c", signed("eve")),
    "unsigned": ("c", {}),
    "empty Credential (Python SDK without keys)": ("c", {**signed("alice"), "authorization": OF_PYTHON}),
}
TEXTS = {  # ours for RocketMQ's
    "org.apache.rocketmq.proxy.common.ProxyException: receipt handle is expired": "receipt handle is expired",
}
OWN = {"offset", "message_id", "transaction_id"}


def _requests():
    """Return the recorded requests by method, in order; the second send has a blank topic."""
    topic, group = Resource(name="TopicA"), Resource(name="GroupA")
    ack = METHODS["AckMessage"].request(topic=topic, group=group)
    ack.entries.add(message_id="x", receipt_handle="1 1 1 1 0 broker-a 0 0")
    settings = Settings(client_type=ClientType.PRODUCER, publishing=Publishing(topics=[topic]))
    return {
        "QueryRoute": [METHODS["QueryRoute"].request(topic=topic, endpoints=_endpoints(34081))],
        "SendMessage": [METHODS["SendMessage"].request(messages=[message_of(each)]) for each in ("TopicA", "")],
        "Heartbeat": [METHODS["Heartbeat"].request(group=group, client_type=ClientType.PUSH_CONSUMER)],
        "ReceiveMessage": [receive_request("GroupA", "TopicA")],
        "AckMessage": [ack],
        "Telemetry": [TelemetryCommand(settings=settings)],
    }


def _endpoints(port):
    found = type(ENDPOINTS)()
    found.CopyFrom(ENDPOINTS)
    found.addresses[0].port = port
    return found


def _stripped(value):
    if isinstance(value, dict):
        return {key: _stripped(each) for key, each in value.items() if key not in OWN}
    return [_stripped(each) for each in value] if isinstance(value, list) else TEXTS.get(value, value)


def test_recorded_requests_are_answered_as_by_the_proxy(grpc_broker):
    lines = [json.loads(line) for line in lzma.decompress(GOLDEN.read_bytes()).splitlines()]
    assert {line["as"] for line in lines} == CALLERS.keys()

    async def main(served):
        served.topic("TopicA", 4)
        compared = 0
        for caller, (client_id, metadata) in CALLERS.items():
            sdk, requests, stream = await served.sdk(client_id, **metadata), _requests(), None
            for line in [each for each in lines if each["as"] == caller]:
                method = line["rpc"]
                if "end" in line:
                    assert await stream.next() is None, caller
                    assert (stream.stream.ended, stream.stream.status) == (True, 0)
                elif method == "Telemetry":
                    stream, answer = await sdk.telemetry(requests[method][0].settings)
                    assert _as_recorded(answer) == _stripped(line["message"]), line
                else:
                    (answer,) = await sdk.all(method, requests[method].pop(0))
                    assert _as_recorded(answer) == _stripped(line["message"]), line
                compared += 1
        assert compared == len(lines)

    grpc_broker(main, settings={"brokerName": "broker-a"}, users=USERS)


def _as_recorded(message):
    return _stripped(MessageToDict(message, preserving_proto_field_name=True))


def test_an_empty_credential_is_not_read_without_access_control(grpc_broker):
    async def main(served):
        sdk = await served.sdk(authorization="junk")
        await sdk.send()

    grpc_broker(main)


@pytest.mark.parametrize("strategy", ["stateless", "stateful"])
def test_signatures_are_checked_for_each_request_or_the_first_one(grpc_broker, strategy):
    wrong = signed("alice", "wrong")

    async def main(served):
        served.topic("TopicA")
        sdk = await served.sdk()
        assert (await _route(sdk, **wrong)).code == UNAUTHORIZED
        assert (await _route(sdk, **signed("alice"))).code == OK
        assert (await _route(sdk, **signed("alice", date_time="20270101T000000Z"))).code == OK
        assert (await _route(sdk, **wrong)).code == (OK if strategy == "stateful" else UNAUTHORIZED)
        assert (await _route(await served.sdk(), **wrong)).code == UNAUTHORIZED
        assert (await _route(sdk, **signed("bob"))).code == UNAUTHORIZED
        assert (await _route(sdk)).code == UNAUTHORIZED

    grpc_broker(main, users=USERS, settings={"authenticationStrategy": strategy, "authorizationStrategy": strategy})


async def _route(sdk, topic="TopicA", **metadata):
    request = METHODS["QueryRoute"].request(topic=Resource(name=topic), endpoints=ENDPOINTS)
    return (await sdk.call("QueryRoute", request, **metadata)).status


def test_requests_that_need_no_account_are_named_by_their_message(grpc_broker):
    async def main(served):
        served.topic("TopicA")
        sdk = await served.sdk()
        assert (await _route(sdk)).code == OK
        response = await sdk.call("SendMessage", METHODS["SendMessage"].request(messages=[message_of("TopicA")]))
        assert response.status.message == "username cannot be null."

    name = METHODS["QueryRoute"].request.DESCRIPTOR.full_name
    settings = {"authenticationWhitelist": name, "authorizationWhitelist": name}
    grpc_broker(main, users=USERS, settings=settings)


def test_a_certificate_is_a_user(grpc_broker):
    async def main(served):
        served.topic("TopicA")
        authorizer = served.broker.access.authorizer
        assert isinstance(authorizer, AclAuthorizer)
        await authorizer.change(_with_certificate, Principal("rocketmq"), {})
        served.certificate = "CN=alice,O=Shop"
        for metadata in ({}, {**signed("alice"), "authorization": OF_PYTHON}):
            sdk = await served.sdk(**metadata)
            await sdk.send("TopicA")
            assert (await _route(sdk, "T")).message.startswith("User:alice has no permission to access Topic:T from")
            stream = await sdk.consumer("GroupA", "TopicA")
            stream.end()
        assert (await _route(sdk, **signed("bob"))).message.startswith("User:bob has no permission")  # it signs
        served.certificate = "CN=mallory"
        assert (await _route(await served.sdk())).message == "username cannot be null."

    grpc_broker(main, users=USERS)


def _with_certificate(state):
    from attrs import evolve

    return state.with_user(evolve(state.users["alice"], certificate="CN=alice,O=Shop"))


class Later:
    """An authorizer that answers when its future is done; names are believed."""

    def __init__(self):
        self.asked = []
        self.answer = None  # an error or None

    @hookimpl
    def gantry_register_authorizers(self, registry):
        registry.add("later", lambda context: self)

    def authenticate(self, credentials, client):
        self.asked.append(credentials.request)
        return self._later(credentials.access_key)

    async def _later(self, name):
        await asyncio.sleep(0)
        if self.answer is not None:
            raise self.answer
        return Principal(name or "anonymous")

    def authorize(self, principal, actions, resource):
        return Decision(principal.name == "alice")


def test_an_authorizer_that_answers_later_is_waited_for(grpc_broker):
    later = Later()

    async def main(served):
        sdk = await served.sdk(**signed("alice"))
        await sdk.send()
        stream = await sdk.consumer("G", "T")
        assert len(await sdk.receive()) == 1
        assert later.asked.count("apache.rocketmq.v2.SendMessageRequest") == 1
        await sdk.send()
        assert later.asked.count("apache.rocketmq.v2.SendMessageRequest") == 1  # cached for the connection
        bob = await served.sdk("c2", **signed("bob"))
        assert (await _route(bob, "T")).code == UNAUTHORIZED
        (refused,) = await bob.all("ReceiveMessage", receive_request())
        assert refused.status.code == UNAUTHORIZED
        stream.end()
        for error, code in ((NoPermission("who?"), UNAUTHORIZED), (ServiceNotAvailable("down"), 50001)):
            later.answer = error
            sdk = await served.sdk("c3", **signed("alice"))
            status = await _route(sdk, "T")
            assert (status.code, status.message) == (code, str(error))
            (refused,) = await sdk.all("ReceiveMessage", receive_request())
            assert refused.status == status
            stream, answer = await sdk.telemetry(consumer_settings("G", "T"))
            assert answer.status == status
            assert await stream.next() is None

    grpc_broker(main, plugins=[("later", later)], settings={"authorizer": "later"})


def test_the_client_id_of_another_user_is_refused(grpc_broker):
    async def main(served):
        served.topic("TopicA")
        alice = await served.sdk("mine", **signed("alice"))
        stream = await alice.consumer("GroupA", "TopicA")
        thief = await served.sdk("mine", **signed("rocketmq"))
        _, answer = await thief.telemetry(consumer_settings("GroupA", "TopicA"))
        assert (answer.status.code, "of another user" in answer.status.message) == (UNAUTHORIZED, True)
        for method in ("Heartbeat", "NotifyClientTermination"):
            assert (await thief.call(method)).status.code == UNAUTHORIZED
        first, _ = await thief.all("ReceiveMessage", receive_request("GroupA", "TopicA"))
        assert first.status.code == UNAUTHORIZED
        assert not stream.stream.ended
        assert [each.client_id for each in served.broker.clients.consumers("GroupA")] == ["mine"]
        assert (await alice.call("NotifyClientTermination")).status.code == OK
        _, answer = await thief.telemetry(consumer_settings("GroupA", "TopicA"))
        assert answer.status.code == OK

    grpc_broker(main, users=USERS)


def test_what_a_user_may_not_do_is_refused_for_each_method(grpc_broker):
    """bob may consume from TopicB, and must get nothing of TopicA."""

    async def main(served):
        served.topic("TopicA")
        served.topic("TopicB")
        alice, bob = await served.sdk("a", **signed("alice")), await served.sdk("b", **signed("bob"))
        await alice.consumer("GroupA", "TopicA")
        assert await alice.receive("GroupA", "TopicA") == []
        await alice.send("TopicA", b"secret")
        (message,) = await alice.receive("GroupA", "TopicA")
        for group in ("GroupA", "GroupB"):
            ack = METHODS["AckMessage"].request(group=Resource(name=group), topic=Resource(name="TopicA"))
            ack.entries.add(receipt_handle=message.system_properties.receipt_handle)
            assert (await bob.call("AckMessage", ack)).status.code == UNAUTHORIZED
            assert (await bob.change(message, 0, group, "TopicA")).status.code == UNAUTHORIZED
            request = METHODS["ForwardMessageToDeadLetterQueue"].request(
                group=Resource(name=group),
                topic=Resource(name="TopicA"),
                receipt_handle=message.system_properties.receipt_handle,
            )
            assert (await bob.call("ForwardMessageToDeadLetterQueue", request)).status.code == UNAUTHORIZED
            first, *rest = await bob.all("ReceiveMessage", receive_request(group, "TopicA"))
            assert (first.status.code, rest) == (UNAUTHORIZED, [])
            sync = METHODS["SyncLiteSubscription"].request(group=Resource(name=group), topic=Resource(name="TopicA"))
            assert (await bob.call("SyncLiteSubscription", sync)).status.code == UNAUTHORIZED
            _, answer = await bob.telemetry(consumer_settings(group, "TopicB", "TopicA"))
            assert answer.status.code == UNAUTHORIZED
        handle = message.system_properties.receipt_handle
        request.topic.name, request.receipt_handle = "TopicB", handle
        await bob.call("ForwardMessageToDeadLetterQueue", request)
        assert served.broker.topics.get("%DLQ%GroupB") is None
        request = METHODS["QueryAssignment"].request(topic=Resource(name="TopicA"), group=Resource(name="GroupB"))
        assert (await bob.call("QueryAssignment", request)).status.code == UNAUTHORIZED
        assert served.broker.clients.consumers("GroupB") == ()
        assert (await alice.ack(message, "GroupA", "TopicA")).code == OK

    users = {**USERS, "bob": ["Pub,Sub Topic:TopicB", "Sub Group:GroupB"]}
    grpc_broker(main, users=users)


@pytest.mark.parametrize("loss", ["user", "policies"])
def test_what_a_user_waits_for_ends_within_a_second(grpc_broker, loss):
    """The message that another user stores then is not delivered. Streams of users that are there stay open."""

    async def main(served):
        served.topic("TopicA")
        alice, root = await served.sdk("a", **signed("alice")), await served.sdk("r", **signed("rocketmq"))
        stream = await alice.consumer("GroupA", "TopicA")
        producing, _ = await (await served.sdk("p", **signed("alice"))).telemetry(producer_settings("TopicA"))
        waiting = asyncio.ensure_future(alice.all("ReceiveMessage", receive_request("GroupA", "TopicA", polling=20)))
        await served.clock.sleep(0.5)
        assert not waiting.done()
        root_user = Principal("rocketmq", "127.0.0.1")
        await served.broker.access.authorizer.change(
            lambda state: state.without_user("alice") if loss == "user" else state.with_acl(Acl("alice", ())),
            root_user,
            {},
        )
        await served.clock.sleep(1)
        assert waiting.done()
        await root.send("TopicA", b"secret")
        first, *_ = waiting.result()
        assert first.status.code == UNAUTHORIZED
        assert not served.broker.clients.consumers("GroupA")
        assert stream.stream.ended == producing.stream.ended == (loss == "user")

    grpc_broker(main, users=USERS)
