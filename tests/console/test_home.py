"""The home page: what is wrong comes first, with a sentence, a link, and what to do."""

from __future__ import annotations

import attrs
import pytest
from console_members import commit
from console_visitor import Visitor
from memory_history import MemoryHistory

from gantrymq.client import Client, GroupConfig, Message
from gantrymq.client.admin import OffsetTarget
from gantrymq.errors import BrokerRefused, ConnectFailed
from gantrymq_console.access.users import Role
from gantrymq_console.data import attention as attention_data
from gantrymq_console.data import brokers as brokers_data
from gantrymq_console.data import nameservers as nameservers_data
from gantrymq_console.data import table
from gantrymq_console.data.attention import Attention, Problem
from gantrymq_console.data.brokers import CopyRow, Overview
from gantrymq_console.data.groups import GroupRow
from gantrymq_console.data.nameservers import NameServers, NameServerState
from gantrymq_console.history.reading import Mark
from gantrymq_console.values import Long
from gantrymq_console.web import responses
from gantrymq_console.web.texts import LANGUAGES, texts_of


@pytest.fixture
def quick(monkeypatch):
    """Short deadlines."""
    monkeypatch.setattr(brokers_data, "DEADLINE_S", 0.3)
    monkeypatch.setattr(brokers_data, "NAMES_S", 0.2)
    monkeypatch.setattr(nameservers_data, "DEADLINE_S", 0.3)
    monkeypatch.setattr(attention_data, "DEADLINE_S", 0.4)


HOSTILE = "<b>x</b>\u202e"


def patched(visitor, monkeypatch, name, work):
    visitor.get("/")
    visitor.cluster.forget()
    monkeypatch.setattr(visitor.cluster.admin, name, work)


def runtime(visitor, monkeypatch, **changes):
    """Let brokers report these figures too."""
    real = visitor.running.run(admin_of(visitor)).runtime_info

    async def changed(address):
        return {**await real(address), **changes}

    patched(visitor, monkeypatch, "runtime_info", changed)


async def admin_of(visitor):
    return visitor.cluster.admin


def test_home_is_as_old_as_the_oldest_figure_of_its_groups(visitor, monkeypatch):
    visitor.running.create_topic("Orders", 1)
    visitor.running.send("Orders", b"1")
    commit(visitor, "Readers", "Orders", 0)
    known = table.summary_page

    async def old(*given, **more):
        return attrs.evolve(await known(*given, **more), age_ms=18_000)

    monkeypatch.setattr(table, "summary_page", old)
    found = visitor.api("/")
    (group,) = found["data"]["groups"]
    assert found["as_of_ms"] == group["as_of_ms"] < visitor.cluster.world.clock.now_ms() - 17_000


def test_all_is_well(visitor):
    page = visitor.get("/")
    assert "Nothing needs your attention" in page.text
    assert "1 / 1 brokers answer" in page.text and "1 / 1 name servers answer" in page.text
    assert "No group has messages" in page.text
    assert visitor.api("/")["data"]["problems"] == []


def test_a_store_that_refuses_and_a_full_disk_come_first_with_what_to_do(visitor, monkeypatch):
    runtime(
        visitor,
        monkeypatch,
        storeRefusal=f"the disk is full {HOSTILE}",
        unwrittenFiles="topics.json: no space",
        commitLogDiskRatio="0.93",
    )
    page = visitor.get("/")
    assert page.text.index("refuses messages: the disk is full <b>x</b> U+202E") < page.text.index("brokers answer")
    assert "Broker broker-a refuses messages:" in [name for name, _ in page.links]
    assert page.link("Broker broker-a refuses messages:").endswith("/brokers/broker-a")
    assert "cannot save its tables: topics.json: no space" in page.text
    assert "The disk of broker broker-a is 93% full." in page.text and "Make space" in page.text
    found = visitor.api("/")["data"]["problems"]
    assert [(each["word"], each["level"]) for each in found] == [
        ("refuses", "bad"),
        ("unwritten", "bad"),
        ("disk", "bad"),
    ]


