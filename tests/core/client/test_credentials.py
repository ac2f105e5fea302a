"""Signatures, as brokers verify them, on every request and never in a log."""

import logging

import pytest

from gantrymq.client import Client, Credentials, Message
from gantrymq.client.calls.connection_config import ConnectionConfig
from gantrymq.client.calls.credentials import resolve_credentials
from gantrymq.client.calls.rpc import refused
from gantrymq.client.calls.rpc_hooks import RpcHooks
from gantrymq.errors import BrokerRefused, ClientError, ConfigError, InvalidParameter, NoPermission
from gantrymq.remoting import command
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.signatures import Signer

ACCOUNT = Credentials("ak", "sk12345678", "a-token")
ACCESS, SECRET, TOKEN = "GANTRYMQ_ACCESS_KEY", "GANTRYMQ_SECRET_KEY", "GANTRYMQ_SECURITY_TOKEN"
SEND, PULL, BEAT = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE, RequestCode.HEART_BEAT


def signed(credentials, ext, body=None):
    request = command.request(310, ext, body)
    Signer(credentials).sign(request)
    return request.ext


def checked(request, credentials):
    """Verify like a broker: the signature covers the other fields and the body."""
    others = {name: value for name, value in request.ext.items() if name != "Signature"}
    return signed(credentials, others, request.body)["Signature"] == request.ext["Signature"]


@pytest.mark.parametrize("body", [b"body", memoryview(b"body")])
def test_a_signature_of_the_java_client(body):
    ext = signed(Credentials("ak", "sk12345678"), {"topic": "TopicTest", "queueId": "0"}, body)
    assert ext["AccessKey"] == "ak"
    assert ext["Signature"] == "ij78TcFul/HFnQdnaFNO5y7xu9Y="
    assert "SecurityToken" not in ext


def test_a_token_is_signed_with_the_rest():
    with_token = signed(ACCOUNT, {"topic": "T"})
    assert with_token["SecurityToken"] == "a-token"
    assert with_token["Signature"] != signed(Credentials("ak", "sk12345678"), {"topic": "T"})["Signature"]


def test_a_request_without_fields_and_a_second_signature():
    request = command.request(34)
    signer = Signer(ACCOUNT)
    signer.sign(request)
    once = dict(request.ext)
    signer.sign(request)
    assert request.ext == once


@pytest.mark.parametrize("keys", [("", "s"), ("a", " "), (None, "s"), ("a", b"s")])
def test_empty_keys_are_refused(keys):
    with pytest.raises(InvalidParameter, match="of the credentials is empty"):
        Credentials(*keys)


def test_secrets_are_not_shown():
    shown = [
        ACCOUNT,
        ConnectionConfig(credentials=ACCOUNT),
        Signer(ACCOUNT),
        command.Command(1, ext=signed(ACCOUNT, {})),
    ]
    text = " ".join(map(repr, shown))
    assert "ak" in text
    assert "sk12345678" not in text and "a-token" not in text


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, None),
        ({ACCESS: "a", SECRET: "s"}, Credentials("a", "s")),
        ({ACCESS: "a", SECRET: "s", TOKEN: "t"}, Credentials("a", "s", "t")),
        ({TOKEN: "t"}, None),
    ],
)
def test_the_environment_says_an_account(environ, found):
    assert resolve_credentials(None, environ) == found
    assert resolve_credentials(ACCOUNT, environ) == ACCOUNT


@pytest.mark.parametrize(("there", "missing"), [(ACCESS, SECRET), (SECRET, ACCESS)])
def test_half_an_account_is_refused(there, missing):
    with pytest.raises(ConfigError, match=rf"\${there} is set and \${missing} is not"):
        resolve_credentials(None, {there: "x"})


