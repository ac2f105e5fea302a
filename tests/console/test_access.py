"""Pages about users and policies of the cluster: lists, one user, and who may do something."""

from __future__ import annotations

import json
from types import SimpleNamespace

import attrs
import pytest
from console_visitor import Visitor

from gantrymq.client import Client, Credentials
from gantrymq.client.calls.credentials import ENVIRONMENT
from gantrymq_access.administration import create_user, put_policies, update_user
from gantrymq_access.records import (
    Acl,
    Entry,
    EntryAction,
    EntryResource,
    Policy,
    PolicyType,
    User,
    UserChange,
    UserStatus,
)
from gantrymq_console.access.cluster_accounts import Proof
from gantrymq_testing.running_broker import RunningBroker

pytest.importorskip("gantrymq_storage_memory")


def entry(resource, actions, *, is_allowed=True, sources=()):
    wanted = tuple(EntryAction(each) for each in actions.split(","))
    return Entry(EntryResource.parse(resource), wanted, is_allowed, sources)


ROOT = Credentials("root", "secret-of-root")
USERS = [
    User("alice", "former-of-alice"),
    User("bob", "secret-of-bob", certificate="CN=bob,O=Shop"),
    User("carol", "secret-of-carol", status=UserStatus.DISABLE),
    User("<b>/x", "secret-of-x"),
]
ACLS = [
    Acl(
        "alice",
        (
            Policy(PolicyType.CUSTOM, (entry("Topic:Ord*", "Pub,Get"), entry("Topic:Secret", "Pub", is_allowed=False))),
            Policy(PolicyType.DEFAULT, (entry("Group:*", "Sub"),)),
        ),
    ),
    Acl("bob", (Policy(PolicyType.CUSTOM, (entry("Topic:Orders", "Pub", sources=("10.0.0.0/8",)),)),)),
    Acl("carol", (Policy(PolicyType.CUSTOM, (entry("*", "All"),)),)),
]


@pytest.fixture(scope="module")
def gantrymq_broker(tmp_path_factory):
    settings = {
        "authenticationEnabled": True,
        "authorizationEnabled": True,
        "initAuthenticationUser": json.dumps({"username": ROOT.access_key, "password": ROOT.secret_key}),
    }
    with RunningBroker(tmp_path_factory.mktemp("broker"), settings) as running:
        running.run(fill(running))
        yield running


async def fill(running):
    """Create the users and policies."""
    async with Client(running.namesrv, world=running.cluster.world, credentials=ROOT) as client:
        for each in USERS:
            await create_user(client.admin, running.broker_address, each)
        change = UserChange("secret-of-alice", keep_old_ms=3_600_000)
        await update_user(client.admin, running.broker_address, "alice", change)
        for acl in ACLS:
            await put_policies(client.admin, running.broker_address, acl.user, acl.policies)


def visitor_of(running, language="en"):
    """A visitor of a console that has the account of a Super user."""
    names = dict(zip(ENVIRONMENT, (ROOT.access_key, ROOT.secret_key), strict=False))
    world = attrs.evolve(running.cluster.world, environ={**running.cluster.world.environ, **names})
    seen = SimpleNamespace(
        cluster=SimpleNamespace(world=world), run=running.run, _loop=running._loop, namesrv=running.namesrv
    )
    return Visitor(seen, language=language)


@pytest.fixture
def visitor(gantrymq_broker):
    with visitor_of(gantrymq_broker) as found:
        yield found


def test_users_are_listed(visitor):
    page = visitor.get("/access")
    assert page.status == 200 and "5 users" in page.text
    assert page.link("<b>/x").endswith("/access/user?name=%3Cb%3E%2Fx")
    assert "CN=bob,O=Shop" in page.text and "disabled" in page.text
    assert [each["name"] for each in visitor.api("/access?kind=super")["data"]["users"]] == ["root"]
    assert [each["name"] for each in visitor.api("/access?kind=disabled")["data"]["users"]] == ["carol"]
    assert [each["name"] for each in visitor.api("/access?filter=shop")["data"]["users"]] == ["bob"]
    found = visitor.api("/access?order=down&rows=2&start=1")["data"]
    assert ([each["name"] for each in found["users"]], found["total"]) == (["carol", "bob"], "5")


def test_policies_are_listed(visitor):
    page = visitor.get("/access/policies")
    assert page.status == 200 and "5 entries" in page.text and "10.0.0.0/8" in page.text
    found = visitor.api("/access/policies?kind=deny")["data"]["entries"]
    assert [(each["user"], each["resource"], each["actions"]) for each in found] == [("alice", "Topic:Secret", ["Pub"])]
    found = visitor.api("/access/policies?sort=resource&order=down")["data"]["entries"]
    assert [each["resource"] for each in found] == ["Topic:Secret", "Topic:Orders", "Topic:Ord*", "Group:*", "*"]


