"""Name servers: agreement, silence, settings, and the key-value table."""

from __future__ import annotations

import attrs
from console_visitor import Visitor

from gantrymq.errors import ConnectFailed
from gantrymq_console.access.users import Role

SECOND = "10.0.0.9:9876"


def with_two(visitor, monkeypatch, clusters=lambda found: found, topics=lambda found: found):
    """Let the console know a second name server, whose answers *clusters* and *topics* make of those of the first."""
    visitor.get("/nameservers")
    visitor.cluster.forget()
    admin = visitor.cluster.admin
    first = visitor.running.namesrv
    real_clusters, real_topics = admin.clusters, admin.topics
    monkeypatch.setattr(type(admin), "name_servers", property(lambda _: (first, SECOND)))

    async def of_clusters(server=None):
        found = await real_clusters(first)
        return clusters(found) if server == SECOND else found

    async def of_topics(server=None):
        found = await real_topics(first)
        return topics(found) if server == SECOND else found

    monkeypatch.setattr(admin, "clusters", of_clusters)
    monkeypatch.setattr(admin, "topics", of_topics)


def test_one_name_server(visitor):
    page = visitor.get("/nameservers")
    assert "1 name server" in page.text and "answers" in page.text
    assert "has no keys" in page.text
    twin = visitor.api("/nameservers")["data"]["servers"]["servers"]
    assert len(twin[0]["brokers"]) == 1 and twin[0]["topics"] > 5


def test_name_servers_that_agree(visitor, monkeypatch):
    with_two(visitor, monkeypatch)
    assert "They know the same brokers and topics." in visitor.get("/nameservers").text


def test_name_servers_that_disagree_are_told_with_what_they_lack(visitor, monkeypatch):
    visitor.running.create_topic("Orders", 4)

    def without_orders(found):
        return tuple(each for each in found if each != "Orders")

    with_two(visitor, monkeypatch, lambda found: attrs.evolve(found, brokers=()), without_orders)
    page = visitor.get("/nameservers")
    assert "The name servers do not agree" in page.text
    assert "does not know broker broker-a:0 at" in page.text and "lacks 1 topic: Orders" in page.text


def test_a_silent_name_server_is_named(visitor, monkeypatch):
    def silent(_found):
        raise ConnectFailed("10.0.0.9:9876 cannot be reached")

    with_two(visitor, monkeypatch, silent)
    page = visitor.get("/nameservers")
    assert "does not answer: 10.0.0.9:9876 cannot be reached" in page.text and "the others agree" in page.text


def test_a_setting_of_all_name_servers_is_changed(visitor):
    page = visitor.get("/nameservers/settings?filter=orderMessageEnable")
    one = visitor.get(page.link("orderMessageEnable"))
    preview = visitor.submit(one, "/settings/orderMessageEnable", value="true")
    assert "Then true" in preview.text and "nameserver config set orderMessageEnable=true" in preview.text
    assert "use the new value of orderMessageEnable" in visitor.confirm(preview).text
    found = visitor.api("/nameservers/settings?filter=orderMessageEnable")["data"]["settings"]
    assert [each["value"] for each in found] == ["true"]
    assert visitor.get("/nameservers/settings?server=10.9.9.9:1").status == 404
    assert visitor.get("/nameservers/settings/nothing").status == 404


def test_a_key_is_set_and_removed(visitor):
    page = visitor.get("/nameservers")
    preview = visitor.submit(page, "/nameservers/kv", key="Orders", value="broker-a:4")
    assert "Now empty Then broker-a:4" in preview.text
    shown = visitor.confirm(preview)
    assert "Orders of ORDER_TOPIC_CONFIG was changed." in shown.text
    assert visitor.api("/nameservers")["data"]["values"] == {"Orders": "broker-a:4"}
    preview = visitor.submit(shown, "/nameservers/kv", key="Orders", to="delete")
    assert "Now broker-a:4 Then removed" in preview.text
    visitor.confirm(preview)
    assert visitor.api("/nameservers")["data"]["values"] == {}
    assert visitor.submit(shown, "/nameservers/kv", key="").status == 400
    assert visitor.submit(shown, "/nameservers/kv", key="a\u202e", value="x").status == 400


def test_values_with_secret_names_are_masked(visitor):
    visitor.get("/nameservers")
    visitor.running.run(visitor.cluster.admin.put_kv_value("ns", "authToken", "hunter2"))
    page = visitor.get("/nameservers?namespace=ns")
    assert "hunter2" not in page.response.text and "******" in page.text


def test_only_an_admin_may_change_name_servers(gantrymq_broker):
    with Visitor(gantrymq_broker, Role.OPERATOR, language="zh") as visitor:
        for path in ("/nameservers", "/nameservers/settings", "/nameservers/settings/orderMessageEnable"):
            page = visitor.get(path)
            assert page.status == 200
            assert not [each for each in page.forms if each.method == "post" and "/nameservers/" in each.action]
        assert visitor.request("POST", "/nameservers/kv", data={}).status_code == 403
