"""Ways around access control that once worked, with raw requests: what is asked for one thing must not give another."""

import asyncio
import json
from pathlib import Path

import pytest
import token_authorizer
from broker_desk import pull_ext, topic_ext

from gantrymq.client import Credentials
from gantrymq.client.calls.credentials import Signer
from gantrymq.model.ids import parse_offset_id
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request, response_to
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import simulate

SECRET = b"top secret"
OWN = ["Pub Topic:Mine", "Sub Topic:Mine", "Get Topic:Mine", "Sub Group:mine", "Get Group:mine", "Update Group:mine"]
USERS = {
    "ops": {"secret": "s1", "allow": ["* Topic:*", "* Group:*", "* Cluster:*"]},
    "shop": {"secret": "s2", "allow": ["Pub Topic:Secret"]},
    "reader": {"secret": "s3", "allow": ["Sub Topic:Secret", "Sub Group:readers"]},
    "mallory": {"secret": "s4", "allow": OWN},
    "eu": {"secret": "s5", "allow": ["Sub Topic:eu", "Sub Group:billing"]},
    "nothing": {"secret": "s6"},
}


class Raw:
    """A client of one user that signs any request, and keeps what the broker pushes."""

    def __init__(self, cluster, user):
        self.pushed, self.clock = [], cluster.world.clock
        self.client = RemotingClient(cluster.world, handler=self)
        self.signer = Signer(Credentials(user, USERS[user]["secret"]))
        self.address = cluster.broker_address

    def requests(self, connection, commands):
        for each in commands:
            self.pushed.append(each)
            if not each.is_oneway:
                connection.reply(each, response_to(each))

    async def ask(self, code, ext=None, body=None, timeout_s=3.0, signer=None):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        command = request(code, dict(ext or {}), data)
        (signer or self.signer).sign(command)
        return await self.client.call(self.address, command, timeout_s)

    async def send(self, topic, body, properties="", group="PG", flags="0", code=310):
        values = (
            group,
            topic,
            "TBW102",
            "4",
            "0",
            flags,
            str(self.clock.now_ms()),
            "0",
            properties,
            "0",
            "false",
            "16",
        )
        return await self.ask(code, dict(zip("abcdefghijkl", values, strict=True)), body)

    def has(self, text):
        return any(text in bytes(each.body or b"") for each in self.pushed)


@pytest.fixture
def run():
    """``run(main)`` runs ``await main(cluster, client_of)`` with topics and groups."""

    def run(main, **more):
        settings = {"authorizer": "token_file", "tokenFile": "/tokens.json", "store": "memory", **more}

        async def with_clients(world):
            write(world, USERS)
            cluster = Cluster(world, Path("/gantrymq"), settings, [("token_authorizer", token_authorizer)])
            clients = []

            def client_of(user):
                clients.append(Raw(cluster, user))
                return clients[-1]

            try:
                await cluster.start()
                ops = client_of("ops")
                for topic in ("Secret", "Mine", "eu"):
                    assert (await ops.ask(17, topic_ext(topic, 1))).code == 0
                for group in ("mine", "readers", "billing", "billing_eu"):
                    assert (await ops.ask(200, {}, {"groupName": group, "consumeEnable": True})).code == 0
                await main(cluster, client_of)
            finally:
                for each in clients:
                    await each.client.close()
                await cluster.stop()
                await world.workers.close()

        simulate(1, with_clients)

    return run


def write(world, users):
    world.files.replace(Path("/tokens.json"), json.dumps({"users": users}).encode())


async def half(shop):
    """Store a half message; return what its end must name."""
    properties = "TRAN_MSG\x01true\x02PGROUP\x01shopPG\x02UNIQ_KEY\x01AAAA0001\x02"
    stored = await shop.send("Secret", SECRET, properties, "shopPG", "4")
    assert stored.code == 0
    return {
        "producerGroup": "shopPG",
        "tranStateTableOffset": stored.ext["queueOffset"],
        "commitLogOffset": str(parse_offset_id(stored.ext["msgId"])[2]),
        "commitOrRollback": "8",
        "fromTransactionCheck": "false",
        "msgId": "AAAA0001",
    }


