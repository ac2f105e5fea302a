"""Closing a broker for writing, and what is left to consume there before it may be stopped."""

from __future__ import annotations

import attrs
import pytest
from console_members import commit, join
from console_visitor import Visitor
from polling import wait_until

from gantrymq.client import Message
from gantrymq.client.admin import RequestNotServed
from gantrymq.client.message import TransactionState
from gantrymq.errors import BrokerRefused, ConnectFailed
from gantrymq.model.group import GroupConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.send import ConsumerSendMsgBackRequest
from gantrymq_console.access.users import Role
from gantrymq_console.data import draining as data
from gantrymq_console.data.draining import Left, _delayed, _Known, _Row

NAME = "broker-a"
PATH = f"/brokers/{NAME}/drain"


@pytest.fixture
def filled(visitor, monkeypatch):
    """A broker with a message that the group billing has not consumed."""
    monkeypatch.setattr(data, "_LATELY_MS", 1000)
    visitor.running.create_topic("Orders", 1)
    visitor.running.send("Orders", b"1")
    commit(visitor, "billing", "Orders", 0)
    return visitor


def left(visitor):
    return visitor.api(PATH)["data"]["left"]


def until_waits_for(visitor, *words):
    """Wait until the broker waits for exactly this."""
    seen = []

    def look():
        seen[:] = [left(visitor)]
        return seen[0] if seen[0]["waits_for"] == list(words) else None

    return wait_until(look, f"{words}", 40, lambda: str(seen))


def close(visitor):
    return visitor.confirm(visitor.submit(visitor.get(PATH), "/permission"))


def test_a_broker_is_closed_drained_and_opened(filled):
    page = filled.get(filled.get(f"/brokers/{NAME}").link("Drain"))
    assert "open for writing" in page.text and "must not be stopped" not in page.text
    preview = filled.submit(page, "/permission")
    assert preview.response.text.count("Close for writing</button>") == 1 and "Change whether" not in preview.text
    assert "6 → 4 brokerPermission" in preview.text and "messages in per second now" in preview.text
    assert "There is no other master in this cluster" in preview.text and "a restart opens it, too" in preview.text
    assert f"gantrymq broker config set brokerPermission=4 -b {filled.running.broker_address}" in preview.text
    closed = filled.confirm(preview)
    assert "closed for writing (brokerPermission 4)" in closed.text and "It must not be stopped yet" in closed.text
    assert "1 group with messages left here" in closed.text and "1 of 1 group has messages left" in closed.text
    assert closed.link("billing")
    (group,) = left(filled)["groups"]
    assert (group["name"], group["lag"], group["retries"], group["members"]) == ("billing", "1", "0", 0)
    assert group["late_ms"] > 0 and "nobody" in closed.text
    commit(filled, "billing", "Orders", 1)
    done = until_waits_for(filled)
    assert done["empty"] and done["done"] == done["total"] == 1
    page = filled.get(PATH)
    assert f"Nothing is left at {NAME}: it may be stopped now." in page.text and "must not" not in page.text
    opened = filled.confirm(filled.submit(page, "/permission"))
    assert "is open for writing" in opened.text and "closed for writing" not in opened.text
    assert "open" in left(filled)["waits_for"] and not left(filled)["empty"]
    changes = [each.change for each in filled.audit.entries if each.result == "done"]
    assert changes == ["brokerPermission 6 -> 4", "brokerPermission 4 -> 6"]


def without_summaries(monkeypatch):
    """Let the broker be one of RocketMQ, which does not serve our requests."""

    async def not_served(_admin, address, *_given, **_more):
        raise RequestNotServed(3, "request type 65023 not supported", address)

    monkeypatch.setattr(data, "summary_page", not_served)
    monkeypatch.setattr(data, "list_transactions", not_served)


