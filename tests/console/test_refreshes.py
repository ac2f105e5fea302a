"""Refreshes of open pages: what visitors share, and what they must not."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest
from console_visitor import Visitor
from polling import wait_until

from gantrymq.errors import ClientError
from gantrymq_console.access.users import Role, User
from gantrymq_console.web import console, responses


class Changing:
    """One visitor at a time, whose role a test changes."""

    role = Role.ADMIN

    async def user_of(self, request):
        return User(f"a {self.role.word}", self.role)

    def login_path(self):
        return None


@pytest.fixture
def visitor(gantrymq_broker):
    found = Visitor(gantrymq_broker)
    found.identities = Changing()
    with found:
        gantrymq_broker.create_topic("Orders", 1)
        yield found


@pytest.fixture
def asked(visitor, monkeypatch):
    """The topics whose offsets were asked for."""
    topics = []
    visitor.get("/")
    real = visitor.cluster.admin.topic_stats

    async def noting(address, topic):
        topics.append(topic)
        return await real(address, topic)

    monkeypatch.setattr(visitor.cluster.admin, "topic_stats", noting)
    return topics


def live(visitor, path="/topics/Orders", **headers):
    return visitor.request("GET", f"{path}{'&' if '?' in path else '?'}part=live", headers=headers)


def test_visitors_of_a_page_share_one_view_and_its_html(visitor, asked, unchanged, monkeypatch):
    rendered = []
    real = responses.render
    monkeypatch.setattr(responses, "render", lambda *args, **more: rendered.append(args[0]) or real(*args, **more))
    first = live(visitor)
    assert [live(visitor).text for _ in range(5)] == [first.text] * 5
    assert len(asked) == 1 and len(rendered) == 1
    assert live(visitor, **{"if-none-match": first.headers["etag"]}).status_code == 304
    assert len(asked) == 1 and len(rendered) == 1


def test_a_view_is_kept_for_a_short_time_only(visitor, asked, monkeypatch):
    monkeypatch.setattr(console, "AGE_S", 0.0)
    monkeypatch.setattr(console, "LATE_S", 0.0)
    live(visitor)
    visitor.running.send("Orders", b"1")
    assert ">1<" in live(visitor).text and len(asked) == 2


def test_an_old_view_is_shown_while_a_new_one_takes_long(visitor, monkeypatch):
    monkeypatch.setattr(console, "AGE_S", 0.0)
    monkeypatch.setattr(console, "LATE_S", 600.0)
    monkeypatch.setattr(console, "MINUTE_MS", 2**62)
    free = asyncio.Event()
    first = live(visitor)
    real = visitor.cluster.admin.topic_stats

    async def slow(address, topic):
        await free.wait()
        return await real(address, topic)

    monkeypatch.setattr(visitor.cluster.admin, "topic_stats", slow)
    visitor.running.send("Orders", b"1")
    again = live(visitor)
    assert again.text == first.text and int(again.headers["age"]) >= 0
    free.set()
    wait_until(lambda: ">1<" in live(visitor).text, "the new view")
    monkeypatch.setattr(visitor.cluster.admin, "topic_stats", real)
    monkeypatch.setattr(console, "LATE_S", 0.0)
    visitor.running.send("Orders", b"2")
    assert ">2<" in live(visitor).text


def test_an_answer_that_is_too_old_or_failed_is_not_shown_any_more(visitor):
    cluster = visitor.cluster

    async def run():
        free, responses = asyncio.Event(), iter([1, 2, ClientError("no"), 3])

        async def make():
            found = next(responses)
            if found != 1:
                await free.wait()
            if isinstance(found, Exception):
                raise found
            return found

        seen = [(await cluster.shared("n", 0, make, 600)).value for _ in range(2)]
        waiting = asyncio.ensure_future(cluster.shared("n", 0, make, 0))
        free.set()
        seen.append((await waiting).value)
        with pytest.raises(ClientError):
            await cluster.shared("n", 0, make, 600)
        seen.append((await cluster.shared("n", 0, make, 600)).value)
        return seen

    assert visitor.running.run(run()) == [1, 1, 2, 3]


def test_somebody_who_opens_a_page_gets_a_new_view_and_so_does_everybody_after_a_change(visitor, asked, unchanged):
    live(visitor)
    visitor.get("/topics/Orders")
    assert len(asked) == 2
    live(visitor)
    assert len(asked) == 2
    visitor.post("/preferences", {})  # no action of a part
    live(visitor)
    assert len(asked) == 2
    form = visitor.get("/topics/Orders/settings")
    preview = visitor.submit(form, "/topics/Orders/settings", read_queues="4", write_queues="4")
    assert visitor.confirm(preview).status == 200
    asked.clear()
    live(visitor)
    assert len(asked) == 1


def test_roles_and_languages_do_not_share(visitor, asked, unchanged):
    for role in (Role.VIEWER, Role.ADMIN):
        visitor.identities.role = role
        live(visitor)
    live(visitor, **{"accept-language": "zh"})
    assert len(asked) == 3
    name = visitor.api("/brokers")["data"]["brokers"][0]["name"]
    assert "<form" in live(visitor, f"/brokers/{name}").text
    visitor.identities.role = Role.VIEWER
    assert "<form" not in live(visitor, f"/brokers/{name}").text


def test_browsers_share_the_html_of_forms_but_not_their_tokens_and_ids(visitor, page, monkeypatch):
    rendered = []
    real = responses.render
    monkeypatch.setattr(responses, "render", lambda *args, **more: rendered.append(args[0]) or real(*args, **more))
    tokens, ids = [], []
    for _ in range(2):
        visitor.cookies = httpx.Cookies()
        shown = live(visitor, page).text
        found = re.findall(r'name="csrf" value="(\w+)"', shown)
        assert found and len(set(found)) == 1
        tokens.append(found[0])
        ids += re.findall(r'name="once" value="(\w+)"', shown)
        assert len(found) == shown.count("<form ")
    assert len(rendered) == 1
    assert tokens[0] != tokens[1] == re.findall(r'name="csrf" value="(\w+)"', visitor.request("GET", page).text)[0]
    assert len(ids) == 2 * len(found) == len(set(ids))


@pytest.fixture
def page(visitor, unchanged):
    """The address of a page with a form and a button of administrators, whose data stay the same."""
    return f"/brokers/{visitor.api('/brokers')['data']['brokers'][0]['name']}"


def test_the_response_to_a_form_is_no_refresh(visitor, unchanged):
    """Else its typed values and errors would be what others get."""
    path = "/topics/Orders/settings?part=live"
    form = visitor.get("/topics/Orders/settings").form("/settings").fields
    answer = visitor.request("POST", path, data={**form, "read_queues": "typed"})
    assert answer.status_code == 400 and "typed" in answer.text and "etag" not in answer.headers
    assert "typed" not in live(visitor, "/topics/Orders/settings").text


def test_another_session_gets_its_own_form(visitor, page):
    live(visitor, page)  # the browser gets its id
    first = live(visitor, page).headers["etag"]
    assert live(visitor, page, **{"if-none-match": first}).status_code == 304
    visitor.cookies = httpx.Cookies()
    visitor.get(page)
    found = live(visitor, page, **{"if-none-match": first})
    assert found.status_code == 200 and found.headers["etag"] != first


def test_a_console_that_was_restarted_sends_its_new_token(visitor, page):
    live(visitor, page)
    first = live(visitor, page).headers["etag"]
    visitor.app.tokens._key = b"k" * 32
    assert live(visitor, page, **{"if-none-match": first}).status_code == 200


@pytest.mark.parametrize("path", ["/brokers", "/topics/Orders"])
def test_another_role_or_zone_gets_its_own_page(visitor, page, path):
    """The data of these pages are the same for every role, but the buttons are not."""
    live(visitor, path)
    first = live(visitor, path).headers["etag"]
    assert live(visitor, path, **{"if-none-match": first}).status_code == 304
    visitor.cookies.set("zone", "utc")
    assert live(visitor, path, **{"if-none-match": first}).status_code == 200
    visitor.cookies.delete("zone")
    visitor.identities.role = Role.VIEWER
    assert live(visitor, path, **{"if-none-match": first}).status_code == 200


def test_what_is_kept_is_bounded(visitor, asked):
    for number in range(console.MOST_KEPT + 5):
        live(visitor, f"/topics/Orders?start={number}")
    kept = visitor.console.refreshes
    assert len(kept._views) == len(kept._texts) == len(kept._tags) == console.MOST_KEPT
    assert len([key for key in visitor.cluster._shared if key[0] == "view"]) == console.MOST_KEPT


def test_pages_of_jobs_and_pages_without_refreshes_are_not_shared(visitor):
    shared = {each.path for part in visitor.console.sections for each in part.pages if each.shared}
    assert {"/", "/topics", "/groups/{group}"} <= shared
    assert not [path for path in shared if path.endswith("{job}") or path.startswith(("/account", "/messages"))]
