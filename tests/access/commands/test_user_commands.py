"""``gantrymq user`` at a broker with access control."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from polling import until

from gantrymq.client import Client, ClientError, Credentials, Message, NoPermission
from gantrymq_access.commands.options import Place
from gantrymq_access.commands.user import _show
from gantrymq_access.records import User


def users_of(done):
    return {each["user"]: each for each in done.documents[0]["brokers"][0]["users"]}


def test_a_user_is_created_changed_and_deleted(operator):
    root = operator()
    assert root("user", "create", "shop", "--secret-env", "S", S="secret-of-shop").results == ["created"]
    assert root("user", "create", "shop", "--secret-env", "S", S="secret-of-shop").results == ["unchanged"]
    assert users_of(root("user", "get", "shop"))["shop"] == {
        "user": "shop",
        "type": "Normal",
        "status": "enable",
        "secret": None,
        "old_secret_until_ms": None,
        "certificate": None,
    }
    assert root("user", "update", "shop", "--disable", "--certificate", "CN=shop").results == ["updated"]
    changed = users_of(root("user", "list", "--contains", "shop"))["shop"]
    assert (changed["status"], changed["certificate"]) == ("disable", "CN=shop")
    assert root("user", "delete", "shop").results == ["deleted"]
    assert "there is no user shop; 'gantrymq user list' shows the users" in root("user", "delete", "shop", code=1).error


def test_secrets_are_hidden_unless_asked_for(operator):
    root = operator(users={"shop": []})
    assert "secret-of-shop" not in root.text("user", "list").output
    assert "(hidden)" in root.text("user", "list").stdout
    shown = root("user", "list", "--show-secrets")
    assert users_of(shown)["shop"]["secret"] == "secret-of-shop"


def test_a_generated_secret_is_printed_once_and_works(operator):
    root = operator(users={"shop": ["Pub Topic:Orders"]})
    root.server.create_topic("Orders")
    secret = root("user", "rotate", "shop", "--generate").documents[0]["secret"]
    assert secret not in root.text("user", "list").output

    async def send(secret):
        async with Client(root.server.namesrv, credentials=Credentials("shop", secret)) as client:
            assert (await client.producer("P").send(Message("Orders", b"one"))).ok

    root.server.run(send(secret))
    with pytest.raises(NoPermission):
        root.server.run(send("secret-of-shop"))
    assert root("user", "rotate", "shop", "--keep", "24h", "--secret-env", "S", S="the-third-secret").results == [
        "updated"
    ]
    root.server.run(send(secret))
    root.server.run(send("the-third-secret"))
    kept = users_of(root("user", "get", "shop"))["shop"]
    assert kept["old_secret_until_ms"] is not None


def test_a_user_that_exists_with_other_values_is_not_replaced(operator):
    root = operator(users={"shop": []})
    failed = root("user", "create", "shop", "--secret-env", "S", code=1, S="another-secret")
    assert failed.results == ["failed"]
    assert "user shop exists with other values; change it: gantrymq user update shop" in failed.error


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("user", "update", "shop"), "name what to change"),
        (("user", "create", ""), "The username is blank"),
        (("user", "create", "x\ty", "--generate"), "has a control character"),
        (("user", "rotate", "shop", "--generate", "--keep", "90d"), "at most 30d"),
        (("user", "rotate", "shop", "--generate", "--keep", "soon"), "is not a duration"),
        (("user", "create", "x", "--secret", "a", "--generate"), "in one way only"),
    ],
)
def test_wrong_usage_gets_a_sentence(operator, words, sentence):
    assert sentence in operator().text(*words, code=2).output


def test_a_user_without_rights_gets_the_command_that_grants_them(operator):
    guest = operator("guest", users={"guest": []})
    assert "gantrymq acl grant guest -r Cluster:DefaultCluster -a Get" in guest.text("user", "list", code=1).output
    created = guest.text("user", "create", "other", "--generate", code=1).output
    assert "gantrymq acl grant guest -r Cluster:DefaultCluster -a" in created


def test_a_user_that_is_not_super_reads_no_secrets(operator):
    watch = operator("watch", users={"watch": ["Get Cluster:DefaultCluster"], "shop": []})
    assert users_of(watch("user", "list", "--show-secrets"))["shop"]["secret"] is None
    copied = watch("user", "copy", "shop", "--from", watch.server.broker_address, code=1).error
    assert "does not show the secret of shop: only a Super user reads secrets" in copied


def test_users_are_copied_to_a_second_broker_and_compared(operator):
    """The brokers of two clusters, each with a name server of its own."""
    root = operator(users={"shop": ["Pub Topic:Orders"]})
    other = operator(brokerName="broker-b")
    origin, target = root.server.broker_address, other.server.broker_address
    assert other("user", "copy", "shop", "--from", origin).results == ["1 created"]
    assert other("acl", "copy", "shop", "--from", origin).results == ["1 updated"]
    assert other("user", "copy", "--from", origin).results == ["unchanged"]
    assert other("acl", "copy", "--from", origin).results == ["unchanged"]
    assert users_of(other("user", "get", "shop", "--show-secrets"))["shop"]["secret"] == "secret-of-shop"
    assert "no other broker than" in other("user", "copy", "--from", target, code=1).error
    assert "has no user nobody" in other("user", "copy", "nobody", "--from", origin, code=1).error
    assert "the brokers have the same users" in root.text("user", "list", "--check").stdout


def test_a_broker_that_is_named_needs_no_name_server(operator):
    root = operator(users={"shop": []})
    lost = type(root)(SimpleNamespace(namesrv="127.0.0.1:1", credentials=root.server.credentials), "root")
    at = ("-b", root.server.broker_address)
    assert "shop" in users_of(lost("user", "list", *at))
    assert lost("user", "update", "shop", "--disable", *at).results == ["updated"]
    assert "no name server answers at 127.0.0.1:1" in lost("user", "list", code=1).error


def test_no_secret_is_generated_for_a_user_that_exists(operator):
    """It would be printed, and stored only at the brokers that lack the user."""
    root = operator(users={"shop": []})
    done = root.text("user", "create", "shop", "--generate", code=1)
    assert "has user shop already; change it: gantrymq user update shop" in done.output
    assert "gantrymq user copy shop --from 127.0.0.1:" in done.output
    assert "secret of shop" not in done.output


def test_brokers_that_end_an_old_secret_at_other_moments_share_a_row(capsys):
    places = [Place(f"broker-{letter}", "127.0.0.1:1", "c") for letter in "abc"]
    ends = (1_764_418_000_999, 1_764_418_001_001, 0)
    users = [(User("shop", "secret1", old_secret="secret0" * bool(end), old_secret_until_ms=end),) for end in ends]
    _show(dict(zip(places[:2], users, strict=False)), {}, False, False, "text")
    assert "all 2" in capsys.readouterr().out
    _show(dict(zip(places, users, strict=True)), {}, False, False, "text")
    assert len([line for line in capsys.readouterr().out.splitlines() if "shop" in line]) == 2


def test_a_broker_without_access_control_says_so(gantrymq_broker_factory):
    for name in ("gantrymq_admin", "gantrymq_storage_memory"):
        pytest.importorskip(name)
    server = gantrymq_broker_factory({"store": "memory"})
    from click.testing import CliRunner

    from gantrymq.cli import main

    done = CliRunner().invoke(main, ["user", "list", "-n", server.namesrv, "--output", "json"])
    assert done.exit_code == 1
    assert "manages no users: it has no access control (authorizer=acl" in json.loads(done.stdout)["message"]


def test_the_connections_of_a_user_are_closed(operator):
    """Those of others stay; the client connects again, as the user is still enabled."""
    root = operator(users={"shop": ["Pub Topic:Orders"], "other": ["Pub Topic:Orders"]})
    server = root.server
    server.create_topic("Orders", 1)

    async def work():
        async with (
            Client(server.namesrv, credentials=server.credentials("shop")) as shop,
            Client(server.namesrv, credentials=server.credentials("other")) as other,
        ):
            producers = {"shop": shop.producer("P-shop"), "other": other.producer("P-other")}
            await producers["other"].send(Message("Orders", b"one"))
            stays = connected(server)
            await producers["shop"].send(Message("Orders", b"one"))
            before = connected(server)
            done = await asyncio.to_thread(root, "client", "close", "shop")
            assert done.results == ["closed"]
            await until(lambda: before - stays - connected(server), "end of the connection of shop", 10.0)
            assert stays <= connected(server)
            assert (await producers["other"].send(Message("Orders", b"two"))).ok
            await until(lambda: retried(producers["shop"]), "another connection", 10.0)

    async def retried(producer):
        try:
            return (await producer.send(Message("Orders", b"two"))).ok
        except ClientError:
            return False

    asyncio.run(asyncio.wait_for(work(), 50))
    assert "there is no user nobody" in root("client", "close", "nobody", code=1).error


def connected(server):
    """The addresses of the clients that are connected to the broker."""
    return server.call(lambda: {each.connection.address for each in server.cluster.server.tables.clients.connections()})
