"""Official clients that sign their requests, at our broker with users and policies."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from checks import assert_same_messages, wait_for_bodies
from harness import Driver, GantryServer, Process, gantrymq
from harness.client_driver import ClientDriver
from harness.go_driver import GoDriver
from harness.node_driver import NodeDriver
from harness.pops import Pops
from polling import wait_until

from gantrymq_access.records import Acl, User, UserType
from gantrymq_access.state import acls_text, users_text

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]
SECRETS = {"writer": "writer-secret", "reader": "reader-secret", "operator": "operator-secret"}
TOPIC = "Guarded"
ALLOWED = {
    "writer": {f"Topic:{TOPIC}*": ["Pub"]},
    "reader": {f"Topic:{TOPIC}*": ["Sub", "Get"], "Group:*": ["Sub", "Get", "Update"]},
}
SETTINGS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "brokerName": "broker-a",  # as in the receipt handles of the popping client
    "recallMessageEnable": "true",
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
}
DEADLINE_S = 40.0
NODE_SAYS = "Send .4. times, still failed"  # without the reason
REFUSED = 'CODE: 16|code 16|code:16|"code":16|check signature failed|is not found|cannot be null|no permission'
STRANGERS = [("reader", ""), ("writer", "wrong-secret"), ("stranger", "wrong-secret"), ("", "")]
STRANGER_IDS = ["may only read", "wrong secret", "unknown user", "no account"]
OLD = pytest.param("4.9.8", marks=pytest.mark.long)
KINDS = ["4.9.8", "5.3.3", "go", "node"]
REFUSALS = [  # the broker refuses every client alike, and each shows it in its own way
    pytest.param(
        *stranger,
        kind,
        id=f"{known_as}-{kind}",
        marks=() if known_as == "wrong secret" or kind == "5.3.3" else pytest.mark.long,
    )
    for stranger, known_as in zip(STRANGERS, STRANGER_IDS, strict=True)
    for kind in KINDS
]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryServer]:
    """Return our servers with three users."""
    scratch = tmp_path_factory.mktemp("guarded")
    config = scratch / "store" / "config"
    config.mkdir(parents=True)
    users = [User(name, SECRETS[name], UserType.SUPER if name == "operator" else UserType.NORMAL) for name in SECRETS]
    acls = [Acl.from_json({"subject": f"User:{name}", "policies": [policy(name)]}) for name in ALLOWED]
    for name, text in (("users.json", users_text(users)), ("acls.json", acls_text(acls))):
        (config / name).touch(0o600)
        (config / name).write_text(text)
    with GantryServer.both(scratch, settings=SETTINGS) as server:
        yield server


def policy(name: str) -> dict[str, object]:
    """Return what a user may do."""
    entries = [{"resource": key, "actions": each, "decision": "Allow"} for key, each in ALLOWED[name].items()]
    return {"policyType": "Custom", "entries": entries}


@pytest.fixture
def topic(guarded: GantryServer, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Create a topic of this test, as the operator."""
    name = f"{TOPIC}{abs(hash(request.node.nodeid)) % 10**8}"
    account = {"GANTRYMQ_ACCESS_KEY": "operator", "GANTRYMQ_SECRET_KEY": SECRETS["operator"]}
    gantrymq(tmp_path, "topic", "create", name, "-n", guarded.namesrv, environ=account)
    return name


def client(kind: str, guarded: GantryServer, scratch: Path, user: str, secret: str = "") -> ClientDriver:
    """Return an official client with an account; an empty name stands for none."""
    own = secret or SECRETS.get(user, "")
    folder = scratch / f"{kind}-{user}"
    folder.mkdir()
    if kind in ("go", "node"):
        environ = {"INTEROP_ACCESS_KEY": user, "INTEROP_SECRET_KEY": own} if user else {}
        return (GoDriver if kind == "go" else NodeDriver)(folder, guarded.namesrv, environ)
    properties = {"interop.accessKey": user, "interop.secretKey": own} if user else {}
    return Driver(kind, folder, guarded.namesrv, properties=properties)


