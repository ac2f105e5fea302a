"""Users and policies of RocketMQ 5.3.3 managed by our commands, and ours managed by the official mqadmin."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest
from harness import GantryServer, JavaBroker, JavaNameServer, MqAdmin, gantrymq
from harness.peers import shared, used
from harness.ports import free_port
from polling import wait_until

pytestmark = pytest.mark.interop

ROOT = ("gantry-root", "gantry-root-secret")
_AUTH = "org.apache.rocketmq.auth."
GUARDED = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{_AUTH}authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_AUTH}authentication.provider.LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": json.dumps({"username": ROOT[0], "password": ROOT[1]}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": ROOT[0], "secretKey": ROOT[1]}),
    "authorizationEnabled": "true",
    "authorizationProvider": f"{_AUTH}authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_AUTH}authorization.provider.LocalAuthorizationMetadataProvider",
}


def account(user: str, secret: str) -> dict[str, str]:
    """Return the environment of a client of this user."""
    return {"GANTRYMQ_ACCESS_KEY": user, "GANTRYMQ_SECRET_KEY": secret}


def tool(scratch: Path, namesrv: str) -> MqAdmin:
    """Return mqadmin with the account of ROOT, which it reads from its home."""
    conf = scratch / "mqadmin" / "conf"
    conf.mkdir(parents=True)
    (conf / "tools.yml").write_text(f"accessKey: {ROOT[0]}\nsecretKey: {ROOT[1]}\n")
    return MqAdmin("5.3.3", scratch, namesrv)


def answer(mqadmin: MqAdmin, *words: str) -> str:
    """Return what a command that changes nothing prints; mqadmin's first requests may take longer than its 5 s."""
    return wait_until(lambda: no_timeout(mqadmin.run(*words)), "an answer to mqadmin", 60.0)


def no_timeout(text: str) -> str:
    """Return *text*, or nothing if it is about a timeout."""
    return "" if "RemotingTimeoutException" in text else text


