"""Brokers and their settings: pages, changes, silent brokers, brokers of RocketMQ."""

from __future__ import annotations

from typing import get_args

import attrs
import pytest
from console_visitor import Visitor

from gantrymq.cli.server_settings import BROKER_CLOSED, NAME_SERVER_CLOSED
from gantrymq.client.admin import RequestNotServed
from gantrymq.errors import ConnectFailed
from gantrymq_admin.copies import Copy
from gantrymq_console.access.users import Role
from gantrymq_console.data import brokers as brokers_data
from gantrymq_console.data import brokers as copies_data
from gantrymq_console.data import nameservers as settings_data
from gantrymq_console.data.brokers import free_of, state_of
from gantrymq_console.data.cluster import BrokerAddress
from gantrymq_console.pages import brokers as brokers_page
from gantrymq_console.web.texts import texts_of


@pytest.fixture
def name(visitor):
    (broker,) = visitor.api("/brokers")["data"]["brokers"]
    return broker["name"]


def test_the_list_and_a_broker(visitor, name):
    page = visitor.get("/brokers")
    assert "1 broker" in page.text and "healthy" in page.text
    one = visitor.get(page.link(name))
    assert f"Broker {name}" in one.text and "open for writing" in one.text
    assert "gantrymq_group_conflicts" in one.text
    assert "Longest store of a message, ms." in one.text
    twin = visitor.api(f"/brokers/{name}")["data"]
    assert twin["broker"]["answers"] and twin["broker"]["registered"] and twin["info"]["brokerActive"] == "true"
    assert isinstance(twin["broker"]["log_max"], str)
    assert visitor.get("/brokers/nobody").status == 404


def test_settings_and_figures_have_a_meaning_in_chinese(visitor, name):
    """Brokers explain them in English; `texts/zh/meanings.toml` has the translation of each that this product has."""
    table = texts_of("zh").table
    keys = {each["key"] for each in visitor.api(f"/brokers/{name}/settings?rows=200")["data"]["settings"]}
    figures = {each["name"] for each in visitor.api(f"/brokers/{name}")["data"]["figures"]}
    assert len(keys) > 80 and len(figures) > 15
    assert not {key for key in keys if not {f"meanings.setting.{key}", f"settings.meaning_of.{key}"} & table.keys()}
    assert not {each for each in figures if f"meanings.figure.{each}" not in table}


def test_every_cause_of_a_refusal_has_a_text_in_chinese():
    rules = pytest.importorskip("gantrymq_storage_mmap.retention.rules")
    prefix = "meanings.refusal."
    known = {key.removeprefix(prefix) for key in texts_of("zh").table if key.startswith(prefix)}
    assert known == set(get_args(rules.Cause))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"storeRefusalValues": '{"folder": "/store", "percent": "96.1", "limit": 95}'}, True),
        ({"storeRefusalValues": "no JSON"}, False),
        ({"storeRefusalValues": "[1]"}, False),
        ({}, False),  # an older broker
    ],
)
def test_a_refusal_is_told_in_the_readers_language(gantrymq_broker, monkeypatch, values, told):
    with Visitor(gantrymq_broker, language="zh") as visitor:
        visitor.get("/")
        visitor.cluster.forget()
        real = visitor.cluster.admin.runtime_info

        async def full(address):
            info = await real(address)
            return {**info, "storeRefusal": "the disk of /store is full", "storeRefusalCause": "disk_ratio", **values}

        monkeypatch.setattr(visitor.cluster.admin, "runtime_info", full)
        for path in ("/", "/brokers/broker-a"):
            page = visitor.get(path)
            assert ("/store 所在磁盘已使用 96.1%" in page.text) is told
            assert '<span lang="en">the disk of /store is full' in page.response.text
            folded = '</summary><span lang="en">the disk of /store is full' in page.response.text
            assert folded is told, "words without a translation are not folded"


def test_no_state_says_that_all_is_well_while_the_disk_makes_a_broker_refuse(visitor, name, monkeypatch):
    visitor.get("/")
    visitor.cluster.forget()
    real = visitor.cluster.admin.runtime_info

    async def full(address):
        refusal = {"storeRefusal": "less than minFreeDiskBytes is free", "storeRefusalCause": "free_bytes"}
        return {**await real(address), **refusal, "commitLogDiskRatio": "0.44"}

    monkeypatch.setattr(visitor.cluster.admin, "runtime_info", full)
    page, listed, home = (visitor.get(path).text for path in (f"/brokers/{name}", "/brokers", "/"))
    assert "Sends ✗ refuses messages" in page and "✗ 44% used" in page and "State ✗ refuses messages" in page
    assert "✓ open for writing" not in page and "✗ 44% used" in listed and "✓" not in listed
    assert "✗ 44% used" in home and "44% full" not in home


