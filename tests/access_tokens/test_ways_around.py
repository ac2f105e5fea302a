"""Ways around access control that once worked, with raw requests: what is asked for one thing must not give another."""

import asyncio
import json

import pytest
import token_authorizer
from broker_desk import pull_ext
from raw_clients import SECRET, USERS, half, write

from gantrymq.client import Credentials
from gantrymq.errors import ConnectionLost
from gantrymq.model.ids import parse_offset_id
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.signatures import Signer


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
def test_requests_that_wait_end_with_the_permission(run, kind, left):
    """Within a second, without a message: with the refusal, or the connection if the user is deleted."""

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
        await cluster.world.clock.sleep(token_authorizer.PERIOD_S + 1)
        assert waiting.done()
        if "reader" not in left:
            with pytest.raises(ConnectionLost):
                await waiting
            return
        answer = await waiting
        assert answer.code == 16
        assert "User:reader has no permission to access" in answer.remark

    run(main)


@pytest.mark.parametrize("left", [{**USERS, "reader": {"secret": "s3"}}, {"shop": USERS["shop"], "ops": USERS["ops"]}])
def test_a_consumer_without_permission_leaves_its_group(run, left):
    async def main(cluster, client_of):
        reader, broker = client_of("reader"), cluster.broker
        subscription = {"topic": "Secret", "subString": "*", "subVersion": 1, "expressionType": "TAG"}
        consumer = {"groupName": "readers", "subscriptionDataSet": [subscription]}
        beat = {"clientID": "r1", "producerDataSet": [{"groupName": "PG"}], "consumerDataSet": [consumer]}
        assert (await reader.ask(34, {}, beat)).code == 0
        queue = {"topic": "Secret", "brokerName": broker.registration.broker_name, "queueId": 0}
        locks = {"consumerGroup": "readers", "clientId": "r1", "mqSet": [queue]}
        assert json.loads((await reader.ask(41, {}, locks)).body)["lockOKMQSet"]
        held = broker.locks.holder
        assert held("readers", MessageQueue("Secret", broker.registration.broker_name, 0)) == "r1"
        write(cluster.world, left)
        await cluster.world.clock.sleep(token_authorizer.PERIOD_S + 1)
        assert broker.clients.consumers("readers") == ()
        assert held("readers", MessageQueue("Secret", broker.registration.broker_name, 0)) is None
        assert len(broker.clients.producers("PG")) == ("reader" in left)

    run(main)


def test_a_listener_may_serve_requests_without_an_account(run):
    async def main(cluster, client_of):
        nobody, internal, mallory = client_of(None), client_of(None), client_of("mallory")
        wrong = client_of("mallory")
        internal.address = mallory.address = wrong.address = "127.0.0.1:10931"
        assert (await nobody.send("Secret", b"outside")).code == 16
        assert (await internal.send("Secret", b"inside")).code == 0
        assert (await internal.ask(26)).code == 0
        assert (await mallory.send("Secret", b"as a user")).code == 16  # an account keeps its permissions
        wrong.signer = Signer(Credentials("mallory", "wrong"))
        assert (await wrong.send("Mine", b"wrong signature")).code == 16

    run(main, listeners="internal=remoting://127.0.0.1:10931", listenerAccess="internal=optional")


def test_a_heartbeat_that_is_refused_names_each_group_and_topic(run):
    async def main(cluster, client_of):
        topics = [{"topic": each, "subString": "*", "subVersion": 1} for each in ("Secret", "Mine", "eu")]
        consumers = [{"groupName": each, "subscriptionDataSet": topics} for each in ("mine", "readers")]
        beat = {"clientID": "m1", "producerDataSet": [], "consumerDataSet": consumers}
        answer = await client_of("mallory").ask(34, {}, beat)
        assert answer.code == 16
        assert "to access Topic:Secret, Topic:eu, Group:readers:" in answer.remark
        assert cluster.broker.clients.consumers("mine") == ()  # no part of a refused heartbeat counts

    run(main)


def test_two_users_may_have_one_client_id_and_get_no_replies_of_each_other(run, caplog):
    """Older clients in containers all have the client id 172.17.0.2@1."""

    async def main(cluster, client_of):
        victim, stranger = client_of("shop"), client_of("nothing")
        beat = {"clientID": "172.17.0.2@1", "producerDataSet": [{"groupName": "PG"}], "consumerDataSet": []}
        again = client_of("shop")  # a second connection of the same user
        for client in (victim, again, stranger, stranger):
            assert (await client.ask(34, {}, beat)).code == 0
        answer = await victim.send("Secret", SECRET, "REPLY_TO_CLIENT\x01172.17.0.2@1\x02", code=325)
        assert (answer.code, "users shop and nothing have the client id 172.17.0.2@1" in answer.remark) == (1, True)
        assert not stranger.has(SECRET)
        await stranger.client.close()
        await cluster.world.clock.sleep(1)
        answer = await victim.send("Secret", SECRET, "REPLY_TO_CLIENT\x01172.17.0.2@1\x02", code=325)
        assert (answer.code, again.has(SECRET)) == (0, True)

    pytest.importorskip("gantrymq_request_reply")
    run(main)
    assert caplog.text.count("users shop and nothing have the client id") == 2  # once, and the refused reply


def test_locks_belong_to_a_client_id_and_its_user(run):
    async def main(cluster, client_of):
        queue = {"topic": "Secret", "brokerName": cluster.broker.registration.broker_name, "queueId": 0}
        locks = {"consumerGroup": "readers", "clientId": "172.17.0.2@1", "mqSet": [queue]}
        reader, ops = client_of("reader"), client_of("ops")

        async def locked(client):
            return len(json.loads((await client.ask(41, {}, locks)).body)["lockOKMQSet"])

        assert (await locked(reader), await locked(ops), await locked(reader)) == (1, 0, 1)
        assert (await ops.ask(42, {}, locks)).code == 0
        assert await locked(ops) == 0
        assert (await reader.ask(42, {}, locks)).code == 0
        assert await locked(ops) == 1

    run(main)


def test_a_decision_on_a_transaction_that_does_not_exist_is_refused_alike_for_all_users(run):
    async def main(cluster, client_of):
        end = await half(client_of("shop"))
        for user in ("shop", "nothing"):
            answer = await client_of(user).ask(37, {**end, "commitLogOffset": "7"})
            assert answer.code == 1

    run(main)


def test_offsets_are_cloned_by_those_who_may_read_them(run):
    async def main(cluster, client_of):
        mallory = client_of("mallory")
        for topic in ("", "Mine", "Secret"):
            asked = {"srcGroup": "readers", "destGroup": "mine", "topic": topic, "offline": "true"}
            assert (await mallory.ask(314, asked)).code == 16
        assert (await client_of("ops").ask(314, asked)).code == 0

    run(main)