@attrs.frozen
class Guarded:
    """A cluster with access control, and commands of its Super user."""

    namesrv: str
    brokers: tuple[str, ...]  # addresses, of broker-a and broker-b
    scratch: Path

    def ours(self, *words: str, user: tuple[str, str] = ROOT) -> dict:
        return gantrymq(self.scratch, *words, "-n", self.namesrv, environ={**account(*user), "S1": "secret-of-shop"})

    def results(self, *words: str) -> list[str]:
        return [row["result"] for row in self.ours(*words)["brokers"]]


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Return two masters 5.3.3."""
    scratch = tmp_path_factory.mktemp("java")
    with ExitStack() as stack:
        namesrv = stack.enter_context(JavaNameServer("5.3.3", scratch / "namesrv"))
        brokers = []
        for name in ("broker-a", "broker-b"):
            settings = {**GUARDED, "brokerName": name, "authConfigPath": str(scratch / name / "auth")}
            settings["haListenPort"] = str(free_port())
            brokers.append(
                stack.enter_context(JavaBroker("5.3.3", scratch / name, namesrv.address, settings=settings, keep=False))
            )
        shared(namesrv.alive, *(each.alive for each in brokers))
        found = Guarded(namesrv.address, tuple(each.address for each in brokers), scratch)
        wait_until(lambda: len(found.ours("user", "list")["brokers"]) == 2, "both masters", 60.0)
        yield found


@pytest.fixture
def cluster(java: Guarded) -> Guarded:
    used("RocketMQ broker 5.3.3")
    return java


def test_our_commands_manage_the_users_of_rocketmq(cluster: Guarded, tmp_path: Path) -> None:
    create = ("user", "create", "shop", "--secret-env", "S1")
    assert cluster.results(*create) == ["created", "created"]
    assert cluster.results(*create) == ["unchanged", "unchanged"]
    with tool(tmp_path, cluster.namesrv) as mqadmin:
        for address in cluster.brokers:
            shown = answer(mqadmin, "getUser", "-n", cluster.namesrv, "-b", address, "-u", "shop")
            assert re.search(r"^shop +secret-of-shop +Normal +enable", shown, re.MULTILINE), shown
        assert cluster.results("user", "update", "shop", "--disable", "-b", cluster.brokers[1]) == ["updated"]
        differences = cluster.ours("user", "list", "--contains", "shop")["differences"]
        assert [(each["broker"], each["difference"]) for each in differences] == [
            ("broker-b", f"status disable, not enable as at broker-a ({cluster.brokers[0]})")
        ]
        assert cluster.results("user", "copy", "shop", "--from", cluster.brokers[0]) == ["1 updated"]
        shown = cluster.ours("user", "get", "shop", "--show-secrets")["brokers"]
        assert [each["users"][0]["secret"] for each in shown] == ["secret-of-shop"] * 2
        assert cluster.results("user", "delete", "shop") == ["deleted", "deleted"]
        listed = mqadmin.run("listUser", "-n", cluster.namesrv, "-b", cluster.brokers[0])
        assert ROOT[0] in listed and "shop" not in listed


def test_a_grant_is_what_clients_of_rocketmq_need(cluster: Guarded, tmp_path: Path, topic: str) -> None:
    """The user sends, consumes in its group, and is refused at other topics and groups."""
    cluster.ours("topic", "create", topic)
    cluster.ours("user", "create", "stock", "--secret-env", "S1")
    granted = ("acl", "grant", "stock", "--produce", topic, "--consume", topic, "--group", "stock-group")
    assert cluster.results(*granted) == ["updated", "updated"]
    assert cluster.results(*granted) == ["unchanged", "unchanged"]
    stock = ("stock", "secret-of-shop")
    assert cluster.ours("message", "send", "-t", topic, "--body", "hello", user=stock)
    with pytest.raises(RuntimeError, match="Topic:Other"):
        cluster.ours("message", "send", "-t", "Other", "--body", "hello", user=stock)
    with tool(tmp_path, cluster.namesrv) as mqadmin:
        shown = mqadmin.run("getAcl", "-n", cluster.namesrv, "-b", cluster.brokers[0], "-s", "User:stock")
    assert re.findall(r"^User:stock +Custom +(\S+) +\[(.*?)\] +null +Allow", shown, re.MULTILINE) == [
        (f"Topic:{topic}", "Pub, Sub, Get"),
        ("Group:stock-group", "Sub, Get"),
        ("Topic:RMQ_SYS_TRACE_TOPIC", "Pub"),
    ]
    assert cluster.results("acl", "delete", "stock", "-r", f"Topic:{topic}") == ["deleted", "deleted"]
    with pytest.raises(RuntimeError, match=f"has no permission to access Topic:{topic}"):
        cluster.ours("message", "send", "-t", topic, "--body", "hello", user=stock)


def test_rocketmq_cannot_keep_an_old_secret(cluster: Guarded) -> None:
    cluster.ours("user", "create", "turned", "--secret-env", "S1")
    with pytest.raises(RuntimeError, match="is RocketMQ's, which replaces a secret at once"):
        cluster.ours("user", "rotate", "turned", "--generate", "--keep", "24h")
    secret = cluster.ours("user", "rotate", "turned", "--generate")["secret"]
    shown = cluster.ours("user", "get", "turned", "--show-secrets")["brokers"]
    assert [each["users"][0]["secret"] for each in shown] == [secret] * 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("user", "get", "nobody"), "there is no user nobody"),
        (("acl", "grant", "nobody", "--produce", "T"), "it has no user nobody; create it: gantrymq user create nobody"),
        (("acl", "get", ROOT[0]), "has no entries: a Super user needs none"),
    ],
)
def test_what_is_missing_gets_a_sentence(cluster: Guarded, words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(RuntimeError, match=re.escape(sentence)):
        cluster.ours(*words)


def test_the_entry_that_decides_at_rocketmq_is_explained(cluster: Guarded) -> None:
    cluster.ours("user", "create", "asked", "--secret-env", "S1")
    cluster.ours("acl", "create", "asked", "-r", "Topic:ask*", "-a", "Pub", "-i", "10.0.0.0/8")
    question = ("access", "explain", "asked", "Pub", "Topic:asks")
    found = cluster.ours(*question, "--from", "10.1.1.1")["brokers"]
    assert [(each["allowed"], each["entry"]["resource"]) for each in found] == [(True, "Topic:ask*")] * 2
    with pytest.raises(RuntimeError, match=re.escape("allow it with: gantrymq acl grant asked -r Topic:asks -a Pub")):
        cluster.ours(*question)
    with pytest.raises(RuntimeError, match="there is an entry for other addresses"):
        cluster.ours("acl", "grant", "asked", "-r", "Topic:ask*", "-a", "Sub")


# --- our brokers, managed by mqadmin ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Return a broker of ours with users and policies."""
    scratch = tmp_path_factory.mktemp("guarded")
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": json.dumps({"username": ROOT[0], "password": ROOT[1]}),
    }
    with GantryServer.both(scratch, settings=settings) as server:
        yield Guarded(server.namesrv, (server.broker_address,), scratch)


def rows_of(text: str) -> list[list[str]]:
    """Return the cells of the lines below the header of mqadmin's table."""
    lines = text.splitlines()
    header = next(number for number, line in enumerate(lines) if line.startswith("#"))
    return [re.findall(r"\[.*?\]|\S+", line) for line in lines[header + 1 :] if line.strip()]