@pytest.mark.parametrize(("language", "word"), [("en", "closed for writing"), ("zh", "已禁止写入")])
def test_a_broker_that_is_closed_for_writing_is_not_healthy(gantrymq_broker, language, word):
    with Visitor(gantrymq_broker, language=language) as visitor:
        visitor.confirm(visitor.submit(visitor.get("/brokers/broker-a"), "/brokers/broker-a/permission"))
        for path in ("/brokers", "/brokers/broker-a"):
            assert f"! {word}" in visitor.get(path).text, path
        (found,) = visitor.api("/brokers")["data"]["brokers"]
        assert found["writable"] is False


def test_a_silent_broker_is_named_with_the_time_of_its_last_answer(visitor, name, monkeypatch):
    visitor.get("/brokers")

    async def never(_address):
        await visitor.cluster.world.clock.sleep(3600)

    monkeypatch.setattr(visitor.cluster.admin, "runtime_info", never)
    monkeypatch.setattr(brokers_data, "DEADLINE_S", 0.2)
    visitor.cluster.forget()
    page = visitor.get(f"/brokers/{name}")
    assert "does not answer. It last answered at" in page.text and "no answer within 0.2 s" in page.text
    (found,) = visitor.api("/brokers")["data"]["brokers"]
    assert not found["answers"] and found["silent_since_ms"] > 0


def test_a_broker_that_vanished_from_the_name_servers_is_remembered(visitor, name, monkeypatch):
    visitor.get("/brokers")

    async def nobody():
        return ()

    monkeypatch.setattr(visitor.cluster, "brokers", nobody)
    visitor.cluster.forget()
    assert "not registered" in visitor.get("/brokers").text
    assert "is not registered at the name servers any more" in visitor.get(f"/brokers/{name}").text


def test_values_that_nobody_set_do_not_differ(visitor, name, monkeypatch):
    sources = {
        "bindAddress": "neither bindAddress nor brokerIP1 is set",
        "bitMapLengthConsumeQueueExt": "the filter bit map",
        "listenPort": "gantrymq start",
        "defaultQueryMaxNum": "broker.conf line 3",
    }
    real = settings_data.explained_settings

    async def explained(*given):
        return [
            attrs.evolve(each, value="77", source=sources.get(each.key, "default"))
            for each in await real(*given)
            if each.key in sources
        ]

    monkeypatch.setattr(settings_data, "explained_settings", explained)
    rows = {each["key"]: each for each in visitor.api(f"/brokers/{name}/settings")["data"]["settings"]}
    origins = {key: (each["differs"], each["origin"]) for key, each in rows.items()}
    assert origins["bindAddress"] == origins["listenPort"] == (False, "command")
    assert origins["defaultQueryMaxNum"] == (True, "given")
    assert origins.get("bitMapLengthConsumeQueueExt", (False, "computed")) == (False, "computed")
    page = visitor.get(f"/brokers/{name}/settings")
    assert page.text.count("! differs from the default") == 1 and "1 setting differs from its default" in page.text
    assert "set by the command that started the server" in page.text


def test_the_sources_of_commands_are_those_of_the_command_line():
    assert {BROKER_CLOSED, NAME_SERVER_CLOSED} <= set(settings_data.OF_COMMANDS)


def test_a_setting_is_changed_after_a_preview(visitor, name):
    page = visitor.get(f"/brokers/{name}/settings?filter=defaultQueryMaxNum")
    assert "1 setting" in page.text
    one = visitor.get(page.link("defaultQueryMaxNum"))
    assert "Most messages of one query by unique key." in one.text
    path = f"/brokers/{name}/settings/defaultQueryMaxNum"
    preview = visitor.submit(one, path, value="40")
    assert "Now 32 Then 40" in preview.text and "gone when the server restarts" in preview.text
    assert "broker config set defaultQueryMaxNum=40 -b" in preview.text
    assert "uses the new value" in visitor.confirm(preview).text
    twin = visitor.api(f"/brokers/{name}/settings?show=run_time")["data"]
    assert [(each["key"], each["value"], each["origin"]) for each in twin["settings"]] == [
        ("defaultQueryMaxNum", "40", "request")
    ]
    assert [each.change for each in visitor.audit.entries] == ["32 -> 40"] * 2
    assert "set at run time, gone at restart" in visitor.get(f"/brokers/{name}/settings?show=changed").text