@pytest.mark.parametrize(("away", "shown"), [([], True), (["10.0.0.7:10911"], False)])
def test_copies_that_lack_something_are_named(visitor, monkeypatch, away, shown):
    rows = [
        copy_row("master", 0, "10.0.0.5:10911", in_sync_copies=1, wanted_copies=2, problem="too few <b>", lacking=True),
        copy_row("slave", 1, "10.0.0.6:10911", following=True, in_sync=True),
        copy_row("slave", 2, "10.0.0.7:10911", following=False, problem="its log differs", lacking=True),
        copy_row("slave", None, "10.0.0.7", following=False, problem="it was lost", lacking=True),
    ]
    named = [each.sentence for each in attention_data._of_copies("broker-a", rows, away)]
    assert named == ["too few <b>", *(["its log differs", "it was lost"] if shown else [])]

    async def asked(_cluster, _name, _silent):
        return tuple(rows)

    visitor.get("/")
    visitor.cluster.forget()
    monkeypatch.setattr(attention_data, "copies_of_name", asked)
    page = visitor.get("/")
    assert page.link("Master broker-a has too few copies of its log:").endswith("/brokers/broker-a")
    assert "too few <b>" in page.text and "The slave of broker-a at 10.0.0.7:10911: its log differs" in page.text
    assert "10.0.0.6" not in page.text
    found = visitor.api("/")["data"]["problems"]
    assert [(each["word"], each["level"]) for each in found] == [("copies", "bad"), ("copy", "warn"), ("copy", "warn")]


def test_two_masters_of_one_name_are_named(visitor, monkeypatch):
    visitor.get("/")
    visitor.cluster.forget()
    real = visitor.cluster.admin.clusters

    async def with_a_rival(*server):
        info = await real(*server)
        return attrs.evolve(info, brokers=tuple(attrs.evolve(each, rivals=("127.0.0.1:1",)) for each in info.brokers))

    monkeypatch.setattr(visitor.cluster.admin, "clusters", with_a_rival)
    found = visitor.api("/")["data"]["problems"]
    (name,) = (each["subject"] for each in found if each["word"] == "two_masters")
    assert "the other one is at 127.0.0.1:1" in visitor.get("/").text
    page = visitor.get(f"/brokers/{name}").text
    assert "127.0.0.1:1" in page and "two brokers are registered with id 0" in page


def copy_row(role, broker_id, address, **fields):
    none = dict.fromkeys((each.name for each in attrs.fields(CopyRow)), None)
    return CopyRow(**{**none, "role": role, "broker_id": broker_id, "address": address, "problem": "", **fields})


def test_a_broker_that_is_closed_for_writing_is_named_with_what_to_do(visitor):
    form = visitor.get("/brokers/broker-a")
    closed = visitor.confirm(visitor.submit(form, "/permission"))
    assert closed.status == 200, closed.text
    visitor.cluster.forget()
    page = visitor.get("/")
    assert "Nothing needs your attention" not in page.text and "open it for writing on its page" in page.text
    named = "Broker broker-a is closed for writing: producers do not send to it, and it refuses those that do."
    assert page.link(named).endswith("/brokers/broker-a")


def test_a_silent_broker_is_named_within_the_deadline(visitor, monkeypatch, quick):
    async def never(_address):
        await visitor.cluster.world.clock.sleep(3600)

    patched(visitor, monkeypatch, "runtime_info", never)
    page = visitor.get("/")
    assert page.status == 200
    assert "does not answer. It last answered at" in page.text and "Look at its process" in page.text
    assert "No group has messages" not in page.text and "there may be others" in page.text
    assert "0 / 1 brokers answer" in page.text


