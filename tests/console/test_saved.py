"""Saved searches and links: private and shared ones, limits, roles, restarts, times that stay and times that move."""

from __future__ import annotations

import json

import pytest
from console_members import make_dead
from console_visitor import Visitor

from gantrymq.client import Credentials
from gantrymq_console.access.state import StateUnusable
from gantrymq_console.access.users import Everyone, Role, User
from gantrymq_console.data import saved
from gantrymq_console.data.saved import SavedSearches
from gantrymq_console.pages.saved import may_change, owner_of


@pytest.fixture
def ann(visitor, tmp_path):
    visitor.running.create_topic("Orders", 1)
    visitor.running.send("Orders", b"1")
    visitor.identities = Everyone(User("ann", Role.OPERATOR))
    visitor.restart(tmp_path)
    return visitor


def as_user(visitor, name, role=Role.VIEWER):
    """Let another user use the same console."""
    object.__setattr__(visitor.identities, "user", User(name, role))


def save(visitor, page="/topics?filter=Ord", name="Orders", **fields):
    return visitor.submit(visitor.get(page), "/saved/add", name=name, **fields)


def rows(visitor):
    return visitor.api("/saved")["data"]["searches"]


def change(visitor, page, action, **fields):
    (form,) = [each for each in page.forms if each.action.endswith(action)]
    return visitor.post(form.action, {**form.fields, **fields})


def test_a_search_is_saved_opened_renamed_and_deleted(ann, tmp_path):
    page = save(ann, "/topics?filter=Ord&done=1", name="  My   orders ")
    assert "My orders was saved." in page.text
    (row,) = rows(ann)
    assert (row["name"], row["page"], row["shared"], row["own"]) == ("My orders", "/topics?filter=Ord", False, True)
    opened = ann.get(page.link("My orders"))
    assert opened.url.endswith("/topics?filter=Ord") and "Orders" in opened.text
    renamed = change(ann, page, "/rename", name="Others")
    assert "My orders is now Others." in renamed.text
    ann.restart(tmp_path)
    assert [each["name"] for each in rows(ann)] == ["Others"]
    gone = change(ann, ann.get("/saved"), "/delete")
    assert "Others was deleted." in gone.text and rows(ann) == []
    assert [each.action for each in ann.audit.entries if each.result == "done"] == [
        "saved.add",
        "saved.rename",
        "saved.delete",
    ]


def test_each_page_leads_to_the_saved_searches_at_its_top(ann):
    for path in ("/", "/topics", "/search?q=x", "/saved", "/nothing-here"):
        page = ann.get(path)
        assert [text for text, _ in page.links].count("Saved searches") == 1
        assert "Search Saved searches View" in page.text
    assert ann.get(ann.get("/").link("Saved searches")).url.endswith("/saved")


def test_a_shared_search_is_seen_by_all_and_changed_by_its_owner_or_an_administrator(ann):
    save(ann, shared="on")
    save(ann, name="mine")
    as_user(ann, "bob")
    assert [(each["name"], each["owner"], each["own"], each["may_change"]) for each in rows(ann)] == [
        ("Orders", "ann", False, False)
    ]
    page = ann.get("/saved")
    assert ann.get(page.link("Orders")).status == 200
    assert not [each for each in page.forms if each.action.endswith("/rename")]
    (row,) = rows(ann)
    token = page.form("/preferences").fields["csrf"]
    refused = ann.post(f"/saved/{row['id']}/delete", {"csrf": token, "once": "x1"})
    assert refused.status == 403 and "ann saved this search" in refused.text
    as_user(ann, "ann", Role.OPERATOR)
    private = next(each["id"] for each in rows(ann) if each["name"] == "mine")
    as_user(ann, "root", Role.ADMIN)
    token = ann.get("/saved").form("/preferences").fields["csrf"]
    hidden = ann.post(f"/saved/{private}/delete", {"csrf": token, "once": "x2"})
    assert hidden.status == 404 and "no such saved search" in hidden.text
    made_private = change(ann, ann.get("/saved"), "/share")
    assert "Only its owner sees Orders." in made_private.text and rows(ann) == []
    as_user(ann, "ann", Role.OPERATOR)
    assert len(rows(ann)) == 2


def test_only_operators_share_and_only_pages_of_the_role_are_listed(ann):
    save(ann, "/bulk/groups?filter=a", name="bulk", shared="on")
    as_user(ann, "bob")
    assert rows(ann) == []
    page = ann.get("/topics")
    assert "for all users" not in page.text
    assert save(ann, name="x", shared="on").status == 403
    assert save(ann, name="x", page="/topics").status == 200
    as_user(ann, "carl", Role.OPERATOR)
    assert [each["name"] for each in rows(ann)] == ["bulk"]