def test_every_request_is_signed(simulate, cluster, caplog):
    caplog.set_level(logging.DEBUG)

    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world, credentials=ACCOUNT) as client:
            broker = c.brokers["a"]
            found = {"nextBeginOffset": "0", "minOffset": "0", "maxOffset": "0", "suggestWhichBrokerId": "0"}
            broker.answers[PULL] = command.Command(19, ext=found)
            producer = client.producer("P")
            await producer.send(Message("T", b"hello"))
            await producer.send_oneway(Message("T", b"hello"))
            await producer.send_batch([Message("T", b"hello"), Message("T", b"again")])
            reader = client.reader("T")
            for queue in await reader.queues():
                await reader.pull(queue, 0)
            with pytest.raises(ClientError, match="does not serve"):
                await client.admin.topics()
            await world.clock.sleep(31)
            for code in (SEND, PULL, BEAT):
                assert broker.of(code)
            for request in (*broker.asked, *c.ns.asked):
                assert checked(request, ACCOUNT)
        assert checked(broker.of(RequestCode.UNREGISTER_CLIENT)[0], ACCOUNT)

    simulate(work)
    assert "sk12345678" not in caplog.text and "a-token" not in caplog.text


def test_nothing_is_added_without_an_account(simulate, cluster):
    assert RpcHooks.needed(None, "", None, False) is None

    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            await producer.send(Message("T", b"hello"))
            for request in (*c.brokers["a"].asked, *c.ns.asked):
                assert not {"Signature", "AccessKey", "nsd", "ns"} & set(request.ext or {})

    simulate(work)


def test_a_namespace_v2_is_signed_as_well(simulate, cluster):
    async def work(world):
        options = {"world": world, "credentials": ACCOUNT, "namespace_v2": "N"}
        async with cluster(world, "a") as c, Client(c.namesrv, **options) as client, client.producer("P") as producer:
            await producer.send(Message("T", b"hello"))
            for request in (*c.brokers["a"].asked, *c.ns.asked):
                assert (request.ext["nsd"], request.ext["ns"]) == ("true", "N")
                assert checked(request, ACCOUNT)

    simulate(work)


@pytest.mark.parametrize("code", [SEND, RequestCode.SEND_BATCH_MESSAGE, RequestCode.LOCK_BATCH_MQ])
def test_the_vip_channel_is_two_ports_below(code):
    hooks = RpcHooks(vip_channel=True)
    assert hooks.before_request("10.0.0.1:10911", command.request(code)) == "10.0.0.1:10909"
    assert hooks.before_request("[::1]:10911", command.request(code)) == "[::1]:10909"
    assert hooks.before_request("broker:2", command.request(code)) == "broker:2"


@pytest.mark.parametrize("code", [PULL, BEAT, RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.END_TRANSACTION])
def test_what_the_java_client_sends_elsewhere_stays(code):
    assert RpcHooks(vip_channel=True).before_request("10.0.0.1:10911", command.request(code)) == "10.0.0.1:10911"


def test_sends_and_pulls_take_different_ports(simulate, cluster, peer):
    async def work(world):
        async with cluster(world, "a") as c:
            vip = await peer(world, "a", 10909).start()
            vip.answers[SEND] = c.brokers["a"].answers[SEND]
            async with Client(c.namesrv, world=world, vip_channel=True) as client, client.producer("P") as producer:
                await producer.send(Message("T", b"hello"))
                await producer.send_oneway(Message("T", b"hello"))
                await world.clock.sleep(1)
            assert len(vip.of(SEND)) == 2
            assert not c.brokers["a"].of(SEND)
            assert c.brokers["a"].of(BEAT)
            await vip.stop()

    simulate(work)


# --- turned away ------------------------------------------------------------------------------------------------------

ACL = "org.apache.rocketmq.acl.common.AclException: "
WRONG_KEY = ACL + "Check signature failed for accessKey=ak, org.apache.rocketmq.acl.plain.P.validate(P.java:683)"