def test_half_messages_are_not_checked_with_strangers(run):
    async def main(cluster, client_of):
        shop, stranger = client_of("shop"), client_of("nothing")
        await half(shop)
        await shop.client.close()
        beat = {"clientID": "evil", "producerDataSet": [{"groupName": "shopPG"}], "consumerDataSet": []}
        assert (await stranger.ask(34, {}, beat)).code == 0
        await cluster.world.clock.sleep(60)
        assert stranger.pushed == []
        owner = client_of("shop")
        await owner.ask(34, {}, {**beat, "clientID": "good"})
        await cluster.world.clock.sleep(60)
        assert owner.has(SECRET)

    run(main, transactionCheckInterval=3000)


@pytest.mark.parametrize("named", [{}, {"topic": "Mine"}, {"topic": ""}])
def test_transactions_of_others_are_not_decided(run, named):
    async def main(cluster, client_of):
        end = await half(client_of("shop"))
        for user in ("mallory", "nothing"):
            for decision in ("8", "12"):
                answer = await client_of(user).ask(37, {**end, **named, "commitOrRollback": decision})
                assert answer.code == 16
        assert (await client_of("shop").ask(37, {**end, "topic": "Secret"})).code == 0

    run(main)


def test_messages_of_others_are_not_sent_back(run):
    async def main(cluster, client_of):
        stored = await client_of("shop").send("Secret", SECRET)
        mallory, place = client_of("mallory"), str(parse_offset_id(stored.ext["msgId"])[2])
        for level in ("1", "-1"):
            assert (await mallory.ask(36, {"offset": place, "group": "mine", "delayLevel": level})).code == 16
        own = await mallory.send("Mine", b"own")
        place = str(parse_offset_id(own.ext["msgId"])[2])
        assert (await mallory.ask(36, {"offset": place, "group": "mine", "delayLevel": "1"})).code == 0

    run(main)


def test_each_request_of_a_read_is_served_for_the_user_who_signed_it(run):
    async def main(cluster, client_of):
        stored = await client_of("shop").send("Secret", SECRET)
        back = {"offset": str(parse_offset_id(stored.ext["msgId"])[2]), "group": "mine", "delayLevel": "1"}
        mallory, ops = client_of("mallory"), client_of("ops").signer
        assert (await mallory.ask(26)).code == 16
        assert (await mallory.ask(26, signer=ops)).code == 0
        first, second = await asyncio.gather(mallory.ask(36, back), mallory.ask(26, signer=ops))
        assert (first.code, second.code) == (16, 0)
        first, second = await asyncio.gather(mallory.ask(36, back, signer=ops), mallory.ask(26))
        assert (first.code, second.code) == (0, 16)

    run(main)


def test_replies_and_recalls_need_the_right_to_send(run):
    async def main(cluster, client_of):
        recall = {"producerGroup": "PG", "topic": "Secret", "recallHandle": "none"}
        for user in ("mallory", "nothing"):
            client = client_of(user)
            for refused in (
                await client.ask(370, recall),
                await client.send("Secret", b"reply", code=325),
                await client.send("Unheard", b"reply", code=325),
            ):
                assert (refused.code, f"{user} has no permission to access" in refused.remark) == (16, True)
        assert cluster.broker.topics.get("Unheard") is None
        answer = await client_of("shop").ask(370, recall)
        assert (answer.code, "recall handle is invalid" in answer.remark) == (604, True)
        answer = await client_of("shop").send("Secret", b"reply", code=325)
        assert (answer.code, "REPLY_TO_CLIENT" in answer.remark) == (1, True)

    pytest.importorskip("gantrymq_request_reply")
    run(main, timerWheelEnable=True, recallMessageEnable=True)


