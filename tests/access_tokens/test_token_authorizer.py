"""A whole authorizer plugin against our client, and one broker that finds it by its entry point."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import token_authorizer
from token_authorizer import TokenAuthorizer, read_users

from gantrymq.client import Client, Credentials, Message, NoPermission
from gantrymq.config import Setting, Settings
from gantrymq.errors import PluginError
from gantrymq.interfaces import AuthorizerContext
from gantrymq.model.access import Action, Principal, Resource, ResourceType
from gantrymq.model.topic import TopicConfig
from gantrymq.world.real import real_world
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import simulate

RULES = {
    "users": {
        "orders": {"secret": "orders-secret", "allow": ["Pub Topic:Orders*"], "deny": ["Pub Topic:OrdersOld"]},
        "billing": {
            "secret": "billing-secret",
            "allow": ["Sub Topic:Orders*", "Get Topic:Orders*", "Sub Group:billing", "Get Group:billing"],
        },
        "ops": {"secret": "ops-secret", "allow": ["* Topic:*", "* Group:*", "* Cluster:*"]},
        "nothing": {"secret": "nothing-secret"},
    }
}


def run(main, rules=RULES):
    """Run *main* with a cluster whose broker has the plugin."""

    settings = {"authorizer": "token_file", "tokenFile": "/tokens.json", "store": "memory"}

    async def with_file(world):
        world.files.replace(Path("/tokens.json"), json.dumps(rules).encode())
        cluster = Cluster(world, Path("/gantrymq"), settings, [("token_authorizer", token_authorizer)])
        try:
            await cluster.start()
            return await main(cluster)
        finally:
            await cluster.stop()
            await world.workers.close()

    return simulate(1, with_file)


def account(user):
    return Credentials(user, RULES["users"][user]["secret"])


def client_of(cluster, user):
    return Client(cluster.namesrv, world=cluster.world, credentials=None if user is None else account(user))


def authorizer_of(text):
    settings = Settings([Setting.text("tokenFile", "tokens.json", "")])
    authorizer = TokenAuthorizer(AuthorizerContext(real_world(), settings))
    authorizer.users = read_users(text)
    return authorizer


def test_the_rules_of_the_page():
    authorizer = authorizer_of(json.dumps(RULES))

    def may(user, action, kind, name, source="10.0.0.1"):
        return authorizer.authorize(Principal(user, source), (action,), Resource(kind, name)).allowed

    topic, group = ResourceType.TOPIC, ResourceType.GROUP
    assert may("orders", Action.PUB, topic, "Orders")
    assert may("orders", Action.PUB, topic, "OrdersNew")
    assert not may("orders", Action.PUB, topic, "OrdersOld")
    assert not may("orders", Action.SUB, topic, "Orders")
    assert not may("orders", Action.PUB, group, "Orders")
    assert not may("orders", Action.PUB, topic, "orders")
    assert may("billing", Action.SUB, group, "billing")
    assert not may("billing", Action.SUB, group, "billing2")
    assert may("ops", Action.DELETE, ResourceType.CLUSTER, "Default")
    assert not may("nothing", Action.GET, topic, "Orders")
    assert not may("gone", Action.GET, topic, "Orders")


def test_a_rule_may_name_an_address():
    authorizer = authorizer_of('{"users": {"a": {"allow": ["Pub Topic:T from 10.0.0.1"]}}}')
    decided = [
        authorizer.authorize(Principal("a", source), (Action.PUB,), Resource(ResourceType.TOPIC, "T")).allowed
        for source in ("10.0.0.1", "10.0.0.2")
    ]
    assert decided == [True, False]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "{}",
        '{"users": []}',
        '{"users": {}, "more": 1}',
        '{"users": {"a": []}}',
        '{"users": {"a": {"password": "p"}}}',
        '{"users": {"a": {"secret": 5}}}',
        '{"users": {"a": {"certificate": null}}}',
        '{"users": {"a": {"allow": "Pub Topic:T"}}}',
        '{"users": {"a": {"deny": {}}}}',
        '{"users": {"a": {"allow": [5]}}}',
        '{"users": {"a": {"allow": [""]}}}',
        '{"users": {"a": {"allow": ["Pub"]}}}',
        '{"users": {"a": {"allow": ["Send Topic:T"]}}}',
        '{"users": {"a": {"allow": ["Pub Queue:T"]}}}',
        '{"users": {"a": {"allow": ["Pub Topic:"]}}}',
        '{"users": {"a": {"allow": ["Pub Topic:T from"]}}}',
        '{"users": {"a": {"allow": ["Pub Topic:T at 10.0.0.1"]}}}',
    ],
)
def test_a_damaged_file_is_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match="."):
        read_users(text)


def test_clients_do_what_their_users_may():
    async def main(cluster):
        async with client_of(cluster, "ops") as ops, client_of(cluster, "orders") as orders:
            await ops.admin.create_topic(cluster.broker_address, TopicConfig("Orders", 1, 1))
            await ops.admin.create_topic(cluster.broker_address, TopicConfig("OrdersOld", 1, 1))
            producer = orders.producer("PG")
            for number in range(5):
                await producer.send(Message("Orders", b"%d" % number))
            with pytest.raises(NoPermission, match="orders has no permission to access Topic:OrdersOld: Pub"):
                await producer.send(Message("OrdersOld", b"no"))
            with pytest.raises(NoPermission, match="orders has no permission to access Topic:Mine: Create"):
                await orders.admin.create_topic(cluster.broker_address, TopicConfig("Mine", 1, 1))
            async with client_of(cluster, "billing") as billing:
                received = []
                async with billing.consumer("billing", "Orders", consume_from="first") as consumer:
                    async for message in consumer:
                        received.append(message.body)
                        if len(received) == 5:
                            break
                assert sorted(received) == [b"0", b"1", b"2", b"3", b"4"]
                with pytest.raises(NoPermission, match="billing has no permission to access Topic:Orders: Pub"):
                    await billing.producer("PG").send(Message("Orders", b"no"))

    run(main)


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        (None, "username cannot be null"),
        (Credentials("nobody", "secret"), "there is no user nobody"),
        (Credentials("orders", "wrong"), "the signature of user orders is wrong"),
        (Credentials("nothing", "nothing-secret"), "nothing has no permission to access Topic:Orders: Pub"),
    ],
)
def test_strangers_are_refused(user, sentence):
    async def main(cluster):
        async with client_of(cluster, "ops") as ops:
            await ops.admin.create_topic(cluster.broker_address, TopicConfig("Orders", 1, 1))
        async with Client(cluster.namesrv, world=cluster.world, credentials=user) as client:
            with pytest.raises(NoPermission, match=sentence):
                await client.producer("PG").send(Message("Orders", b"no"))

    run(main)


def test_rules_change_while_clients_are_connected(caplog):
    async def main(cluster):
        async with client_of(cluster, "ops") as ops, client_of(cluster, "orders") as orders:
            await ops.admin.create_topic(cluster.broker_address, TopicConfig("Orders", 1, 1))
            producer = orders.producer("PG")
            await producer.send(Message("Orders", b"yes"))
            cluster.world.files.replace(Path("/tokens.json"), b"{ damaged")
            await cluster.world.clock.sleep(3)
            await producer.send(Message("Orders", b"still"))
            assert caplog.text.count("the rules read before stay") == 1
            changed = json.loads(json.dumps(RULES))
            changed["users"]["orders"]["allow"] = []
            cluster.world.files.replace(Path("/tokens.json"), json.dumps(changed).encode())
            await cluster.world.clock.sleep(3)
            with pytest.raises(NoPermission, match="orders has no permission"):
                await producer.send(Message("Orders", b"no"))
            del changed["users"]["orders"]
            cluster.world.files.replace(Path("/tokens.json"), json.dumps(changed).encode())
            await cluster.world.clock.sleep(3)
            with pytest.raises(NoPermission, match="there is no user orders"):
                await producer.send(Message("Orders", b"no"))

    run(main)


def test_brokers_of_one_process_have_rules_of_their_own(gantrymq_broker_factory, tmp_path):
    brokers = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"users": {name: {"secret": name, "allow": ["Pub Topic:*"]}}}))
        settings = {"authorizer": "token_file", "tokenFile": str(path), "store": "memory"}
        plugins = [("token_authorizer", token_authorizer)]
        brokers.append(gantrymq_broker_factory(settings=settings, plugins=plugins))

    async def send(broker, name):
        async with Client(broker.namesrv, credentials=Credentials(name, name)) as client:
            return (await client.producer("PG").send(Message("TBW102", b"one"))).ok

    for _ in range(2):
        assert asyncio.run(send(brokers[0], "one"))
        assert asyncio.run(send(brokers[1], "two"))
        brokers[0].restart()


def test_a_damaged_file_stops_the_start():
    async def main(cluster):
        raise AssertionError("it started")

    with pytest.raises(PluginError, match=r"tokenFile=/tokens.json: expected \{"):
        run(main, rules={})


def test_the_plugin_is_found_by_its_entry_point(tmp_path):
    """``gantrymq start`` as a process, with the package on its path."""
    info = tmp_path / "token_authorizer-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: token_authorizer\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gantrymq]\ntoken_authorizer = token_authorizer\n")
    shutil.copytree(Path(token_authorizer.__file__).parent, tmp_path / "token_authorizer")
    (tmp_path / "tokens.json").write_text(json.dumps(RULES))
    sets = ["authorizer=token_file", f"tokenFile={tmp_path / 'tokens.json'}", "store=memory"]
    command = [str(Path(sys.executable).parent / "gantrymq"), "start", "--namesrv-port", "0", "--broker-port", "0"]
    for each in sets:
        command += ["--set", each]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}
    with subprocess.Popen([*command, "--output", "json"], stdout=subprocess.PIPE, env=environ) as process:
        try:
            ready = json.loads(process.stdout.readline())

            async def main():
                async with Client(ready["namesrv"], credentials=account("ops")) as ops:
                    await ops.admin.create_topic(ready["broker"], TopicConfig("Orders", 1, 1))
                    await ops.producer("PG").send(Message("Orders", b"yes"))
                async with Client(ready["namesrv"]) as stranger:
                    with pytest.raises(NoPermission, match="username cannot be null"):
                        await stranger.producer("PG").send(Message("Orders", b"no"))

            asyncio.run(main())
        finally:
            process.terminate()
            process.wait(20)
    assert process.returncode == 0