@pytest.mark.parametrize("kind", [OLD, *KINDS[1:]])
def test_a_client_sends_and_consumes_as_its_account_may(
    guarded: GantryServer, topic: str, tmp_path: Path, running: Running, kind: str
) -> None:
    writer, reader = (client(kind, guarded, tmp_path, user) for user in ("writer", "reader"))
    consumer = running(reader.push(topic, f"{topic}-group"))
    sent = writer.produce(topic, 20, "sync")
    if kind != "node":
        sent += writer.produce(topic, 20, "batch", body_prefix="batch")
    received = wait_for_bodies([consumer], sent)
    assert sorted(e["body"] for e in received) == sorted(e["body"] for e in sent)
    if isinstance(reader, Driver):
        assert_same_messages(sent[:20], [e for e in reader.pull(topic) if not e["body"].startswith("batch")])


@pytest.mark.parametrize("kind", [OLD, "5.3.3", "go"])
def test_a_client_decides_transactions_as_its_account_may(
    guarded: GantryServer, topic: str, tmp_path: Path, running: Running, kind: str
) -> None:
    """One is committed, one rolled back, and one decided when the broker asks."""
    writer, reader = client(kind, guarded, tmp_path, "writer"), client("5.3.3", guarded, tmp_path, "reader")
    consumer = running(reader.push(topic, f"{topic}-group"))
    writer.run("transact", topic=topic, decide="commit,rollback,ask")
    wait_until(lambda: len(consumer.of("received")) >= 2, "both messages", DEADLINE_S)
    assert len({e["body"] for e in consumer.of("received")}) == 2


def test_a_java_client_recalls_as_its_account_may(guarded: GantryServer, topic: str, tmp_path: Path) -> None:
    writer = client("5.3.3", guarded, tmp_path, "writer")
    events = writer.run("timed", topic=topic, plan="recall:60000,ms:300")
    assert [e["what"] for e in events if e["event"] == "sent"] == ["recall", "ms"]


@pytest.mark.parametrize("secret", ["reader-secret", "wrong-secret"], ids=["right key", "wrong key"])
def test_a_java_client_pops_as_its_account_may(
    guarded: GantryServer, topic: str, tmp_path: Path, running: Running, secret: str
) -> None:
    sent = client("5.3.3", guarded, tmp_path, "writer").produce(topic, 5)
    group, account = f"{topic}-pops", {"interop.accessKey": "reader", "interop.secretKey": secret}
    pops = running(Pops(tmp_path / "pops", guarded.namesrv, guarded.broker_address, properties=account))
    if secret == "wrong-secret":
        with pytest.raises((RuntimeError, AssertionError), match=REFUSED):
            pops.pop(topic, group)
        return
    found = pops.pop(topic, group)
    assert found
    assert len(found) <= len(sent)
    assert {pops.ack(topic, group, each["handle"]) for each in found} == {"OK"}


@pytest.mark.parametrize(("user", "secret", "kind"), REFUSALS)
def test_a_client_is_refused(
    guarded: GantryServer, topic: str, tmp_path: Path, kind: str, user: str, secret: str
) -> None:
    """Nothing is stored."""
    with pytest.raises((RuntimeError, AssertionError)) as refused:
        client(kind, guarded, tmp_path, user, secret).produce(topic, 1)
    assert refused.match(NODE_SAYS if kind == "node" else REFUSED)
    account = {"GANTRYMQ_ACCESS_KEY": "operator", "GANTRYMQ_SECRET_KEY": SECRETS["operator"]}
    status = gantrymq(tmp_path, "topic", "status", "-t", topic, "-n", guarded.namesrv, environ=account)
    assert sum(row["messages"] for row in status["queues"]) == 0
