"""Delayed and timed messages with recalls, undecided transactions with resumed checks."""

from __future__ import annotations

import pytest
from console_visitor import Visitor
from polling import wait_until

from gantrymq.client.admin import RequestNotServed
from gantrymq.client.message import Message, TransactionState
from gantrymq_admin.transactions import TransactionPage
from gantrymq_console.data import waiting

pytest.importorskip("gantrymq_schedule")
pytest.importorskip("gantrymq_transaction")


@pytest.fixture
def visitor(gantrymq_broker_factory):
    running = gantrymq_broker_factory({"recallMessageEnable": True})
    running.create_topic("Orders", 1)
    with Visitor(running) as found:
        yield found


def listed(visitor, count):
    """Return the list when it has *count* messages: timed ones are in it after the timers have read them."""

    def look():
        found = visitor.api("/delayed")["data"]["found"]
        return found if len(found["messages"]) == count else None

    return wait_until(look, f"{count} delayed messages", 30)


def test_what_waits_is_listed_the_soonest_first(visitor):
    visitor.running.send("Orders", b"later", keys="later", delay_ms=3_600_000)
    visitor.running.send("Orders", b"level", keys="level", delay_level=10)
    twin = listed(visitor, 2)
    assert [(each["keys"], each["kind"]) for each in twin["messages"]] == [("level", "level 10"), ("later", "timer")]
    assert {each["name"]: each["waiting"] for each in twin["sources"]} == {"levels": "1", "timers": "1"}
    page = visitor.get("/delayed?topic=Orders")
    assert page.status == 200 and "later" in page.text
    assert visitor.get(page.link("later")).status == 200
    assert visitor.api("/delayed?topic=Others")["data"]["found"]["messages"] == []


def test_a_message_that_waits_is_found_by_its_topic_and_unique_id(visitor):
    for options in ({"delay_ms": 3_600_000}, {"delay_level": 10}):
        sent = visitor.running.send("Orders", b"later", **options)
        page = wait_until(lambda sent=sent: found(visitor, sent.message_id), "the message", 30)
        assert "This is a delayed message" in page.text


def test_a_message_that_waits_offers_only_what_can_be_done_with_it(visitor):
    for options in ({"delay_ms": 3_600_000}, {"delay_level": 10}):
        sent = visitor.running.send("Orders", b"later", **options)
        page = wait_until(lambda sent=sent: found(visitor, sent.message_id), "the message", 30)
        assert not [form for form in page.forms if form.action.endswith("/again")]
        assert "brokers and clients write to this system topic themselves" in page.text
        draft = visitor.get(page.link("Edit a copy and send it to Orders now"))
        assert "later</textarea>" in draft.response.text
        assert "Sent as" in visitor.submit(draft, "/send", body="now").text


def found(visitor, message_id):
    page = visitor.get(f"/messages/{message_id}?topic=Orders")
    return page if page.status == 200 else None


def test_a_timed_message_is_recalled_after_a_confirmation(visitor):
    visitor.running.send("Orders", b"never", keys="never", delay_ms=3_600_000)
    listed(visitor, 1)
    preview = visitor.submit(visitor.get("/delayed"), "/recall")
    assert "will not be delivered to Orders" in preview.text
    assert "gantrymq message recall" in preview.text
    done = visitor.confirm(preview)
    assert "was recalled" in done.text, done.text


def test_a_message_with_a_level_cannot_be_recalled(visitor):
    visitor.running.send("Orders", b"x", delay_level=10)
    (each,) = listed(visitor, 1)["messages"]
    form = visitor.get("/topics").form("/preferences").fields
    page = visitor.post("/delayed/recall", {"csrf": form["csrf"], "id": each["offset_id"], "broker": each["broker"]})
    assert page.status == 400 and "Only timed messages" in page.text
    gone = visitor.post("/delayed/recall", {"csrf": form["csrf"], "id": "0" * 32, "broker": "x"})
    assert gone.status == 404


def test_undecided_transactions_are_listed_and_shown(visitor):
    async def half():
        producer = visitor.client.transaction_producer("payers", lambda message: TransactionState.UNKNOWN)
        async with producer.transaction(Message("Orders", b"pay", keys="tx-1")) as transaction:
            transaction.state = TransactionState.UNKNOWN
        return transaction.id

    unique_id = visitor.running.run(half())
    page, twin = visitor.get("/transactions"), visitor.api("/transactions")["data"]["found"]
    assert twin["undecided"] == "1"
    (found,) = twin["halves"]
    assert (found["producer_group"], found["topic"], found["online"]) == ("payers", "Orders", 1)
    assert "1 producer online" in page.text
    shown = visitor.get(page.link("tx-1"))
    assert shown.status == 200 and "no committed message" in shown.text
    assert visitor.get(f"/transactions/{'0' * 32}").status == 404
    assert visitor.api(f"/transactions/{unique_id}")["data"]["half_messages"][0]["keys"] == "tx-1"
    assert visitor.api("/transactions?shown=given_up")["data"]["found"]["halves"] == []


def test_a_broker_that_lists_no_transactions_has_an_unknown_number_of_them(visitor, monkeypatch):
    own = next(iter(visitor.running.run(visitor.cluster.masters()).values()))
    masters = {"broker-a": own, "java": own.replace("127.0.0.1", "127.0.0.2")}

    async def listed(_admin, address, **_):
        if address != own:
            raise RequestNotServed(3, "request type 65005 not supported", address)
        return TransactionPage((), 2)

    async def known():
        return masters

    monkeypatch.setattr(waiting, "list_transactions", listed)
    monkeypatch.setattr(visitor.cluster, "masters", known)
    found = visitor.api("/transactions")["data"]["found"]
    assert (found["undecided"], found["partial"], found["unlisted"]) == ("2", True, ["java"])
    assert (
        "At least 2 transactions are undecided: not every broker reports its number."
        in visitor.get("/transactions").text
    )
    del masters["broker-a"]
    found = visitor.api("/transactions")["data"]["found"]
    assert (found["undecided"], found["partial"]) == (None, True)
    page = visitor.get("/transactions").text
    assert "How many transactions are undecided is unknown" in page and "0 transactions" not in page


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("/topics", "topic list"),
        ("/topics?kind=all", "topic list --all"),
        ("/topics?filter=Ord", ""),
        ("/topics?kind=fifo", ""),
        ("/topics/Orders/groups", ""),
        ("/groups?kind=all", "group list --all"),
        ("/groups?filter=x", ""),
        ("/delayed?topic=a", "message pending --max 50 -t a"),
        ("/delayed?broker=broker-a&source=levels", ""),
        ("/transactions?shown=given_up&topic=$(x)", "transactions list --given-up -t '$(x)'"),
        ("/transactions?broker=broker-a", ""),
        ("/about", ""),
    ],
)
def test_pages_show_a_command_only_if_it_shows_the_same(visitor, path, command):
    visitor.running.create_topic("Orders", 1)
    assert visitor.api(path)["command"] == command
    assert "--help" not in visitor.get(path).text


def test_a_broker_that_lists_nothing_is_named(gantrymq_broker_factory):
    running = gantrymq_broker_factory({"plugins": "storage_memory,nameserver"})
    with Visitor(running) as visitor:
        assert visitor.get("/delayed").status == 200
        assert "does not list pending messages" in visitor.get("/delayed").text
        assert "does not list transactions" in visitor.get("/transactions").text