def test_a_wrong_value_or_a_setting_of_the_start_is_one_sentence(visitor, name):
    one = visitor.get(f"/brokers/{name}/settings/defaultQueryMaxNum")
    preview = visitor.submit(one, "/settings/defaultQueryMaxNum", value="many")
    assert "many is not a whole number" in visitor.confirm(preview).text
    fixed = visitor.get(f"/brokers/{name}/settings/listenPort")
    assert not [each for each in fixed.forms if each.method == "post" and "/brokers/" in each.action]
    assert "cannot be changed" in fixed.text
    token = one.form("/settings/defaultQueryMaxNum").fields["csrf"]
    refused = visitor.request("POST", f"/brokers/{name}/settings/listenPort", data={"csrf": token, "value": "1"})
    assert refused.status_code == 400 and "read at the start only" in refused.text
    assert visitor.get(f"/brokers/{name}/settings/nothing").status == 404


def test_a_broker_of_rocketmq_shows_values_and_defaults_and_hides_secrets(visitor, name, monkeypatch):
    async def not_served(_admin, address):
        raise RequestNotServed(3, "request type 65026 not supported", address)

    async def values(_address):
        return {"fileReservedTime": "48", "ossSecretKey": "hunter2", "brokerName": "b", "flushDiskType": "ASYNC_FLUSH"}

    monkeypatch.setattr(settings_data, "explained_settings", not_served)
    monkeypatch.setattr(visitor.cluster.admin, "broker_settings", values)
    twin = visitor.api(f"/brokers/{name}/settings")["data"]
    found = {each["key"]: each for each in twin["settings"]}
    assert (found["fileReservedTime"]["default"], found["fileReservedTime"]["differs"]) == ("72", True)
    assert found["brokerName"]["differs"] is None and found["flushDiskType"]["differs"] is False
    page = visitor.get(f"/brokers/{name}/settings")
    assert "hunter2" not in page.response.text and "******" in page.text
    assert "Hours after which log files expire." in page.text
    one = visitor.get(f"/brokers/{name}/settings/ossSecretKey")
    preview = visitor.submit(one, "/ossSecretKey", value="hunter3")
    assert "hunter3" not in preview.text and "so it stays after a restart" in preview.text


def test_cleaning_up(visitor, name):
    page = visitor.get(f"/brokers/{name}")
    preview = visitor.submit(page, f"/brokers/{name}/clean", what="topics")
    assert "deletes the queues of topics that do not exist any more" in preview.text
    assert ">Delete the queues of deleted topics</button>" in preview.response.text
    assert "cleaned up" in visitor.confirm(preview).text


def test_only_an_admin_may_change_a_broker(gantrymq_broker):
    with Visitor(gantrymq_broker, Role.OPERATOR) as visitor:
        (broker,) = visitor.api("/brokers")["data"]["brokers"]
        for path in ("", "/settings", "/settings/defaultQueryMaxNum"):
            page = visitor.get(f"/brokers/{broker['name']}{path}")
            assert page.status == 200
            assert not [each for each in page.forms if each.method == "post" and "/brokers/" in each.action]
        for path in ("permission", "clean", "forget", "settings/defaultQueryMaxNum"):
            assert visitor.request("POST", f"/brokers/{broker['name']}/{path}", data={}).status_code == 403


@pytest.mark.parametrize(
    ("capacity", "used", "expected"),
    [
        ("Total : 252.0 GiB, Free : 184.9 GiB.", 0.74, ("23.6 GiB", True)),  # RocketMQ 5.3.3; df: 24 GiB available
        ("Total : 252.0 GiB, Free : 24.0 GiB.", 0.7365, ("24.0 GiB", False)),  # GantryMQ on the same disk
        ("Total : 100.0 GiB, Free : 60.0 GiB.", 0.41, ("60.0 GiB", False)),  # a share that was rounded up
        ("Total : 100.0 GiB, Free : 60.0 GiB.", 0.4, ("60.0 GiB", False)),  # of the whole disk, as before RocketMQ 5
        ("Total : 1.0 TiB, Free : 500.0 GiB.", 1.0, ("0.0 B", True)),
        ("Total : 1000 B, Free : 200 B.", 0.0, ("200 B", False)),
        ("Total : 1000 B, Free : 200 B.", None, ("200 B", False)),
        ("Total : 1.0.0 GiB, Free : 1.0 GiB.", 0.5, ("1.0 GiB", False)),
        ("Total : 9 parsecs, Free : 1.0 GiB.", 0.5, ("1.0 GiB", False)),
        ("", 0.5, ("", False)),
    ],
)
def test_free_space_is_what_the_broker_may_use(capacity, used, expected):
    """The free space of Java's brokers has the blocks reserved for root."""
    assert free_of(capacity, used) == expected