def test_a_broker_of_rocketmq_is_asked_group_by_group(filled, monkeypatch):
    without_summaries(monkeypatch)
    for number in range(12):
        commit(filled, f"group{number}", "Orders", 1)
    close(filled)
    found = until_waits_for(filled, "groups")
    assert [each["name"] for each in found["groups"]] == ["billing"] and found["total"] == 13
    assert found["halves"] == "0" and found["halves_at_most"]
    asked = []
    real = data.ask_group

    async def noted(cluster, address, name):
        asked.append(name)
        return await real(cluster, address, name)

    monkeypatch.setattr(data, "ask_group", noted)
    left(filled)
    assert asked == ["billing"], "groups without messages left are asked again only when something was stored"
    commit(filled, "billing", "Orders", 1)
    assert until_waits_for(filled)["empty"]


def test_groups_that_the_deadline_does_not_permit_to_ask_are_said(filled, monkeypatch):
    without_summaries(monkeypatch)
    monkeypatch.setattr(data, "_RESERVE_S", 1000.0)
    close(filled)
    found = left(filled)
    assert (found["unasked"], found["total"], found["empty"]) == (1, 1, False) and "checking" in found["waits_for"]
    assert "0 of 1 group has messages left; 1 is being asked again" in filled.get(PATH).text


def test_a_group_that_the_broker_refuses_to_tell_of_is_not_done(filled, monkeypatch):
    without_summaries(monkeypatch)
    close(filled)

    async def refused(_cluster, address, _name):
        raise BrokerRefused(16, "no permission", address)

    monkeypatch.setattr(data, "ask_group", refused)
    assert left(filled)["unasked"] == 1 and not left(filled)["empty"]


@pytest.mark.slow
def test_a_message_that_is_stored_makes_what_was_known_old(filled):
    commit(filled, "billing", "Orders", 1)
    close(filled)
    assert until_waits_for(filled)["empty"]
    filled.running.send("Orders", b"2")  # of a producer with an old route
    found = left(filled)
    assert not found["empty"] and found["arrives"]
    commit(filled, "billing", "Orders", 2)
    assert until_waits_for(filled)["empty"]


def test_messages_that_failed_wait_for_another_try(filled):
    pytest.importorskip("gantrymq_schedule")
    sent = filled.running.send("Orders", b"2")
    join(filled, "billing", "c1", "Orders")
    back = ConsumerSendMsgBackRequest(
        offset=int(sent.offset_id[16:], 16), group="billing", delay_level=18, origin_topic="Orders"
    )
    admin = filled.client.admin
    filled.running.run(admin.request(filled.running.broker_address, RequestCode.CONSUMER_SEND_MSG_BACK, back))
    commit(filled, "billing", "Orders", 2)
    close(filled)
    assert until_waits_for(filled, "delayed")["delayed"] == "1"
    page = filled.get(PATH)
    assert "Delayed messages and later tries 1" in page.text and "another try" in page.text
    assert filled.get(page.link("Show them")).status == 200


def test_undecided_transactions_are_left(filled, monkeypatch):
    pytest.importorskip("gantrymq_transaction")

    half_message(filled)
    commit(filled, "billing", "Orders", 1)
    close(filled)
    found = until_waits_for(filled, "halves")
    assert (found["halves"], found["halves_at_most"]) == ("1", False)
    assert "Undecided transactions 1" in filled.get(PATH).text
    without_summaries(monkeypatch)
    assert left(filled)["halves_at_most"]


def half_message(visitor):
    """Leave a transaction undecided."""

    async def work():
        producer = visitor.client.transaction_producer("shop", lambda message: TransactionState.UNKNOWN)
        async with producer.transaction(Message("Orders", b"half")) as transaction:
            transaction.state = TransactionState.UNKNOWN

    visitor.running.run(work())


def test_a_group_whose_members_keep_their_offsets_is_unknown(filled):
    join(filled, "watchers", "c1", "Orders", messageModel="BROADCASTING")
    commit(filled, "billing", "Orders", 1)
    close(filled)
    found = until_waits_for(filled, "groups_unknown")
    assert [(each["name"], each["lag"]) for each in found["groups"]] == [("watchers", None)]
    assert "whose members keep their offsets themselves" in filled.get(PATH).text


def test_a_broker_that_does_not_answer_is_not_empty(filled, monkeypatch):
    close(filled)

    async def never(_address):
        raise ConnectFailed("connection refused")

    monkeypatch.setattr(filled.cluster.admin, "runtime_info", never)
    page = filled.get(PATH)
    assert page.status == 200 and "is missing" in page.text and "may be stopped" not in page.text
    found = left(filled)
    assert not found["empty"] and (found["permission"], found["delayed"], found["total"]) == (None, None, None)