@pytest.mark.parametrize(
    ("code", "remark", "said"),
    [
        (1, WRONG_KEY, "refused this client: Check signature failed for accessKey=ak; check its credentials"),
        (
            1,
            ACL + "No accessKey is configured, org.apache.rocketmq.acl.plain.P.parse(P.java:1)",
            "; it has no account: set",
        ),
        (16, "check signature failed.", "refused this client: check signature failed; check its credentials"),
        (16, "User:nobody is not found.", "User:nobody is not found; "),
        (16, "username cannot be null.", "username cannot be null; "),
        (16, "User:ak has no permission to access Topic:T from 127.0.0.1", "has no permission to access Topic:T"),
    ],
)
def test_access_control_says_what_to_check(code, remark, said):
    error = refused(command.Command(code, remark=remark), "b:10911")
    assert isinstance(error, NoPermission) and isinstance(error, BrokerRefused)
    assert error.response_code == 16
    assert str(error).startswith("b:10911 controls access and ")
    assert said in str(error)


ALICE = "User:alice has no permission to access"


@pytest.mark.parametrize(
    ("request_code", "remark", "said"),
    [
        (310, f"{ALICE} Topic:T from 127.0.0.1, no matched policies.", "gantrymq acl grant alice -r Topic:T -a Pub"),
        (11, f"{ALICE} Topic:T from ::1, no matched policies.", "gantrymq acl grant alice -r Topic:T -a Sub"),
        (10, f"{ALICE} Group:g from 10.0.0.1, no matched policies.", "gantrymq acl grant alice -r Group:g -a Sub"),
        (30, f"{ALICE} Topic:%DLQ%g from 10.0.0.1, no matched.", "gantrymq acl grant alice -r Topic:%DLQ%g -a Get"),
        (17, f"{ALICE} Topic:a.b: Create is not allowed", "gantrymq acl grant alice -r Topic:a.b -a Create"),
        (0, f"{ALICE} Topic:T: Pub or Sub is not allowed", "gantrymq acl grant alice -r Topic:T -a Pub"),
        (25, f"{ALICE} Cluster:C from 127.0.0.1, no matched.", "gantrymq acl grant alice -r Cluster:C -a Update"),
        (26, f"{ALICE} Cluster:C: check signature failed.", "and what they are allowed"),
        (10, "Client:1.2.3.4:5 has no permission to access Cluster:C: username cannot be null.", "of the client"),
        (26, f"{ALICE} Cluster:C: User:alice is disabled.", "and what they are allowed"),
        (11, f"{ALICE} Topic:T from ::1, the decision is deny.", "gantrymq access explain alice Sub Topic:T"),
        (10, f"{ALICE} Topic:T. To allow it: gantrymq acl grant alice", ". To allow it: gantrymq acl grant alice"),
        (0, f"{ALICE} Topic:T from 127.0.0.1, no matched.", "see what it may do with: gantrymq acl get alice"),
        (
            *(10, "User:a;b has no permission to access Topic:%RETRY%c|d from ::1, no matched."),
            "gantrymq acl grant 'a;b' -r 'Topic:%RETRY%c|d' -a Pub",
        ),
    ],
)
def test_a_refusal_ends_with_the_command_that_helps(request_code, remark, said):
    assert str(refused(command.Command(16, remark=remark), "b:10911", request_code)).endswith(said)


@pytest.mark.parametrize(
    "remark",
    [
        *("the broker[a] sending message is forbidden", "", "no permission of topic T"),
        *("The user is existed", "The subject of User:shop is not exist.", "The acl is not exist."),
    ],
)
def test_another_refusal_is_none_of_the_account(remark):
    assert type(refused(command.Command(16, remark=remark), "b:1")) is BrokerRefused
    assert type(refused(command.Command(1, remark=remark), "b:1")) is BrokerRefused


def test_a_send_that_is_turned_away_is_not_tried_again(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "ab") as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P") as producer,
        ):
            for broker in c.brokers.values():
                broker.answers[SEND] = command.Command(1, remark=WRONG_KEY)
            for send in (producer.send, producer.send_async):
                with pytest.raises(NoPermission, match="check its credentials"):
                    await send(Message("T", b"x"))
            assert len(c.sends()) == 2

    simulate(work)


