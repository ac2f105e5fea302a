"""A broker that the name servers have forgotten: what it has is missing from every number, and every page says so."""

from __future__ import annotations

import attrs
import pytest
from console_members import commit
from manual_clock import ManualClock

from gantrymq.errors import ConnectFailed
from gantrymq_console.access.users import Everyone, Role, User
from gantrymq_console.data import cluster as cluster_data

GONE = "broker-w"


@pytest.fixture
def gone(visitor, monkeypatch):
    """A console that has seen a second broker, which does not run any more."""
    visitor.running.create_topic("Orders", 1)
    visitor.running.send("Orders", b"1")
    commit(visitor, "billing", "Orders", 0, 0)
    admin = visitor.cluster.admin
    real = admin.clusters

    async def with_one_more():
        info = await real()
        more = attrs.evolve(info.brokers[0], name=GONE, addresses={0: "127.0.0.1:1"})
        return attrs.evolve(info, brokers=(*info.brokers, more))

    with monkeypatch.context() as patch:
        patch.setattr(admin, "clusters", with_one_more)
        visitor.get("/about")
    visitor.cluster.forget()
    return visitor


@pytest.mark.parametrize(
    "path",
    [
        "/topics",
        "/topics?sort=messages",
        "/topics/Orders",
        "/topics/Orders/groups",
        "/topics/Orders/producers",
        "/topics/Orders/settings",
        "/topics/Orders/messages",
        "/topics/Orders/messages?key=k",
        "/groups",
        "/groups?sort=late",
        "/groups/billing",
        "/groups/billing/queues",
        "/groups/billing/members",
        "/groups/billing/dlq",
        "/clients",
        "/delayed",
        "/transactions",
        "/search?q=x",
        "/",
    ],
)
def test_it_is_named(gone, path):
    assert GONE in [each["what"].split()[0] for each in gone.api(path)["missing"]]
    page = gone.get(path)
    assert GONE in page.text and "is missing" in page.text
    assert page.text.count("not registered at the name servers any more") <= 1


def test_sums_are_those_of_the_others(gone):
    topics = gone.api("/topics?sort=messages")["data"]
    (topic,) = [each for each in topics["topics"] if each["name"] == "Orders"]
    assert topics["partial"] and topic["partial"] and topic["messages"] == "1"
    head = gone.api("/topics/Orders")["data"]["head"]
    assert head["partial"] and head["messages"] == "1"
    for order in ("late", "lag", "name"):
        groups = gone.api(f"/groups?sort={order}")["data"]
        (group,) = [each for each in groups["groups"] if each["name"] == "billing"]
        assert groups["partial"] and group["partial"] and group["lag"] == "1"
    assert gone.api("/groups/billing")["data"]["head"]["partial"]
    assert "at least 1" in gone.get("/topics/Orders").text
    assert gone.api("/brokers")["data"]["brokers"][1]["registered"] is False


def test_what_no_other_broker_has_is_unknown(gone):
    for path in ("/topics/Nothing", "/topics/Nothing/groups", "/topics/Nothing/messages"):
        page = gone.get(path)
        assert page.status == 504 and "It is unknown whether there is such a topic" in page.text and GONE in page.text
    group = gone.get("/groups/nothing")
    assert group.status == 200 and f"{GONE} is missing" in group.text
    assert gone.get("/groups/nothing/dlq").status == 504
    unique_id = "7F00000100002A9F0000000000000000"
    found = gone.get(f"/messages/{unique_id}?topic=Orders")
    assert found.status == 504 and GONE in found.text


def test_a_master_that_was_gone_before_is_missed_because_of_its_slave(visitor, monkeypatch):
    visitor.running.create_topic("Orders", 1)
    visitor.running.send("Orders", b"1")
    commit(visitor, "billing", "Orders", 0, 0)
    real = visitor.cluster.admin.clusters

    async def with_a_slave(*server):
        info = await real(*server)
        slave = attrs.evolve(info.brokers[0], name=GONE, addresses={1: "127.0.0.1:1"})
        return attrs.evolve(info, brokers=(*info.brokers, slave))

    monkeypatch.setattr(visitor.cluster.admin, "clusters", with_a_slave)
    for path in ("/", "/groups", "/groups/billing", "/topics?sort=messages", "/topics/Orders"):
        assert GONE in [each["what"].split()[0] for each in visitor.api(path)["missing"]], path
    monkeypatch.setattr(cluster_data, "KNOWN_S", 0)  # it stays as long as its slave
    visitor.cluster.forget()
    brokers = visitor.api("/brokers")["data"]["brokers"]
    assert [(each["name"], each["broker_id"], each["registered"]) for each in brokers[1:]] == [
        (GONE, 0, False),
        (GONE, 1, True),
    ]
    home = visitor.get("/").text
    assert f"{GONE} is not registered" in home and "is not an address" not in home
    assert "is not an address" not in visitor.get("/groups").text + visitor.get("/brokers").text
    assert visitor.get(f"/brokers/{GONE}").status == 200