@pytest.mark.parametrize("failing", ["broker_settings", "groups", "group_progress"])
def test_what_cannot_be_asked_is_not_zero(filled, monkeypatch, failing):
    without_summaries(monkeypatch)
    commit(filled, "billing", "Orders", 1)
    close(filled)
    assert until_waits_for(filled)["empty"]

    async def refused(address, *_given):
        raise BrokerRefused(16, "no permission", address)

    monkeypatch.setattr(filled.cluster.admin, failing, refused)
    found = filled.api(PATH)
    assert not found["data"]["left"]["empty"] and "no permission" in str(found["missing"])
    assert filled.get(PATH).status == 200


def test_closed_at_the_name_servers_only(filled):
    filled.running.run(filled.client.admin.wipe_write_permission(NAME))
    filled.cluster.forget()
    page = filled.get(PATH)
    assert "closed at the name servers only" in page.text
    assert [each.fields["to"] for each in page.forms if each.action.endswith("/permission")] == ["open", "close"]
    opened = filled.confirm(
        filled.post(f"/brokers/{NAME}/permission", page.form("/preferences").fields | {"to": "open"})
    )
    assert "is open for writing" in opened.text and left(filled)["routed"]


def test_a_permission_that_is_no_number(filled, monkeypatch):
    async def strange(_address):
        return {"brokerPermission": "rw"}

    without = RequestNotServed(3, "not supported", "a:1")

    async def not_served(*_):
        raise without

    monkeypatch.setattr("gantrymq_console.data.nameservers.explained_settings", not_served)
    page = filled.get(PATH)
    monkeypatch.setattr(filled.cluster.admin, "broker_settings", strange)
    refused = filled.submit(page, "/permission")
    assert "brokerPermission=rw, which is no number" in refused.text
    assert left(filled)["permission"] is None


def test_only_an_admin_closes_a_broker(gantrymq_broker):
    with Visitor(gantrymq_broker, Role.OPERATOR) as visitor:
        page = visitor.get(PATH)
        assert page.status == 200 and "you need the role administrator" in page.text
        assert not [each for each in page.forms if each.action.endswith("/permission")]
        assert visitor.request("POST", f"/brokers/{NAME}/permission", data={"to": "close"}).status_code == 403


def test_in_json(filled):
    headers = {"x-csrf-token": filled.api("/account")["data"]["csrf_token"]}
    path = f"/api/v1/brokers/{NAME}/permission"
    looked = filled.request("POST", path, json={"to": "close", "dry_run": "true"}, headers=headers).json()
    assert (looked["old"], looked["new"]) == (6, 4) and left(filled)["permission"] == 6
    done = filled.request("POST", path, json={"to": "close"}, headers=headers).json()
    assert done["done"] and done["data"] == {"brokerPermission": 4} and left(filled)["permission"] == 4
    wrong = filled.request("POST", path, json={"to": "shut"}, headers=headers)
    assert wrong.status_code == 400 and "close, open" in wrong.json()["error"]


def test_many_groups_are_shown_page_by_page(filled):
    for number in range(60):
        commit(filled, f"group{number:02}", "Orders", 0)
    page = filled.get(f"{PATH}?rows=50")
    assert "61 groups with messages left here" in page.text and "1 to 50 of 61" in page.text
    assert "51 to 61 of 61" in filled.get(page.link("Next")).text


def test_pages_in_chinese(gantrymq_broker):
    with Visitor(gantrymq_broker, language="zh") as visitor:
        closed = close(visitor)
        assert closed.status == 200 and "已禁止写入" in closed.text


@pytest.mark.parametrize(
    ("info", "waiting"),
    [
        ({"timerCongestNum": "0", "timerOffsetBehind": "0"}, 0),
        ({"timerCongestNum": "3", "timerOffsetBehind": "1", "scheduleMessageOffset_3": "4,10"}, 10),
        ({"brokerVersionDesc": "V4_9_7", "scheduleMessageOffset_1": "7,7"}, 0),
        ({"brokerVersionDesc": "V5_3_3"}, None),
        ({"timerCongestNum": "many", "timerOffsetBehind": "0"}, None),
        ({"timerCongestNum": "0", "timerOffsetBehind": "0", "scheduleMessageOffset_3": "-1,x"}, None),
    ],
)
def test_how_many_messages_wait(info, waiting):
    assert _delayed(info) == waiting