def alone(world, broker, committed):
    """Return options of a client that is the only member of its groups; *committed*: the answer about its offsets."""
    broker.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = command.Command(
        0, body=b'{"consumerIdList":["10.0.0.1@one"]}'
    )
    broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = committed
    broker.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = command.Command(0)
    return {"world": world, "client_ip": "10.0.0.1", "instance_name": "one"}


@pytest.mark.parametrize("wanted", ["loop", "handler", "assigned", "polled", "assigned to poll"])
@pytest.mark.parametrize("where", [RequestCode.GET_CONSUMER_LIST_BY_GROUP, RequestCode.QUERY_CONSUMER_OFFSET, PULL])
def test_a_consumer_that_was_never_let_in_ends(simulate, cluster, where, wanted):
    async def work(world):
        async with cluster(world, "a", topics=("T", "%RETRY%G")) as c:
            broker = c.brokers["a"]
            options = alone(world, broker, command.Command(0, ext={"offset": "0"}))
            broker.answers[where] = command.Command(1, remark=WRONG_KEY)
            async with Client(c.namesrv, **options) as client:
                consumer = (client.lite_pull if "poll" in wanted else client.consumer)("G", "T", consume_from="first")
                with pytest.raises(NoPermission, match="check its credentials"):
                    if wanted == "polled":
                        await consumer.poll(60)
                    elif wanted.startswith("assigned"):
                        await consumer.wait_assigned(30)
                        await anext(aiter(consumer))  # queues may be assigned before the first pull is refused
                    elif wanted == "loop":
                        await anext(aiter(consumer))
                    else:
                        await consumer.run(print)
                asked = len(broker.of(where))
                await world.clock.sleep(120)
                assert len(broker.of(where)) <= asked + 8  # pulls in flight for other queues

    simulate(work)


@pytest.mark.parametrize("start", ["last", 1_767_225_600_000])
def test_a_consumer_that_may_not_search_its_start_offset_ends(simulate, cluster, start):
    """The queues of the retry topic, which need no search, may have been taken before."""
    asked = []

    def busy_first(request):
        asked.append(request)
        denied = len(asked) > 8
        return command.Command(16 if denied else 2, remark="User:ak has no permission to access Topic:T")

    async def work(world):
        async with cluster(world, "a", topics=("T", "%RETRY%G")) as c:
            broker = c.brokers["a"]
            options = alone(world, broker, command.Command(22, remark="not found"))
            broker.answers[PULL] = None
            for code in (RequestCode.GET_MAX_OFFSET, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP):
                broker.answers[code] = busy_first
            async with Client(c.namesrv, **options) as client:
                consumer = client.consumer("G", "T", consume_from=start)
                with pytest.raises(NoPermission, match="refused this client"):
                    await consumer.wait_assigned(30)
                with pytest.raises(NoPermission, match="refused this client"):
                    await anext(aiter(consumer))

    simulate(work)


def test_a_consumer_that_was_let_in_asks_again(simulate, cluster):
    async def work(world):
        async with cluster(world, "a", topics=("T", "%RETRY%G")) as c:
            broker = c.brokers["a"]
            options = alone(world, broker, command.Command(0, ext={"offset": "0"}))
            members = broker.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP]
            broker.answers[PULL] = None
            async with Client(c.namesrv, **options) as client:
                consumer = client.consumer("G", "T", consume_from="first")
                assert len(await consumer.wait_assigned(30)) == 8
                broker.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = command.Command(1, remark=WRONG_KEY)
                await world.clock.sleep(60)
                asked = len(broker.of(RequestCode.GET_CONSUMER_LIST_BY_GROUP))
                broker.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = members
                await world.clock.sleep(60)
                assert len(broker.of(RequestCode.GET_CONSUMER_LIST_BY_GROUP)) > asked
                assert len(await consumer.wait_assigned(30)) == 8

    simulate(work)