def test_a_computed_free_space_is_said_to_be_one(visitor, monkeypatch):
    visitor.get("/about")
    real = visitor.cluster.admin.runtime_info

    async def reserved(address):
        capacity = "Total : 252.0 GiB, Free : 184.9 GiB."
        return {**await real(address), "commitLogDirCapacity": capacity, "commitLogDiskRatio": "0.74"}

    monkeypatch.setattr(visitor.cluster.admin, "runtime_info", reserved)
    for path in ("/", "/brokers", "/brokers/broker-a"):
        page = visitor.get(path).text
        assert "74% used about 23.6 GiB free" in page, path


def test_the_state_of_other_versions():
    at = BrokerAddress("c", "b", 0, "10.0.0.1:10911")
    java4 = state_of(at, {"putTps": "1.5 2 3", "getTransferedTps": "4.0 0 0", "commitLogDiskRatio": "0.91"})
    assert (java4.in_per_s, java4.out_per_s, java4.disk_word, java4.active) == (1.5, 4.0, "bad", None)
    empty = state_of(at, {"putTps": "x", "commitLogMinOffset": ""})
    assert (empty.in_per_s, empty.log_bytes, empty.disk_word) == (None, None, "unknown")


@pytest.mark.parametrize("path", ["/brokers", "/brokers/{}", "/brokers/{}/settings", "/brokers/{}/settings/brokerName"])
def test_pages_in_chinese(gantrymq_broker, path):
    with Visitor(gantrymq_broker, language="zh") as visitor:
        (broker,) = visitor.api("/brokers")["data"]["brokers"]
        assert visitor.get(path.format(broker["name"])).status == 200


def test_master_and_slaves_are_shown_if_there_are_slaves(visitor, name, monkeypatch):
    assert "Master and slaves" not in visitor.get(f"/brokers/{name}").text
    assert visitor.api(f"/brokers/{name}")["data"]["copies"] == []

    async def asked(_admin, addresses, _now_ms, _rivals, _silent):
        return [
            Copy(
                role="master", id=0, address=addresses[0], end=2**60, in_sync_copies=2, wanted_copies=3, problem="few"
            ),
            Copy(role="slave", id=1, address="a:1", end=2**60, lag_bytes=0, lag_s=0.0, in_sync=True, following=True),
            Copy(role="slave", id=2, address="a:2", end=None, following=False, problem="its log is <longer>"),
        ]

    async def slave_named(context, broker_id):
        return attrs.evolve((await context.cluster.brokers())[0], broker_id=1, address="localhost:1")

    monkeypatch.setattr(copies_data, "ask_copies", asked)
    visitor.cluster.forget()
    page = visitor.get(f"/brokers/{name}")
    assert "Master and slaves" in page.text and "2, wanted 3" in page.text
    assert "slave 1" in page.text and "follows" in page.text
    assert "does not follow its log is <longer>" in page.text
    assert "open for writing" in page.text and "refused: a slave takes messages" not in page.text
    monkeypatch.setattr(brokers_page, "named", slave_named)
    assert "refused: a slave takes messages" in visitor.get(f"/brokers/{name}").text
    shown = visitor.api(f"/brokers/{name}")["data"]["copies"]
    assert [each["end"] for each in shown] == [str(2**60), str(2**60), None]
    assert [each["following"] for each in shown] == [None, True, False]