def test_a_row_is_current_while_nothing_is_stored():
    known, row = _Known(), _Row(0, 0, False, 0, 0, False, 1000)
    assert known.arrives() is None
    for marks, current, arrives in (
        ([(1500, 7)], False, None),
        ([(1000, 7)], True, None),
        ([(900, 7), (1500, 7), (2000, 7)], True, None),
        ([(900, 7), (1500, 7), (10_900, 7)], True, False),
        ([(900, 7), (1500, 8)], False, True),
        ([(900, 6), (1000, 7), (9_000, 7)], True, True),
        ([(900, 6), (1000, 7), (20_000, 7)], True, False),
        ([(900, 6), (20_000, 7), (20_100, 7)], False, True),  # a look after a pause
    ):
        known.marks = []
        for mark in marks:
            known.mark(*mark)
        assert (known.is_current(row), known.arrives()) == (current, arrives), marks


def test_nothing_is_empty_that_is_not_known():
    """Each value that is unknown or not zero is a reason to wait."""
    empty = Left("b", "a:1", 4, False, 0.0, False, (), (), 2, 2, 0, 0, 0, 0, False, 0)
    assert empty.empty and empty.waits_for == ()
    for change in (
        {"permission": None},
        {"permission": 6},
        {"routed": True},
        {"routed": None},
        {"arrives": True},
        {"arrives": None},
        {"total": None},
        {"unused": ("x",)},
        {"checking": 1},
        {"unasked": 1},
        {"delayed": 1},
        {"delayed": None},
        {"halves": 1},
        {"halves": None},
        {"popped": 1},
        {"popped": None},
    ):
        assert not attrs.evolve(empty, **change).empty, change


@pytest.mark.slow
def test_popped_messages_are_left_until_they_are_acknowledged(filled):
    pytest.importorskip("gantrymq_pop")
    commit(filled, "billing", "Orders", 1)
    filled.running.create_topic("Jobs", 1)
    filled.running.send("Jobs", b"job")

    async def pop():
        consumer = filled.client.pop_consumer("workers", "Jobs", consume_from="first", invisible_s=300)
        while not (found := await consumer.pop(poll_s=1)):
            pass
        return consumer, found

    consumer, (message,) = filled.running.run(pop())
    close(filled)
    found = until_waits_for(filled, "popped")
    assert found["popped"] == "1" and "popped messages are not finished" in filled.get(PATH).text

    async def acknowledge():
        await consumer.ack(message)
        await consumer.close()

    filled.running.run(acknowledge())
    assert until_waits_for(filled)["empty"]


@pytest.mark.parametrize("ours", [True, False])
def test_groups_that_were_never_used_are_said_and_are_not_messages(filled, monkeypatch, ours):
    if not ours:
        without_summaries(monkeypatch)
    filled.running.run(filled.client.admin.create_group(filled.running.broker_address, GroupConfig("idle")))
    commit(filled, "billing", "Orders", 1)
    close(filled)
    found = until_waits_for(filled, "unused")
    assert (found["unused"], found["groups"], found["done"], found["total"]) == (["idle"], [], 1, 2)
    page = filled.get(PATH)
    assert "1 group has neither members nor offsets here: if it is not in use, the broker may be stopped" in page.text
    assert "Nothing is left" not in page.text and not found["empty"]


def test_an_old_list_of_groups_is_not_trusted(filled, monkeypatch):
    commit(filled, "billing", "Orders", 1)
    close(filled)
    assert until_waits_for(filled)["empty"]
    real = data.summary_page

    async def old(*given, **more):
        return attrs.evolve(await real(*given, **more), age_ms=16_000)

    monkeypatch.setattr(data, "summary_page", old)
    found = left(filled)
    assert (found["checking"], found["waits_for"], found["empty"]) == (1, ["checking"], False)