def test_a_user_has_a_page_with_its_policies(visitor):
    page = visitor.get("/access/user?name=alice")
    assert page.status == 200 and "3 entries" in page.text and "Old secret valid until" in page.text
    assert "gantrymq acl get alice" in page.text
    assert "may do everything" in visitor.get("/access/user?name=root").text
    assert visitor.get("/access/user?name=%3Cb%3E/x").status == 200
    assert visitor.get("/access/user?name=nobody").status == 404
    assert visitor.get("/access/user").status == 404


@pytest.mark.parametrize(
    ("name", "action", "resource", "source", "answer"),
    [
        ("alice", "Pub", "Topic:Orders", "", "allowed This entry decides: Allow Pub,Get on Topic:Ord*"),
        ("alice", "Pub", "Topic:Secret", "", "refused This entry decides: Deny Pub on Topic:Secret"),
        (
            "alice",
            "Sub",
            "Topic:%RETRY%g",
            "",
            "allowed This entry of the default policy decides: Allow Sub on Group:*",
        ),
        ("alice", "Delete", "Topic:Orders", "", "refused No entry allows Delete on Topic:Orders."),
        ("bob", "Pub", "Topic:Orders", "", "refused No entry allows Pub on Topic:Orders."),
        ("bob", "Pub", "Topic:Orders", "10.1.2.3", "allowed This entry decides"),
        ("carol", "Pub", "Topic:Orders", "", "refused The user is disabled, and cannot log in."),
        ("root", "Update", "Cluster:C", "", "allowed A Super user may do everything."),
    ],
)
def test_the_page_says_what_a_user_may_do(visitor, name, action, resource, source, answer):
    form = visitor.get(f"/access/user?name={name}").form("/access/user")
    asked = {"action": action, "resource": resource, "from": source}
    page = visitor.get(form.action.partition("?")[0], params={**form.fields, **asked})
    assert page.status == 200 and answer in page.text, page.text
    assert f"gantrymq access explain {name} {action} {resource}" in page.text
    assert ("Without an address" in page.text) == (not source)


def test_the_page_says_who_may_do_something(visitor):
    assert visitor.get("/access/who").status == 200
    form = visitor.get("/access/who").form("/access/who")
    page = visitor.get(form.action, params={**form.fields, "resource": "Topic:Orders"})
    assert page.status == 200 and "2 users" in page.text
    found = visitor.api("/access/who?action=Pub&resource=Topic:Orders")["data"]["users"]
    assert [(each["user"], each["word"]) for each in found] == [("alice", "entry"), ("root", "super")]
    found = visitor.api("/access/who?action=Pub&resource=Topic:Orders&from=10.1.2.3")["data"]["users"]
    assert [each["user"] for each in found] == ["alice", "bob", "root"]


@pytest.mark.parametrize("path", ["/access/user?name=alice&", "/access/who?"])
@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("resource=Orders", "Orders is not one resource"),
        ("resource=Topic:*", "Topic:* is not one resource"),
        ("resource=Topic:Orders&from=10.0.0.0/8", "10.0.0.0/8 is not the address of a client"),
        ("resource=Topic:Orders&from=x", "x is not the address of a client"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(visitor, path, query, sentence):
    assert sentence in visitor.get(path + query).text
    assert visitor.request("GET", "/api/v1" + path + "action=Fly&resource=Topic:A").status_code == 400


def test_secrets_are_not_shown(visitor):
    for path in ("/access", "/access/policies", "/access/user?name=alice", "/access/who?resource=Topic:Orders"):
        for text in (visitor.get(path).response.text, json.dumps(visitor.api(path))):
            assert "alice" in text and "secret-of" not in text and "former-of" not in text, path


def test_pages_are_in_chinese(gantrymq_broker):
    with visitor_of(gantrymq_broker, "zh") as visitor:
        assert "用户" in visitor.get("/access").text
        assert "由此条目决定" in visitor.get("/access/user?name=alice&action=Pub&resource=Topic:Orders").text


def test_a_cluster_without_access_control_is_named(tmp_path):
    with RunningBroker(tmp_path) as running, Visitor(running) as visitor:
        for path in ("/access", "/access/policies", "/access/user?name=alice", "/access/who?resource=Topic:Orders"):
            page = visitor.get(path)
            assert page.status == 200 and "broker-a: these brokers manage no users" in page.text, path
        assert visitor.api("/access")["data"]["uncontrolled"] == ["broker-a"]


@pytest.mark.parametrize(
    ("name", "secret", "is_proved"),
    [
        ("root", "secret-of-root", True),
        ("alice", "secret-of-alice", True),  # may not read the settings, with which it is proved
        ("alice", "former-of-alice", True),  # still valid
        ("alice", "secret-of-bob", False),
        ("carol", "secret-of-carol", False),  # disabled
        ("nobody", "secret-of-alice", False),
    ],
)
def test_users_of_the_cluster_prove_who_they_are(gantrymq_broker, name, secret, is_proved):
    proof = Proof(gantrymq_broker.cluster.world, gantrymq_broker.namesrv)
    assert gantrymq_broker.run(proof.is_proved(Credentials(name, secret))) is is_proved
    assert gantrymq_broker.run(proof.is_accepted(Credentials(name, secret))) is is_proved