def test_mqadmin_manages_our_users(guarded: Guarded, tmp_path: Path) -> None:
    """The commands, texts and tables of the golden run at RocketMQ 5.3.3."""
    at = ("-n", guarded.namesrv, "-b", guarded.brokers[0])
    with tool(tmp_path, guarded.namesrv) as mqadmin:
        created = mqadmin.run("createUser", *at, "-u", "alice", "-p", "alicepw1", "-t", "Normal")
        assert f"create user to {guarded.brokers[0]} success." in created
        assert "CODE: 16  DESC: The user is existed" in mqadmin.run("createUser", *at, "-u", "alice", "-p", "alicepw1")
        by_cluster = mqadmin.run(
            "createUser", "-n", guarded.namesrv, "-c", "DefaultCluster", "-u", "root2", "-p", "root2pw1", "-t", "Super"
        )
        assert f"create user to {guarded.brokers[0]} success." in by_cluster
        assert "update user to" in mqadmin.run("updateUser", *at, "-u", "alice", "-s", "disable")
        assert "CODE: 16  DESC: The user is not exist" in mqadmin.run(
            "updateUser", *at, "-u", "nosuch", "-p", "password"
        )
        assert rows_of(mqadmin.run("getUser", *at, "-u", "alice")) == [["alice", "alicepw1", "Normal", "disable"]]
        assert rows_of(mqadmin.run("listUser", *at, "-f", "al")) == [["alice", "alicepw1", "Normal", "disable"]]
        assert {row[0] for row in rows_of(mqadmin.run("listUser", *at))} == {"alice", ROOT[0], "root2"}
        assert "delete user to" in mqadmin.run("deleteUser", *at, "-u", "root2")
        assert {row[0] for row in rows_of(mqadmin.run("listUser", *at))} == {"alice", ROOT[0]}


def test_mqadmin_manages_our_policies(guarded: Guarded, tmp_path: Path) -> None:
    at = ("-n", guarded.namesrv, "-b", guarded.brokers[0])
    bob = (*at, "-s", "User:bob")
    with tool(tmp_path, guarded.namesrv) as mqadmin:
        mqadmin.run("createUser", *at, "-u", "bob", "-p", "bobpw123")
        created = mqadmin.run("createAcl", *bob, "-r", "Topic:A,Group:A", "-a", "Pub,Sub", "-d", "Allow")
        assert f"create acl to {guarded.brokers[0]} success." in created
        mqadmin.run("createAcl", *bob, "-r", "Topic:pre*", "-a", "Pub", "-i", "10.0.0.0/8,192.168.0.7", "-d", "Deny")
        assert rows_of(mqadmin.run("getAcl", *bob)) == [
            ["User:bob", "Custom", "Topic:A", "[Pub, Sub]", "null", "Allow"],
            ["User:bob", "Custom", "Group:A", "[Pub, Sub]", "null", "Allow"],
            ["User:bob", "Custom", "Topic:pre*", "[Pub]", "[10.0.0.0/8, 192.168.0.7]", "Deny"],
        ]
        for words, text in (
            (
                ("-s", "User:nosuch", "-r", "Topic:x", "-a", "Pub", "-d", "Allow"),
                "The subject of User:nosuch is not exist",
            ),
            (
                ("-s", "User:bob", "-r", "Topic:x", "-a", "Pub", "-i", "1.2.3.999", "-d", "Allow"),
                "The source ip is invalid",
            ),
            (("-s", "User:bob", "-r", "Topic:x", "-a", "Any", "-d", "Allow"), "The actions can not be Any"),
        ):
            assert f"CODE: 16  DESC: {text}" in mqadmin.run("createAcl", *at, *words)
        mqadmin.run("updateAcl", *bob, "-r", "Topic:pre*", "-a", "Pub,Sub", "-d", "Allow")
        mqadmin.run("deleteAcl", *bob, "-r", "Topic:A")
        assert [row[2:] for row in rows_of(mqadmin.run("listAcl", *at))] == [
            ["Group:A", "[Pub, Sub]", "null", "Allow"],
            ["Topic:pre*", "[Pub, Sub]", "null", "Allow"],
        ]
    assert [each["resource"] for each in guarded.ours("acl", "get", "bob")["brokers"][0]["entries"]] == [
        "Group:A",
        "Topic:pre*",
    ]


def test_users_move_between_rocketmq_and_ours(cluster: Guarded, guarded: Guarded, tmp_path: Path) -> None:
    """To ours by our commands; to RocketMQ by mqadmin, whose account exists at both."""
    cluster.ours("user", "create", "mover", "--secret-env", "S1")
    cluster.ours("acl", "grant", "mover", "--produce", "Moved", "--no-trace")
    origin, target = cluster.brokers[0], guarded.brokers[0]
    assert guarded.results("user", "copy", "mover", "--from", origin, "-b", target) == ["1 created"]
    assert guarded.results("acl", "copy", "mover", "--from", origin, "-b", target) == ["1 updated"]
    guarded.ours("user", "create", "returner", "--secret-env", "S1")
    guarded.ours("acl", "grant", "returner", "--consume", "Moved", "--group", "moved", "--no-trace")
    with tool(tmp_path, guarded.namesrv) as mqadmin:
        for kind, what in (("copyUser", ("-u", "returner")), ("copyAcl", ("-s", "User:returner"))):
            mqadmin.run(kind, "-n", guarded.namesrv, "-f", target, "-t", origin, *what)
        assert rows_of(mqadmin.run("getAcl", "-n", guarded.namesrv, "-b", origin, "-s", "User:returner")) == [
            ["User:returner", "Custom", "Topic:Moved", "[Sub, Get]", "null", "Allow"],
            ["User:returner", "Custom", "Group:moved", "[Sub, Get]", "null", "Allow"],
        ]
    shown = cluster.ours("user", "get", "returner", "--show-secrets", "-b", origin)["brokers"]
    assert shown[0]["users"][0]["secret"] == "secret-of-shop"