def test_it_is_forgotten_after_a_day(gone, monkeypatch):
    monkeypatch.setattr(cluster_data, "KNOWN_S", 0)
    assert gone.api("/topics/Orders")["missing"] == []
    assert len(gone.api("/brokers")["data"]["brokers"]) == 1


@pytest.mark.parametrize(
    ("registered_s", "missed_s"), [(20, 600), (7200, 7200), (30 * 24 * 3600, 24 * 3600)], ids=["brief", "hours", "long"]
)
def test_it_is_missed_as_long_as_it_was_registered(visitor, monkeypatch, registered_s, missed_s):
    clock = ManualClock()
    monkeypatch.setattr(visitor.cluster, "world", attrs.evolve(visitor.cluster.world, clock=clock))
    is_registered = False

    async def clusters():
        info = await real()
        guest = attrs.evolve(info.brokers[0], name=GONE, addresses={0: "127.0.0.1:1"})
        return attrs.evolve(info, brokers=(*info.brokers, guest)) if is_registered else info

    def missing():
        visitor.cluster.forget()
        visitor.running.run(visitor.cluster.brokers())
        return list(visitor.running.run(visitor.cluster.gone()))

    assert missing() == []
    real = visitor.cluster.admin.clusters
    monkeypatch.setattr(visitor.cluster.admin, "clusters", clusters)
    is_registered = True
    assert missing() == []
    clock.advance(registered_s)
    assert missing() == []
    is_registered = False
    assert missing() == [GONE]
    clock.advance(missed_s - 1)
    assert missing() == [GONE]
    clock.advance(1)
    assert missing() == []


@pytest.mark.parametrize(
    ("at", "action", "fields"),
    [
        ("/topics/Orders/settings", "/topics/Orders/delete", {}),
        ("/topics/Orders/settings", "/topics/Orders/settings", {"read_queues": "8", "write_queues": "8"}),
        ("/groups/billing/settings", "/groups/billing/delete", {}),
        ("/groups/billing/settings", "/groups/billing/stop", {}),
    ],
)
def test_a_change_warns_that_it_does_not_reach_it(gone, at, action, fields):
    preview = gone.submit(gone.get(at), action, **fields)
    assert f"{GONE} cannot be reached now and keeps what it has" in preview.text
    done = gone.confirm(preview, **({"typed": action.split("/")[2]} if action.endswith("delete") else {}))
    assert f"but not at {GONE}, which cannot be reached" in done.text


def dismiss(visitor, name, **fields):
    """Open the page of a broker, and let the console miss it no longer."""
    return visitor.confirm(visitor.submit(visitor.get(f"/brokers/{name}"), f"/brokers/{name}/dismiss", **fields))


def test_it_is_not_missed_any_more_for_all_visitors(gone):
    home = gone.get("/")
    page = gone.get(home.link(f"Broker {GONE} is not registered any more."))
    preview = gone.submit(page, f"/brokers/{GONE}/dismiss")
    assert f"no longer miss {GONE}" in preview.text and "127.0.0.1:1" in preview.text
    assert "Last registered" in preview.text and "Missed until" in preview.text and "unknown" not in preview.text
    done = gone.confirm(preview)
    assert f"{GONE} is not missed any more." in done.text and f"Broker {GONE}" not in done.text
    for path in ("/", "/topics", "/groups/billing", "/brokers"):
        assert gone.api(path)["missing"] == [], path
    assert GONE not in gone.get("/").text and gone.get(f"/brokers/{GONE}").status == 404
    assert not gone.api("/groups?sort=late")["data"]["partial"]
    (tried, ended) = gone.audit.entries
    assert (tried.action, tried.target, tried.user, ended.result) == ("brokers.dismiss", GONE, "tester", "done")