def test_users_of_the_cluster_are_others_than_those_of_the_console(ann):
    save(ann, shared="on")
    (found,) = ann.running.run(ann.console.saved.all())
    of_cluster = User("ann", Role.ADMIN, credentials=Credentials("ann", "secret12"))
    assert owner_of(of_cluster) == "cluster:ann" and not may_change(of_cluster, found)
    assert may_change(User("ann", Role.VIEWER), found) and may_change(User("root", Role.ADMIN), found)


@pytest.mark.parametrize(
    "page",
    [
        "//example.com/topics",
        "https://example.com/topics",
        "/nothing-here",
        "topics",
        "",
        "/topics?filter=\x00",
        "/topics?filter=" + "x" * 2000,
        "/groups/%FF/../../x",
    ],
)
def test_addresses_that_are_no_page_of_the_console_are_refused(ann, page):
    form = ann.get("/topics").form("/saved/add")
    found = ann.post(form.action, {**form.fields, "name": "x", "page": page})
    assert found.status == 400 and "not the address of a page" in found.text
    assert rows(ann) == []


def test_names_and_numbers_are_bounded(ann, monkeypatch):
    assert "1 to 80 characters" in save(ann, name="x" * 81).text
    assert "1 to 80 characters" in save(ann, name="\u202e").text
    save(ann)
    assert "There is a search Orders already" in save(ann).text
    monkeypatch.setattr(saved, "MOST_EACH", 2)
    save(ann, name="second")
    assert "You have 2 saved searches already" in save(ann, name="third").text
    as_user(ann, "bob")
    monkeypatch.setattr(saved, "MOST", 2)
    assert "at most 2 saved searches" in save(ann, name="x").text


def test_a_file_that_cannot_be_used_is_one_sentence_and_stays(ann, tmp_path):
    (tmp_path / "saved.json.tmp").mkdir()
    assert "saved.json cannot be written" in save(ann).text
    (tmp_path / "saved.json.tmp").rmdir()
    endless = {"id": "1", "owner": "ann", "name": "x", "page": "/", "shared": True, "created_ms": float("inf")}
    for content in ("{", "[]", json.dumps({"searches": [{}]}), json.dumps({"searches": [endless]}), "[" * 100_000):
        (tmp_path / "saved.json").write_text(content)
        ann.restart(tmp_path)
        assert "saved.json" in ann.get("/saved").text
        assert (tmp_path / "saved.json").read_text() == content

    async def unreadable():
        (tmp_path / "saved.json").unlink()
        (tmp_path / "saved.json").mkdir()
        await SavedSearches(ann.running.cluster.world, tmp_path).all()

    with pytest.raises(StateUnusable, match="cannot be read"):
        ann.running.run(unreadable())


def test_the_file_has_no_bodies_and_is_for_its_owner_only(ann, tmp_path):
    save(ann, "/topics/Orders/messages?tag=A", name="x")
    assert set(json.loads((tmp_path / "saved.json").read_text())["searches"][0]) == {
        "id",
        "owner",
        "name",
        "page",
        "shared",
        "created_ms",
    }
    assert (tmp_path / "saved.json").stat().st_mode & 0o777 == 0o600


def test_a_link_has_times_relative_to_its_opening_or_those_of_now(ann):
    page = ann.get("/topics/Orders/messages?last=1")
    assert page.link("Link with the time relative to when it is opened").endswith("messages?last=1")
    fixed = page.link("Link with the times of now")
    assert "last=" not in fixed and "from=" in fixed and "to=" in fixed
    assert ann.get(fixed).status == 200
    assert ann.api("/topics/Orders/messages?last=1")["data"]["last"] == "1"
    assert len(ann.api("/topics/Orders/messages?last=24")["data"]["listing"]["rows"]) == 1
    assert ann.get("/topics/Orders/messages?last=2").status == 400
    assert page.form("/saved/add").fields["page"] == "/topics/Orders/messages?last=1"
    with Visitor(ann.running) as other:  # without a folder it is kept in memory
        assert "was saved" in save(other).text


def test_dead_letters_have_a_link_with_a_fixed_time(ann):
    ann.running.run(make_dead(ann, "billing", [b"one"]))
    page = ann.get("/groups/billing/dlq?hours=1")
    fixed = page.link("Link with the times of now")
    assert "since=" in fixed and "hours=" not in fixed
    assert ann.get(fixed).status == 200 and ann.api(f"/groups{fixed.partition('/groups')[2]}")["data"]["count"] == "1"
    late = ann.console.world.clock.now_ms() + 100_000
    assert ann.api(f"/groups/billing/dlq?since={late}")["data"]["count"] == "0"
    assert "No message became a dead letter" in ann.get(f"/groups/billing/dlq?since={late}").text
