"""Pages while servers are silent, disagree, restart, or lack what the console asks them for.

All pages are asked for at once, so that a deadline passes once for all of them.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import contextmanager
from types import SimpleNamespace

import httpx
import pytest
from console_members import commit
from console_visitor import BASE, Page, Visitor
from noting_peers import Accepting, Peer
from polling import wait_until

from gantrymq.broker import BrokerServer
from gantrymq.client.admin import RequestNotServed
from gantrymq.config import Settings
from gantrymq.model.hosts import format_address
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.nameserver import RegisterBrokerRequest
from gantrymq_admin.asking import DEADLINE_S
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings

SILENT = "broker-s"
SLACK_S = 6.0  # all pages together need it on a machine with other work
FIELDS = {"topic": "Orders", "group": "billing", "key": "brokerName", "id": "0" * 32, "job": "nothing"}


def addresses(visitor, broker):
    """The addresses of all pages, with a name for each field."""
    return [each.path.format(**FIELDS, broker=broker) for part in visitor.console.sections for each in part.pages]


def at_once(visitor, paths):
    """Ask for all pages at the same time; return them and the seconds that it took."""

    async def ask():
        transport = httpx.ASGITransport(visitor.app)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, follow_redirects=True) as browser:
            return await asyncio.gather(*[browser.get(path) for path in paths])

    began = time.monotonic()
    found = visitor.running.run(ask())
    return {path: Page(each) for path, each in zip(paths, found, strict=True)}, time.monotonic() - began


@pytest.fixture
def silent(gantrymq_broker):
    """The address of a server that accepts connections and never answers."""
    world = gantrymq_broker.cluster.world
    accepting = Accepting(Peer)

    async def listen():
        return await world.network.listen("127.0.0.1", 0, accepting)

    listener = gantrymq_broker.run(listen())
    yield format_address(*listener.address)

    async def close():
        for each in accepting.peers:
            each.transport.abort()
        await listener.close()

    gantrymq_broker.run(close())


@contextmanager
def visitor_of(running, *name_servers):
    """A visitor of a console that was given these name servers."""
    seen = SimpleNamespace(
        cluster=running.cluster, run=running.run, _loop=running._loop, namesrv=";".join(name_servers)
    )
    with Visitor(seen) as visitor:
        yield visitor


@pytest.fixture
def with_silent(visitor, silent):
    """A visitor of a cluster in which a second master with the same topic never answers."""
    visitor.running.create_topic("Orders", 2)
    visitor.running.send("Orders", b"1")
    commit(visitor, "billing", "Orders", 0)
    register_silent(visitor, silent, SILENT, 0)
    return visitor


def register_silent(visitor, silent, name, broker_id):
    """Register the server that never answers as a broker."""
    header = RegisterBrokerRequest(
        broker_name=name, broker_addr=silent, cluster_name="DefaultCluster", ha_server_addr="", broker_id=broker_id
    )
    topics = ("Orders", SILENT) if not broker_id else ()
    table = {topic: {"topicName": topic, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6} for topic in topics}
    body = {
        "topicConfigSerializeWrapper": {"topicConfigTable": table, "dataVersion": {"counter": 1}},
        "filterServerList": [],
    }

    async def register():
        server = visitor.running.namesrv
        await visitor.client.admin.request(server, RequestCode.REGISTER_BROKER, header, json.dumps(body).encode())

    visitor.running.run(register())
    visitor.cluster.forget()


def test_a_silent_slave_is_named_on_home_and_on_the_pages_of_brokers(visitor, silent):
    (master,) = visitor.running.run(visitor.cluster.masters())
    register_silent(visitor, silent, master, 1)
    for path in ("/", "/brokers", f"/brokers/{master}"):
        visitor.cluster.forget()
        found, took_s = at_once(visitor, [path])
        assert found[path].status == 200 and took_s < DEADLINE_S + SLACK_S, path
    problems = {each["word"]: each for each in visitor.api("/")["data"]["problems"]}
    assert problems.keys() & {"silent", "unreachable"} and "no_broker" not in problems
    copies = {each["broker_id"]: each for each in visitor.api(f"/brokers/{master}")["data"]["copies"]}
    assert copies[0]["end"] is not None and copies[1]["end"] is None and copies[1]["problem"]


def test_a_silent_broker_delays_no_page_beyond_the_deadline_and_is_named(with_silent):
    name = next(each for each in with_silent.running.run(with_silent.cluster.masters()) if each != SILENT)
    paths = [*addresses(with_silent, name), f"/brokers/{SILENT}", f"/brokers/{SILENT}/settings"]
    home, _ = at_once(with_silent, ["/"])  # by itself: it has half a second for its own work
    found, took_s = at_once(with_silent, [path for path in paths if path != "/"])
    found |= home
    assert took_s < DEADLINE_S + SLACK_S
    failed = {path: page.status for path, page in found.items() if page.status not in (200, 404)}
    message = f"/messages/{FIELDS['id']}"  # which the silent broker may have
    assert set(failed) <= {f"/brokers/{SILENT}/settings", "/groups/billing/member", message}, failed
    assert set(failed.values()) <= {504}
    for path in ("/", "/brokers", "/topics", "/groups", "/topics/Orders", "/groups/billing"):
        assert SILENT in found[path].text, path
    for path in ("/topics", "/topics/Orders", "/groups", "/groups/billing", "/topics/Orders/groups"):
        assert "at least 1" in found[path].text, path  # message, or lag; the other broker may have more
    assert "2 brokers" in found["/brokers"].text


def test_sums_without_one_of_the_brokers_are_marked(with_silent):
    paths = ["/topics", "/topics/Orders", "/groups", "/groups/billing", "/topics/Orders/groups", "/clients", "/"]
    found, _ = at_once(with_silent, [f"/api/v1{path}" for path in paths])
    topics, topic, groups, group, readers, clients, home = [each.response.json()["data"] for each in found.values()]
    (row,) = [each for each in topics["topics"] if each["name"] == "Orders"]
    assert (row["messages"], row["partial"]) == ("1", True)
    assert (topic["head"]["messages"], topic["head"]["partial"]) == ("1", True)
    (row,) = [each for each in groups["groups"] if each["name"] == "billing"]
    assert (row["lag"], row["members"], row["partial"], groups["partial"]) == ("1", None, True, True)
    assert (group["head"]["lag"], group["head"]["members"], group["head"]["partial"]) == ("1", None, True)
    assert [(each["behind"], each["partial"]) for each in group["topics"]] == [("1", True)]
    assert [(each["lag"], each["partial"]) for each in readers["groups"]] == [("1", True)]
    assert (readers["partial"], clients["partial"], home["partial"]) == (True, True, True)
    assert "nobody" not in [each["word"] for each in home["problems"]]  # a member may be at the silent broker


def test_a_message_is_shown_though_one_of_the_brokers_is_silent(with_silent):
    (row,) = with_silent.api("/topics/Orders/messages")["data"]["listing"]["rows"]
    shown, unknown = f"/messages/{row['unique_id']}?topic=Orders", f"/messages/{'0' * 31}1?topic=Orders"
    body = shown.replace("?", "/body?")
    found, took_s = at_once(with_silent, [shown, body, unknown])
    assert took_s < DEADLINE_S + SLACK_S
    assert [each.status for each in found.values()] == [200, 200, 504]
    assert SILENT in found[shown].text and "billing" in found[shown].text
    assert found[body].response.content == b"1"
    assert SILENT in found[unknown].text and "no broker that answered" in found[unknown].text


def test_a_silent_name_server_delays_no_page_beyond_the_deadline_and_is_named(gantrymq_broker, silent):
    with visitor_of(gantrymq_broker, silent, gantrymq_broker.namesrv) as visitor:
        gantrymq_broker.create_topic("Orders", 2)

        async def begin_with_silent():  # the list is shuffled
            visitor.client._started().routes._servers._chosen = silent

        gantrymq_broker.run(begin_with_silent())
        found, took_s = at_once(visitor, ["/", "/nameservers", "/brokers", "/topics", "/topics/Orders"])
        assert took_s < DEADLINE_S + SLACK_S
        for path in ("/", "/nameservers"):
            assert found[path].status == 200 and silent in found[path].text
        assert {path: page.status for path, page in found.items() if page.status != 200} == {}


def test_name_servers_that_disagree_are_told_on_the_home_page(gantrymq_broker, tmp_path):
    world = gantrymq_broker.cluster.world
    values = {"bindAddress": "127.0.0.1", "listenPort": 0}
    empty = NameServer(world, Settings(name_server_settings(tmp_path), values))
    second = format_address(*gantrymq_broker.run(empty.start()))
    try:
        with visitor_of(gantrymq_broker, gantrymq_broker.namesrv, second) as visitor:
            found, _ = at_once(visitor, ["/", "/nameservers"])
            assert {page.status for page in found.values()} == {200}
            assert "disagree" in [each["word"] for each in visitor.api("/")["data"]["problems"]]
            assert "The name servers do not agree" in found["/nameservers"].text
            assert f"-n '{gantrymq_broker.namesrv};{second}'" in visitor.get("/brokers").text  # as a shell reads it
    finally:
        gantrymq_broker.run(empty.stop())


def test_a_broker_that_restarts_under_an_open_page(visitor):
    running = visitor.running
    running.create_topic("Orders", 1)
    (state,) = visitor.api("/brokers")["data"]["brokers"]
    old = state["address"]
    pages = ["/", "/brokers", f"/brokers/{state['name']}", "/topics", "/topics/Orders", "/groups"]
    live = [f"{path}?part=live" for path in pages]
    at_once(visitor, live)
    cluster = running.cluster
    running.run(cluster.server.stop())
    visitor.cluster.forget()
    gone, took_s = at_once(visitor, live)
    assert took_s < DEADLINE_S + SLACK_S
    assert {page.status for page in gone.values()} <= {200, 404, 504}
    assert "gone" in [each["word"] for each in visitor.api("/")["data"]["problems"]]

    async def again():
        cluster._broker = BrokerServer(cluster.world, cluster.settings, cluster.plugins)
        await cluster._broker.start()

    running.run(again())

    def answers():
        visitor.cluster.forget()
        found = visitor.api("/brokers")["data"]["brokers"]
        return [each["answers"] and each["registered"] for each in found] == [True]

    wait_until(answers, "the broker under its new address")
    assert running.broker_address != old
    visitor.cluster.forget()
    back, _ = at_once(visitor, live)
    assert {path: page.status for path, page in back.items()} == dict.fromkeys(live, 200)
    assert visitor.api("/")["data"]["problems"] == []


def test_brokers_without_plugins_are_shown_by_what_they_serve(visitor, monkeypatch):
    """RequestNotServed for each request of GantryMQ's own, at the lowest place: no page fails."""
    visitor.running.create_topic("Orders", 1)
    visitor.running.send("Orders", b"1")
    commit(visitor, "billing", "Orders", 0)
    visitor.get("/")
    admin = visitor.cluster.admin
    real, refused = admin.request_parsed, []

    async def plain(address, code, *args, **more):
        if int(code) >= 65_000:
            refused.append(int(code))
            raise RequestNotServed(int(code), address, "request type not supported")
        return await real(address, code, *args, **more)

    monkeypatch.setattr(admin, "request_parsed", plain)
    visitor.cluster.forget()
    visitor.cluster.kept.clear()
    (state,) = visitor.api("/brokers")["data"]["brokers"]
    found, _ = at_once(visitor, addresses(visitor, state["name"]))
    assert {path: page.status for path, page in found.items() if page.status not in (200, 404)} == {
        "/groups/billing/member": 400  # no member was named
    }
    assert len(set(refused)) >= 5
    assert "nobody-online" in [each["reason"] for each in visitor.api("/groups/billing")["data"]["findings"]]
    row = next(each for each in visitor.api("/groups")["data"]["groups"] if each["name"] == "billing")
    assert (row["lag"], row["dead_letters"], row["per_s"]) == ("1", None, None)