def test_it_is_known_again_when_it_registers_again(gone, monkeypatch):
    dismiss(gone, GONE)
    real = gone.cluster.admin.clusters

    async def again():
        info = await real()
        more = attrs.evolve(info.brokers[0], name=GONE, addresses={0: "127.0.0.1:1"})
        return attrs.evolve(info, brokers=(*info.brokers, more))

    with monkeypatch.context() as patch:
        patch.setattr(gone.cluster.admin, "clusters", again)
        gone.cluster.forget()
        assert len(gone.api("/brokers")["data"]["brokers"]) == 2
        page = gone.get(f"/brokers/{GONE}")
        assert "Stop missing" not in page.text
    gone.cluster.forget()
    assert GONE in [each["what"] for each in gone.api("/topics")["missing"]]


def test_a_broker_that_registered_meanwhile_is_not_dismissed(gone, monkeypatch):
    preview = gone.submit(gone.get(f"/brokers/{GONE}"), f"/brokers/{GONE}/dismiss")
    real = gone.cluster.admin.clusters

    async def again():
        info = await real()
        more = attrs.evolve(info.brokers[0], name=GONE, addresses={0: "127.0.0.1:1"})
        return attrs.evolve(info, brokers=(*info.brokers, more))

    monkeypatch.setattr(gone.cluster.admin, "clusters", again)
    refused = gone.confirm(preview)
    assert refused.status == 409 and f"{GONE} is registered at the name servers" in refused.text
    assert len(gone.api("/brokers")["data"]["brokers"]) == 2


def test_a_master_with_a_registered_slave_stays_missed(visitor, monkeypatch):
    visitor.get("/about")
    real = visitor.cluster.admin.clusters

    async def with_a_slave(*server):
        info = await real(*server)
        slave = attrs.evolve(info.brokers[0], name=GONE, addresses={2: "127.0.0.1:1"})
        return attrs.evolve(info, brokers=(*info.brokers, slave))

    monkeypatch.setattr(visitor.cluster.admin, "clusters", with_a_slave)
    visitor.cluster.forget()
    refused = visitor.submit(visitor.get(f"/brokers/{GONE}"), f"/brokers/{GONE}/dismiss")
    assert refused.status == 409 and f"{GONE}:2 is registered, so its master {GONE} is missed" in refused.text


def test_a_slave_that_is_gone_has_its_own_page_and_is_dismissed(visitor, monkeypatch):
    visitor.get("/about")
    real = visitor.cluster.admin.clusters

    async def with_a_slave(*server):
        info = await real(*server)
        first = info.brokers[0]
        return attrs.evolve(info, brokers=(attrs.evolve(first, addresses={**first.addresses, 3: "127.0.0.1:1"}),))

    with monkeypatch.context() as patch:
        patch.setattr(visitor.cluster.admin, "clusters", with_a_slave)
        visitor.cluster.forget()
        visitor.get("/brokers")
    visitor.cluster.forget()
    link = visitor.get("/").link("Broker broker-a:3 is not registered any more.")
    assert link.endswith("/brokers/broker-a?id=3")
    preview = visitor.submit(visitor.get(link), "/brokers/broker-a/dismiss")
    assert "What only" not in preview.text
    assert "broker-a:3 is not missed any more" in visitor.confirm(preview).text
    assert [each["broker_id"] for each in visitor.api("/brokers")["data"]["brokers"]] == [0]


def test_nothing_is_dismissed_while_no_name_server_answers(gone, monkeypatch):
    page = gone.get(f"/brokers/{GONE}")

    async def nobody():
        raise ConnectFailed("connection refused")

    monkeypatch.setattr(gone.cluster.admin, "clusters", nobody)
    assert "connection refused" in gone.submit(page, f"/brokers/{GONE}/dismiss").text
    monkeypatch.undo()
    assert GONE in gone.get("/").text


def test_a_reader_cannot_dismiss(gone, monkeypatch):
    assert "Stop missing" in gone.get(f"/brokers/{GONE}").text
    everyone = Everyone(User("reader", Role.READER))
    monkeypatch.setattr(gone.app, "console", attrs.evolve(gone.console, identities=everyone))
    page = gone.get(f"/brokers/{GONE}")
    assert page.status == 200 and "Stop missing" not in page.text
    assert gone.request("POST", f"/brokers/{GONE}/dismiss", data={}).status_code == 403


def test_in_json(gone):
    token = gone.api("/account")["data"]["csrf_token"]
    path, headers = f"/api/v1/brokers/{GONE}/dismiss", {"x-csrf-token": token}
    looked = gone.request("POST", path, json={"dry_run": "true"}, headers=headers)
    assert looked.json()["broker"] == GONE and looked.json()["last_ms"] <= looked.json()["until_ms"]
    assert gone.request("POST", path, json={}, headers=headers).json()["done"]
    assert gone.request("POST", path, json={}, headers=headers).status_code == 404
