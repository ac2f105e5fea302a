"""Pages of connected clients."""

from __future__ import annotations

from html import escape
from urllib.parse import quote

import attrs
import pytest
from console_members import commit, join, produce
from console_visitor import Visitor

from gantrymq.model.group import GroupConfig
from gantrymq_admin.summaries import version_name
from gantrymq_console.data import clients
from gantrymq_console.web.render import id_end


def test_producers_and_consumers_are_listed_by_their_id(visitor):
    visitor.running.create_topic("Orders", 1)
    commit(visitor, "Readers", "Orders", 0)
    join(visitor, "Readers", "c1<b>", "Orders")
    with Visitor(visitor.running) as sender:
        produce(sender, "Senders", "p1")
        check_list(visitor)


def check_list(visitor):
    rows = {each["client_id"]: each for each in visitor.api("/clients")["data"]["clients"]}
    assert (rows["c1<b>"]["roles"], rows["c1<b>"]["groups"]) == (["consumer"], ["Readers"])
    assert (rows["p1"]["roles"], rows["p1"]["groups"]) == (["producer"], ["Senders"])
    only = visitor.api("/clients?role=consumer")["data"]
    assert [each["client_id"] for each in only["clients"]] == ["c1<b>"] and only["unknown"] == 0
    assert [each["client_id"] for each in visitor.api("/clients?filter=senders")["data"]["clients"]] == ["p1"]
    assert visitor.get("/clients").link("c1<b>").endswith("/clients/show?id=c1%3Cb%3E")
    assert "No client fits." in visitor.get("/clients?filter=nothing").text


def test_one_client_with_all_of_its_groups(visitor):
    visitor.running.create_topic("Orders", 1)
    for group in ("A", "B"):
        commit(visitor, group, "Orders", 0)
        join(visitor, group, "c1", "Orders")
    produce(visitor, "P", "c1")
    page = visitor.get("/clients/show?id=c1")
    assert page.link("A").endswith("/groups/A") and page.link("B").endswith("/groups/B")
    twin = visitor.api("/clients/show?id=c1")["data"]
    assert [(each["role"], each["group"]) for each in twin["connections"]] == [
        ("consumer", "A"),
        ("consumer", "B"),
        ("producer", "P"),
    ]
    assert twin["client"]["roles"] == ["consumer", "producer"]
    first = twin["connections"][0]
    assert (first["encrypted"], bool(first["listener"])) == (False, True) and twin["client"]["since_ms"] > 0
    assert "not encrypted" in page.text


def test_pages_of_clients_say_how_old_the_answer_of_a_broker_is(visitor, monkeypatch):
    visitor.running.create_topic("Orders", 1)
    commit(visitor, "Readers", "Orders", 0)
    join(visitor, "Readers", "c1", "Orders")
    known = clients.summary_page

    async def old(*given, **more):
        return attrs.evolve(await known(*given, **more), age_ms=18_000)

    monkeypatch.setattr(clients, "summary_page", old)
    for path in ("/clients", "/clients/show?id=c1"):
        age_ms = visitor.cluster.world.clock.now_ms() - visitor.api(path)["as_of_ms"]
        assert 17_000 <= age_ms < 28_000
        assert "As of" in visitor.get(path).text


def test_a_client_that_is_not_connected_is_404(visitor):
    page = visitor.get("/clients/show?id=%3Cscript%3E")
    assert page.status == 404 and "<script> is not connected" in page.text


@pytest.mark.parametrize(
    ("number", "name"),
    [(479, "5.3.3"), (401, "4.9.4"), (212, "4.0.0-SNAPSHOT"), (413, "5.0.0"), (0, "0"), (612, "612")],
)
def test_versions_are_named_as_in_rocketmq(number, name):
    assert version_name(number) == name


def test_long_ids_are_whole_texts_with_a_button_that_copies_them(visitor):
    visitor.running.create_topic("Orders", 1)

    async def create():
        await visitor.client.admin.create_group(visitor.running.broker_address, GroupConfig("Readers"))

    visitor.running.run(create())
    long = "10.0.0.1@12345#<b>0123456789abcdef"
    join(visitor, "Readers", long, "Orders")
    for path in ("/clients", "/groups/Readers/members", "/topics/Orders/groups", "/search?q=10.0.0.1@"):
        page = visitor.get(path)
        assert page.link(long)  # the text of the link is the whole id
        html = page.response.text
        assert 'data-end="89abcdef"' in html and f'data-copy="{escape(long)}"' in html
        assert f'aria-label="Copy {escape(long)}"' in html and "<b>" not in html
    assert f'data-copy="{escape(long)}"' in visitor.get(f"/clients/show?id={quote(long)}").response.text


@pytest.mark.parametrize("hostile", ["\u202e" + "x" * 40, "x" * 40 + "\u202e", "x" * 40 + "\n", "x" * 24, "é" * 40])
def test_ids_with_unusual_characters_and_short_ones_are_not_cut(hostile):
    assert id_end(hostile) == ""
    assert id_end("x" * 20 + "12345") == "xxx12345"