def test_when_nothing_answers_any_more_all_of_it_is_named_within_the_deadline(visitor, monkeypatch, quick):
    async def never(*_args, **_options):
        await visitor.cluster.world.clock.sleep(3600)

    visitor.get("/")
    visitor.cluster.forget()
    for name in ("clusters", "topics", "groups", "runtime_info", "request_parsed"):
        monkeypatch.setattr(visitor.cluster.admin, name, never)
    page = visitor.get("/")
    assert page.status == 200
    assert "No name server answers." in page.text
    assert "does not answer. It last answered at" in page.text
    assert "0 / 1 brokers answer" in page.text and "0 / 1 name servers answer" in page.text
    assert "No group has messages" not in page.text and "Unknown: no name server answers" in page.text


@pytest.mark.parametrize("path", ["/", "/nameservers"])
def test_without_a_name_server_from_the_start_everything_is_unknown(visitor, monkeypatch, path):
    async def refused(*_given, **_more):
        raise ConnectFailed("127.0.0.1:1 refuses connections")

    visitor.get("/about")
    visitor.cluster.forget()
    for name in ("clusters", "topics", "groups", "kv_values"):
        monkeypatch.setattr(visitor.cluster.admin, name, refused)
    page = visitor.get(path)
    assert page.status == 200 and "No name server answers." in page.text
    if path == "/":
        assert "unknown brokers answer" in page.text and "unknown messages in per second" in page.text
        assert "Unknown: no name server answers, or no broker could be asked" in page.text
        assert "it is not known which brokers there are" in page.text
        assert visitor.api("/")["data"]["groups_unknown"] is None
    else:
        assert "others agree" not in page.text and "Nothing is known" in page.text
    assert visitor.get("/brokers/broker-x").status == 504  # not 404: nobody knows which brokers there are


def test_all_is_not_well_if_a_server_did_not_tell_everything(visitor, monkeypatch):
    async def refused(*_given, **_more):
        raise BrokerRefused(1, "out of order", "127.0.0.1:1")

    visitor.get("/about")
    monkeypatch.setattr(attention_data, "figures_of", refused)
    visitor.cluster.forget()
    page = visitor.get("/")
    assert "No problems were found in the known data" in page.text and "Nothing needs your attention" not in page.text
    assert "the server refused the request" in page.text and "out of order" in page.text


def test_no_name_server_answers(visitor, monkeypatch):
    async def refused(*_):
        raise ConnectFailed("127.0.0.1:1 refuses connections")

    for name in ("clusters", "topics", "groups"):
        patched(visitor, monkeypatch, name, refused)
    page = visitor.get("/")
    assert page.status == 200
    assert "No name server answers. 127.0.0.1:1 refuses connections" in page.text


def test_the_group_furthest_behind_and_one_that_nobody_consumes(visitor):
    visitor.running.create_topic("Orders", 4)

    async def fill():
        admin = visitor.cluster.admin
        async with Client(visitor.running.namesrv, world=visitor.running.cluster.world) as client:
            await client.producer("p").send(Message("Orders", b"1"))
        await admin.create_group_in(GroupConfig("billing"))
        await admin.reset_offsets("billing", "Orders", OffsetTarget.earliest())

    visitor.running.run(fill())
    visitor.cluster.forget()
    page = visitor.get("/")
    assert "No member of group billing is online: 1 message waits." in page.text
    assert page.link("billing").endswith("/groups/billing")
    (row,) = visitor.api("/")["data"]["groups"]
    assert (row["name"], row["lag"], row["members"]) == ("billing", "1", 0)


@pytest.mark.parametrize(("per_s", "told"), [(None, True), (0.0, True), (0.02, False)])
def test_a_group_whose_consumers_are_no_members_is_not_told_while_it_gets_messages(per_s, told):
    unknown = {field.name: None for field in attrs.fields(GroupRow)}
    row = GroupRow(**{**unknown, "name": "billing", "members": 0, "lag": Long(5), "per_s": per_s})
    assert [each.word for each in attention_data._of_groups((row,))] == ["nobody"] * told


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_problem_has_a_text_and_what_to_do(language):
    table = texts_of(language).table
    words = {key.removeprefix("home.problem_") for key in table if key.startswith("home.problem_")}
    assert words == {key.removeprefix("home.do_") for key in table if key.startswith("home.do_")}