@pytest.mark.parametrize("named", [{}, {"topic": "Mine"}])
def test_messages_of_others_are_not_consumed_directly(run, named):
    async def main(cluster, client_of):
        stored = await client_of("shop").send("Secret", SECRET)
        mallory = client_of("mallory")
        subscription = {"topic": "Mine", "subString": "*", "subVersion": 1, "expressionType": "TAG"}
        consumer = {"groupName": "mine", "subscriptionDataSet": [subscription]}
        beat = {"clientID": "m1", "producerDataSet": [], "consumerDataSet": [consumer]}
        assert (await mallory.ask(34, {}, beat)).code == 0
        asked = {"consumerGroup": "mine", "clientId": "m1", "msgId": stored.ext["msgId"], **named}
        assert (await mallory.ask(309, asked)).code == 16
        assert not mallory.has(SECRET)

    pytest.importorskip("gantrymq_diagnosis")
    run(main)


def test_groups_are_not_changed_behind_a_list(run):
    async def main(cluster, client_of):
        change = {"groupName": "readers", "consumeEnable": False, "groupConfigList": [{"groupName": "mine"}]}
        assert (await client_of("mallory").ask(200, {}, change)).code == 16
        change = {"groupName": "mine", "groupConfigList": [{"groupName": "readers", "consumeEnable": False}]}
        assert (await client_of("mallory").ask(225, {}, change)).code == 16
        assert cluster.broker.groups.get("readers").consume_enable

    run(main)


def test_a_retry_topic_may_belong_to_a_group_with_a_longer_name(run):
    async def main(cluster, client_of):
        pull = pull_ext("%RETRY%billing_eu", consumerGroup="billing")
        assert (await client_of("eu").ask(11, pull)).code == 16

    run(main)


@pytest.mark.parametrize("kind", ["pull", "pop", "notification"])
@pytest.mark.parametrize("left", [{**USERS, "reader": {"secret": "s3"}}, {"shop": USERS["shop"]}])
def test_what_waits_ends_with_the_permission(run, kind, left):
    """With the words of access control, also if the authorizer gives a reason of its own."""

    async def main(cluster, client_of):
        reader = client_of("reader")
        names = {"consumerGroup": "readers", "topic": "Secret"}
        now = {"bornTime": str(cluster.world.clock.now_ms()), "queueId": "0", "pollTime": "20000"}
        if kind == "pull":
            asked = reader.ask(11, pull_ext(**names, wait_s=20), timeout_s=60)
        elif kind == "pop":
            pop = {"maxMsgNums": "8", "invisibleTime": "30000", "initMode": "1"}
            filtering = {"exp": "*", "expType": "TAG", "order": "false"}
            asked = reader.ask(200050, {**pop, **filtering, **now, **names}, timeout_s=60)
        else:
            asked = reader.ask(200054, {**now, **names}, timeout_s=60)
        waiting = asyncio.ensure_future(asked)
        await cluster.world.clock.sleep(1)
        assert not waiting.done()
        write(cluster.world, left)
        await cluster.world.clock.sleep(3)
        await client_of("shop").send("Secret", SECRET)
        answer = await waiting
        assert (answer.code, SECRET in bytes(answer.body or b"")) == (16, False)
        assert "User:reader has no permission to access" in answer.remark

    run(main)


def test_a_client_id_stays_with_its_user(run):
    async def main(cluster, client_of):
        victim, stranger = client_of("shop"), client_of("nothing")
        beat = {"clientID": "victim@1", "producerDataSet": [{"groupName": "PG"}], "consumerDataSet": []}
        assert (await victim.ask(34, {}, beat)).code == 0
        assert (await stranger.ask(34, {}, beat)).code == 16
        again = client_of("shop")
        assert (await again.ask(34, {}, beat)).code == 0  # a second connection of the same user

    run(main)


def test_offsets_are_cloned_by_those_who_may_read_them(run):
    async def main(cluster, client_of):
        mallory = client_of("mallory")
        for topic in ("", "Mine", "Secret"):
            asked = {"srcGroup": "readers", "destGroup": "mine", "topic": topic, "offline": "true"}
            assert (await mallory.ask(314, asked)).code == 16
        assert (await client_of("ops").ask(314, asked)).code == 0

    run(main)