def test_an_elected_master_is_shown_with_its_epoch_and_its_set(visitor, name, monkeypatch):
    async def asked(_admin, addresses, _now_ms, _rivals, _silent):
        elected = {"epoch": 7, "elected_id": 3, "in_sync_set": (1, 3), "problem": "this master is fenced"}
        return [Copy(role="master", id=0, address=addresses[0], end=9, in_sync_copies=2, wanted_copies=1, **elected)]

    monkeypatch.setattr(copies_data, "ask_copies", asked)
    visitor.cluster.forget()
    page = visitor.get(f"/brokers/{name}").text
    assert "Broker id 3, elected for epoch 7. In-sync set: 1, 3." in page and "this master is fenced" in page
    (shown,) = visitor.api(f"/brokers/{name}")["data"]["copies"]
    assert (shown["epoch"], shown["elected_id"], shown["in_sync_set"]) == (7, 3, [1, 3])
    (problem,) = visitor.api("/")["data"]["problems"]
    assert (problem["word"], problem["sentence"]) == ("refuses", "this master is fenced")


def test_the_list_names_copies_that_only_the_master_knows(visitor, name, monkeypatch):
    assert "not registered" not in visitor.get("/brokers").text

    async def copies(_admin, addresses, _now_ms, _rivals, _silent):
        elected = {"epoch": 7, "elected_id": 3, "in_sync_set": (3,)}
        master = Copy(role="master", id=0, address=addresses[0], end=9, in_sync_copies=1, wanted_copies=1, **elected)
        gone = "the master has no connection of it since today"
        return [
            master,
            Copy(role="slave", id=None, address="broker id 2", end=None, following=False, problem=gone, elected_id=2),
        ]

    monkeypatch.setattr(copies_data, "ask_copies", copies)
    visitor.cluster.forget()
    found = visitor.api("/brokers")["data"]
    assert [each["name"] for each in found["brokers"]] == [name]
    assert [(of, each["address"]) for of, each in found["unregistered"]] == [(name, "broker id 2")]
    page = visitor.get("/brokers").text
    assert "Slaves that are not registered" in page and "does not follow the master has no connection of it" in page


def test_a_broker_that_is_gone_is_forgotten(visitor, name, monkeypatch):
    asked = []

    async def copies(_admin, addresses, _now_ms, _rivals, _silent):
        elected = {"epoch": 7, "elected_id": 3, "in_sync_set": (3,)}
        master = Copy(role="master", id=0, address=addresses[0], end=9, in_sync_copies=1, wanted_copies=1, **elected)
        gone = "the master has no connection of it since today"
        away = Copy(role="slave", id=None, address="broker id 2", end=None, following=False, problem=gone, elected_id=2)
        return [master, *([] if asked else [away])]

    async def forget(_admin, found, member):
        asked.append((found, member))

    async def elected(_cluster, broker):
        return broker

    monkeypatch.setattr(copies_data, "ask_copies", copies)
    monkeypatch.setattr(brokers_page, "forget_broker", forget)
    visitor.cluster.forget()
    page = visitor.get(f"/brokers/{name}")
    preview = visitor.submit(page, f"/brokers/{name}/forget")
    assert f"gantrymq cluster forget {name} 2" in preview.text and "will forget broker id 2" in preview.text
    refused = visitor.confirm(preview)  # the real broker's role is fixed
    assert "is fixed by settings, not elected" in refused.text and not asked
    monkeypatch.setattr(brokers_page, "elected_set", elected)
    done = visitor.confirm(visitor.submit(visitor.get(f"/brokers/{name}"), f"/brokers/{name}/forget"))
    assert asked == [(name, 2)]
    assert f"Broker id 2 of {name} is forgotten." in done.text and "Forget this broker" not in done.text
    wrong = visitor.submit(page, f"/brokers/{name}/forget", member="x")
    assert "x is no id of a broker in an elected set" in wrong.text


def test_a_broker_that_tells_nonsense_of_its_slaves_is_still_shown(visitor, name, monkeypatch):
    async def nonsense(_address, _code, *_more, what):
        return {"haConnectionInfo": ["x"], "what": what}

    monkeypatch.setattr(visitor.cluster.admin, "request_json", nonsense)
    visitor.cluster.forget()
    page = visitor.get(f"/brokers/{name}")
    assert "healthy" in page.text and "Master and slaves" not in page.text


def test_the_settings_of_a_broker_that_does_not_answer_are_unknown(visitor, name, monkeypatch):
    visitor.get("/brokers")

    async def gone(_admin, _address):
        raise ConnectFailed("connection refused")

    monkeypatch.setattr(settings_data, "explained_settings", gone)
    page = visitor.get(f"/brokers/{name}/settings")
    assert page.status == 200 and "is missing" in page.text and page.link("State")
    assert "from their default" not in page.text and "Nothing is known" in page.text
    assert visitor.api(f"/brokers/{name}/settings")["missing"]