def test_a_page_with_each_problem(visitor, monkeypatch):
    words = [key.removeprefix("home.do_") for key in texts_of("en").table if key.startswith("home.do_")]
    fields = {
        "name": HOSTILE,
        "server": "s",
        "address": "a",
        "percent": "9",
        "group": HOSTILE,
        "count": 2,
        "seconds": 7,
    }
    problems = tuple(Problem(word, "bad", "x", fields, ("groups", HOSTILE), 5, HOSTILE) for word in words)
    servers = NameServers((NameServerState("s", True),))

    async def all_wrong(*_):
        return Attention(problems, Overview(()), servers, (), (), 3, None, None, ())

    monkeypatch.setattr(attention_data, "_attention", all_wrong)
    page = visitor.get("/")
    assert page.status == 200 and "<b>x" not in page.response.text
    assert "3 groups were not asked for yet" in page.text and "unknown messages in per second" in page.text


def test_it_is_complete_in_chinese(gantrymq_broker):
    with Visitor(gantrymq_broker, language="zh") as visitor:
        assert "一切正常" in visitor.get("/").text


def test_a_refresh_is_rendered_once_for_all_visitors_of_a_role(gantrymq_broker, unchanged, monkeypatch):
    with Visitor(gantrymq_broker, Role.VIEWER) as visitor:
        rendered = []
        real = responses.render
        monkeypatch.setattr(responses, "render", lambda *given, **more: rendered.append(1) or real(*given, **more))
        first = visitor.request("GET", "/?part=live")
        visitor.cookies.clear()
        again = visitor.request("GET", "/?part=live")
        assert (first.text, len(rendered)) == (again.text, 1)
        third = visitor.request("GET", "/?part=live", headers={"if-none-match": first.headers["etag"]})
        assert third.status_code == 304
        assert "csrf" not in first.text and "<form" not in first.text
        visitor.request("GET", "/?part=live", headers={"accept-language": "zh"})
        assert len(rendered) == 2


def test_the_dead_letters_that_a_new_group_has_when_it_is_first_seen_are_new(gantrymq_broker):
    now_ms = gantrymq_broker.cluster.world.clock.now_ms() // 10_000 * 10_000
    past = MemoryHistory(now_ms)
    for group in ("billing", "shipping"):
        past.put("group", group, "dead_letters", {now_ms - 20_000: 2, now_ms - 10_000: 2, now_ms: 2})
    past.events = [Mark(now_ms - 20_000, "group_new", "group", "billing")]
    with Visitor(gantrymq_broker, past=past) as visitor:
        found = visitor.api("/")["data"]
        told = {
            each["subject"]: each["fields"]["count"] for each in found["problems"] if each["word"] == "dead_letters"
        }
        assert told == {"billing": "2"}
        (changed,) = [each for each in found["changes"]["kinds"] if each["word"] == "dead_letters"]
        assert [each["name"] for each in changed["changes"]] == ["billing"]


def test_dead_letters_are_counted_since_a_time_that_is_told(gantrymq_broker):
    now_ms = gantrymq_broker.cluster.world.clock.now_ms() // 10_000 * 10_000
    past = MemoryHistory(now_ms, now_ms - 240_000)
    past.put("group", "billing", "dead_letters", {now_ms - 180_000: 4, now_ms - 60_000: 4, now_ms: 8})
    with Visitor(gantrymq_broker, past=past) as visitor:
        visitor.running.run(admin_of(visitor))
        (found,) = [each for each in visitor.api("/")["data"]["problems"] if each["word"] == "dead_letters"]
        assert (found["fields"]["count"], found["since_ms"]) == ("4", now_ms - 240_000)
        page = visitor.get("/")
        assert "Group billing got 4 dead letters within the last hour" in page.text
        assert "Counted since" in page.text and "It last answered" not in page.text
        past.failure = "The disk is away."
        visitor.cluster.forget()
        assert "dead letters within" not in visitor.get("/account").text + visitor.get("/").text
