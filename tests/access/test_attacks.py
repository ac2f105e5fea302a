"""What attackers try: requests changed after signing, wrong ones beside right ones, and rights that were taken away."""

import asyncio
import gc
import json
import tracemalloc

import pytest
from access_rig import ROOT, SECRETS, SEND, send, with_topic

from gantrymq.client.calls.credentials import Credentials
from gantrymq.errors import ConnectionLost
from gantrymq.model.ids import parse_offset_id
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import SERIALIZE_BINARY
from gantrymq.remoting.command import request, response_to
from gantrymq.remoting.signatures import Signer

LATER = 600


def signed(user, code=10, fields=SEND, body=b"x", secret=None):
    command = request(code, dict(fields), body)
    Signer(Credentials(user, secret or SECRETS[user])).sign(command)
    return command


@pytest.fixture(params=["stateless", "stateful"])
def strategy(request):
    return {"authenticationStrategy": request.param, "authorizationStrategy": request.param}


async def with_writer(rig):
    await with_topic(rig)
    await rig.grant("alice", "Topic:T", "Pub,Sub,Get")
    await rig.grant("alice", "Group:g", "Sub,Get,Update")


CHANGES = {
    "a field is changed": lambda each: each.ext.update(queueId="1"),
    "a field is added": lambda each: each.ext.update(bname="broker-a"),
    "an empty field gets a value": lambda each: each.ext.update(properties="KEYS\x01k\x02"),
    "a field is removed": lambda each: each.ext.pop("bornTimestamp"),
    "the user is another one": lambda each: each.ext.update(AccessKey=ROOT),
    "the user is in another Unicode form": lambda each: each.ext.update(AccessKey="alic\u0065\u0301"),
    "the user has a blank": lambda each: each.ext.update(AccessKey="alice "),
    "a token is added": lambda each: each.ext.update(SecurityToken="t"),
    "the body is changed": lambda each: setattr(each, "body", b"y"),
    "the body is longer": lambda each: setattr(each, "body", b"xx"),
    "the body is gone": lambda each: setattr(each, "body", None),
    "the signature has another letter case": lambda each: each.ext.update(Signature=each.ext["Signature"].swapcase()),
    "the signature has no padding": lambda each: each.ext.update(Signature=each.ext["Signature"].rstrip("=")),
    "the signature has a line end": lambda each: each.ext.update(Signature=each.ext["Signature"] + "\n"),
    "the signature is empty": lambda each: each.ext.update(Signature=""),
    "the signature is missing": lambda each: each.ext.pop("Signature"),
    "the signature has another name": lambda each: each.ext.update(signature=each.ext.pop("Signature")),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("compact", [False, True])
def test_a_request_that_is_changed_after_signing_is_refused(run, change, compact):
    """On a connection that has sent a right one, in both encodings of headers."""

    async def main(rig):
        await with_writer(rig)
        assert (await rig.send(signed("alice"), "")).code == 0
        command = signed("alice")
        CHANGES[change](command)
        if compact:
            command.serialize = SERIALIZE_BINARY
        answer = await rig.send(command, "")
        assert answer.code == 16
        assert "check signature failed." in answer.remark or "is not found." in answer.remark

    run(main)


def test_a_repeated_request_is_served_like_by_rocketmq_until_its_user_may_no_more(run, strategy):
    """The protocol has neither a number nor a time in what is signed: only TLS protects from this."""

    async def main(rig):
        await with_writer(rig)
        captured = signed("alice").ext
        for connection in ("one", "another"):
            assert (await rig.send(request(10, dict(captured), b"x"), "", connection=connection)).code == 0
        await rig.grant("alice", "Topic:T", "Pub", "Deny")
        assert (await rig.send(request(10, dict(captured), b"x"), "", connection="one")).code == 16
        await rig.grant("alice", "Topic:T", "Pub")
        await rig.ask(3002, {"username": "alice"}, {"password": "another-secret"})
        assert (await rig.send(request(10, dict(captured), b"x"), "", connection="third")).code == 16

    run(main, **strategy)


def test_wrong_requests_in_the_same_write_as_right_ones_are_refused(run):
    """Sends of one read are stored together; each has its own signature."""

    async def main(rig):
        await with_writer(rig)
        client = RemotingClient(rig.world)
        connection = await client.connect(rig.cluster.broker_address)
        secrets = [None, "wrong-secret", None, None, "wrong-secret"]
        commands = [signed("alice", secret=each) for each in secrets * 4]
        answers = await asyncio.gather(*(connection.call(each, LATER) for each in commands))
        assert [each.code for each in answers] == [0, 16, 0, 0, 16] * 4
        end = await rig.ask(30, {"topic": "T", "queueId": "0"})
        assert end.ext["offset"] == "12"
        await client.close()

    run(main)


@pytest.mark.parametrize("first", ["alice", ROOT])
def test_of_two_access_keys_in_one_header_the_same_one_is_signed_and_used(run, first):
    async def main(rig):
        await with_writer(rig)
        second = ROOT if first == "alice" else "alice"
        command = signed(second, 26, {}, None)
        fields = f'"AccessKey":"{first}","AccessKey":"{second}","Signature":"{command.ext["Signature"]}"'
        header = f'{{"code":26,"language":"JAVA","version":453,"opaque":7,"flag":0,"extFields":{{{fields}}}}}'.encode()
        frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
        reply = await raw(rig, frame)
        assert (b'"code":0' if second == ROOT else b'"code":16') in reply
        assert b"check signature failed" not in reply

    run(main)


async def raw(rig, frame):
    """Send bytes; return what the broker answers."""
    received = asyncio.get_running_loop().create_future()

    class Peer(asyncio.Protocol):
        def data_received(self, data):
            if not received.done():
                received.set_result(data)

        def connection_lost(self, error):
            if not received.done():
                received.set_result(b"")

    host, port = rig.cluster.broker_address.rsplit(":", 1)
    transport, _ = await rig.world.network.connect(host, int(port), Peer)
    transport.write(frame)
    try:
        return await received
    finally:
        transport.close()


def test_failed_log_ins_with_long_names_take_no_memory(run):
    async def main(rig):
        await with_topic(rig)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for index in range(40):
                fields = {"AccessKey": f"{index}" + "x" * 500_000, "Signature": "x" * 28}
                assert (await rig.send(request(26, fields), "", connection=f"c{index % 4}")).code == 16
            gc.collect()  # exceptions with their frames are cycles
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert after - before < 5_000_000

    run(main)


TAKEN_AWAY = {
    "deleted": (3003, {"username": "alice"}, None),
    "disabled": (3002, {"username": "alice"}, {"userStatus": "disable"}),
    "without policies": (3008, {"subject": "User:alice"}, None),
}


class Waiting:
    """A connection of alice that records what the broker pushes."""

    def __init__(self, rig, secret=None):
        self.rig, self.pushed = rig, []
        self.client = RemotingClient(rig.world, handler=self)

    def requests(self, connection, commands):
        for each in commands:
            self.pushed.append(each)
            if not each.is_oneway:
                connection.reply(each, response_to(each))

    async def call(self, code, fields, body=None):
        data = None if body is None else json.dumps(body).encode()
        command = signed("alice", code, fields, data)
        return await (await self.client.connect(self.rig.cluster.broker_address)).call(command, LATER)


HELD = {
    "pull": (
        11,
        {
            "consumerGroup": "g",
            "topic": "T",
            "queueId": "0",
            "queueOffset": "0",
            "maxMsgNums": "8",
            "sysFlag": "6",
            "commitOffset": "0",
            "suspendTimeoutMillis": "20000",
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
        },
    ),
    "pop": (
        200050,
        {
            "consumerGroup": "g",
            "topic": "T",
            "queueId": "0",
            "maxMsgNums": "8",
            "invisibleTime": "60000",
            "pollTime": "20000",
            "bornTime": "1700000000000",
            "initMode": "0",
            "exp": "*",
            "expType": "TAG",
            "order": "false",
        },
    ),
}


@pytest.mark.parametrize("how", TAKEN_AWAY)
@pytest.mark.parametrize("kind", HELD)
def test_what_a_user_waits_for_ends_within_a_second(run, kind, how, strategy):
    """The message that another user stores then is not delivered."""
    if kind == "pop":
        pytest.importorskip("gantrymq_pop")

    async def main(rig):
        await with_writer(rig)
        await rig.ask(200, {}, {"groupName": "g", "consumeEnable": True})
        alice, (code, fields) = Waiting(rig), HELD[kind]
        if kind == "pop":
            fields = {**fields, "bornTime": str(rig.world.clock.now_ms())}
        waiting = asyncio.ensure_future(alice.call(code, fields))
        await rig.world.clock.sleep(0.5)
        assert not waiting.done()
        assert (await rig.ask(*TAKEN_AWAY[how])).code == 0
        await rig.world.clock.sleep(1)
        assert waiting.done()
        await rig.send(request(10, dict(SEND), b"secret"), ROOT)
        if isinstance(waiting.exception(), ConnectionLost):
            assert how != "without policies"
        else:
            answer = waiting.result()
            assert (answer.code, bytes(answer.payload or b"")) == (16, b"")
        await alice.client.close()

    run(main, **strategy)


@pytest.mark.parametrize("how", TAKEN_AWAY)
def test_no_half_message_is_checked_with_a_user_who_may_not_send_it_any_more(run, how):
    pytest.importorskip("gantrymq_transaction")

    async def main(rig):
        await with_writer(rig)
        alice = Waiting(rig)
        beat = {"clientID": "a1", "producerDataSet": [{"groupName": "PG"}], "consumerDataSet": []}
        assert (await alice.call(34, {}, beat)).code == 0
        born = str(rig.world.clock.now_ms())
        half = {**SEND, "bornTimestamp": born, "sysFlag": "4"}
        half |= {"properties": "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01AAAA0001\x02"}
        stored = await rig.send(request(10, half, b"half of a secret"), "alice")
        assert stored.code == 0
        assert parse_offset_id(stored.ext["msgId"])
        await rig.world.clock.sleep(60)
        assert any(b"half of a secret" in bytes(each.body or b"") for each in alice.pushed)
        assert (await rig.ask(*TAKEN_AWAY[how])).code == 0
        await rig.world.clock.sleep(1)
        alice.pushed.clear()
        await rig.world.clock.sleep(120)
        assert not any(each.body for each in alice.pushed)
        await alice.client.close()

    run(main, transactionCheckInterval=3000)


@pytest.mark.parametrize("how", TAKEN_AWAY)
def test_a_member_of_a_group_leaves_it_and_its_locks(run, how, strategy):
    async def main(rig):
        await with_writer(rig)
        alice = Waiting(rig)
        subscription = {"topic": "T", "subString": "*", "subVersion": 1, "expressionType": "TAG"}
        consumer = {"groupName": "g", "subscriptionDataSet": [subscription]}
        assert (await alice.call(34, {}, {"clientID": "a1", "consumerDataSet": [consumer]})).code == 0
        name = rig.cluster.broker.registration.broker_name
        locks = {"consumerGroup": "g", "clientId": "a1", "mqSet": [{"topic": "T", "brokerName": name, "queueId": 0}]}
        assert json.loads((await alice.call(41, {}, locks)).body)["lockOKMQSet"]
        assert (await rig.ask(*TAKEN_AWAY[how])).code == 0
        await rig.world.clock.sleep(1)
        assert rig.cluster.broker.clients.consumers("g") == ()
        mine = {**locks, "clientId": "r1"}
        assert json.loads((await rig.ask(41, {}, mine)).body)["lockOKMQSet"]
        await alice.client.close()

    run(main, **strategy)


def test_many_failed_log_ins_do_not_hold_up_other_users(run):
    """200 connections, each with 50 wrong requests in one write, from the address of the user who sends."""

    async def main(rig):
        await with_writer(rig)
        clients = [RemotingClient(rig.world) for _ in range(200)]
        attack = []
        for client in clients:
            connection = await client.connect(rig.cluster.broker_address)
            attack += [asyncio.ensure_future(connection.call(signed("alice", secret="no"), LATER)) for _ in range(50)]
        clock, took = rig.world.clock, []
        for _ in range(100):
            started = clock.monotonic()
            assert (await send(rig)).code == 0
            took.append(clock.monotonic() - started)
            await clock.sleep(0.01)
        assert max(took) < 0.05
        assert not all(each.done() for each in attack)
        for client in clients:
            await client.close()
        await asyncio.wait(attack)

    run(main)


def test_a_whitelisted_request_opens_nothing_for_other_requests_users_or_connections(run, strategy):
    async def main(rig):
        await with_topic(rig)
        await rig.create("bob")
        for user in ("alice", "bob", "nosuch", ""):
            assert (await rig.ask(28, user=user, connection="one")).code == 0
        assert (await rig.ask(28, user=ROOT, secret="wrong-secret", connection="one")).code == 0
        for user in ("alice", "bob", "nosuch", ""):
            for code, fields in ((26, {}), (25, {}), (10, SEND), (3005, {}), (3004, {"username": ROOT})):
                for connection in ("one", "another"):
                    command = request(code, dict(fields), b"{}")
                    assert (await rig.send(command, user, connection=connection)).code == 16, code
        assert (await rig.ask(26, user=ROOT, secret="wrong-secret", connection="one")).code == 16
        await rig.ask(3002, {"username": "alice"}, {"userStatus": "disable"})
        assert (await rig.ask(10, SEND, user="alice", connection="another")).code == 16

    run(main, authenticationWhitelist="28", authorizationWhitelist="28", **strategy)
