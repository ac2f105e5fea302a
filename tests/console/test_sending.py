"""Sending by hand, sending again to all or one group, and delivery to one member."""

from __future__ import annotations

import base64

import pytest
from console_visitor import Visitor

from gantrymq.client.producing.producer import Producer
from gantrymq.client.sending.results import SendFailed
from gantrymq.errors import BrokerRefused, CallTimeout, ConnectFailed
from gantrymq_console.web.texts import LANGUAGES


def test_a_message_is_sent_and_shown(visitor):
    visitor.running.create_topic("Orders", 4)
    form = visitor.get("/topics/Orders/send")
    page = visitor.submit(
        form, "/send", body="hello\r\nworld", keys="k1 k2", tags="A", properties="color=red\nsize=a=b", queue=""
    )
    assert page.status == 200 and "Sent as" in page.text
    (message,) = visitor.running.pull("Orders")
    assert (message.body, message.keys, message.tags) == (b"hello\nworld", "k1 k2", "A")
    assert message.user_properties == {"color": "red", "size": "a=b"}
    assert "k1 k2" in page.text
    assert [(each.action, each.result) for each in visitor.audit.entries if each.action == "sending.send"] == [
        ("sending.send", ""),
        ("sending.send", "done"),
    ]
    again = visitor.submit(form, "/send", body="twice")
    assert again.status == 409 and len(visitor.running.pull("Orders")) == 1


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"encoding": "hex", "body": "0g"}, "The body is not hex"),
        ({"encoding": "base64", "body": "é"}, "The body is not base64"),
        ({"encoding": "rot13", "body": "x"}, "rot13 is not one of text, base64, hex"),
        ({"properties": "no-value", "body": "x"}, "no-value is not name=value"),
        ({"delay": "soon", "body": "x"}, "soon is not a number"),
        ({"queue": "vm:99", "body": "x"}, "The topic has no queue vm:99"),
    ],
)
def test_a_form_that_cannot_be_used_sends_nothing(visitor, fields, sentence):
    visitor.running.create_topic("Orders", 1)
    page = visitor.submit(visitor.get("/topics/Orders/send"), "/send", **fields)
    assert page.status == 400 and sentence in page.text
    assert visitor.running.pull("Orders") == []
    shown = visitor.submit(page, "/send", body="a body", encoding="text", properties="", delay="", queue="", keys="k")
    assert "Sent as" in shown.text  # the form that is shown again works


@pytest.mark.parametrize(
    "place", ["{}:0:9999999999", "{}:0:999999999999999999", "{}:9999999999:0", "{}:7:0", "nobody:0:0"]
)
def test_a_copy_of_a_message_that_is_not_there_is_404(visitor, place):
    visitor.running.create_topic("Orders", 1)
    visitor.running.send("Orders", b"body")
    place = place.format(visitor.api("/brokers")["data"]["brokers"][0]["name"])
    assert visitor.get(f"/topics/Orders/send?at={place}&from=x").status == 404
    assert visitor.get(f"/messages/x?topic=Orders&at={place}").status == 404


def test_what_was_typed_stays_after_an_error(visitor):
    visitor.running.create_topic("Orders", 1)
    typed = {"body": "my long <text>", "keys": "k1", "tags": "T", "properties": "a=1\nb", "delay": "5", "queue": "vm:9"}
    page = visitor.submit(visitor.get("/topics/Orders/send"), "/send", encoding="base64", **typed)
    assert page.status == 400 and "b is not name=value" in page.text
    fields = page.form("/send").fields
    assert {name: fields[name] for name in ("keys", "tags", "delay", "queue", "encoding")} == {
        "keys": "k1", "tags": "T", "delay": "5", "queue": "vm:9", "encoding": "base64"
    }  # fmt: skip
    assert "my long <text>" in page.text and "a=1 b" in page.text and "<text>" not in page.response.text
    assert page.link("Queues").endswith("/topics/Orders")


def test_what_was_typed_stays_after_a_refusal_of_the_broker(visitor, monkeypatch):
    visitor.running.create_topic("Orders", 1)
    form = visitor.get("/topics/Orders/send")

    async def refused(*_given, **_more):
        raise BrokerRefused(14, "service not available: the disk is full", "127.0.0.1:10911")

    monkeypatch.setattr(Producer, "send", refused)
    page = visitor.submit(form, "/send", body="precious")
    assert page.status == 502 and "precious" in page.text
    assert "The broker does not accept messages at the moment: 127.0.0.1:10911. The page Home says why" in page.text
    assert "the disk is full" in page.text and "Response code 14 (SERVICE_NOT_AVAILABLE)" in page.text
    assert "Request of the browser: POST /topics/Orders/send" in page.text


CLOSED = {
    "en": "broker-a is closed for writing, so no message can be sent to Orders. Open it for writing on its page",
    "zh": "broker-a 已禁止写入，因此无法向 Orders 发送消息。",
}
REFUSED = {
    "en": "broker-a refuses messages: the disk of /store is full",
    "zh": "broker-a 拒绝写入消息： /store 所在磁盘已使用 96.1%",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_send_to_a_broker_that_is_closed_for_writing_says_so(gantrymq_broker, language):
    gantrymq_broker.create_topic("Orders", 1)
    with Visitor(gantrymq_broker, language=language) as visitor:
        visitor.confirm(visitor.submit(visitor.get("/brokers/broker-a"), "/permission"))
        page = visitor.submit(visitor.get("/topics/Orders/send"), "/send", body="precious")
        assert page.status == 503 and "precious" in page.text and CLOSED[language] in page.text, page.text
        assert page.link("Broker broker-a").endswith("/brokers/broker-a")


def test_a_send_to_a_topic_that_is_read_only_names_its_permission(visitor):
    visitor.running.create_topic("Orders", 1)
    visitor.confirm(visitor.submit(visitor.get("/topics/Orders/settings"), "/topics/Orders/settings", perm="4"))
    page = visitor.submit(visitor.get("/topics/Orders/send"), "/send", body="precious")
    assert page.status == 503 and "The permission of Orders forbids writing." in page.text
    assert page.link("Settings of Orders").endswith("/topics/Orders/settings")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_send_that_the_store_refuses_says_what_the_broker_page_says(gantrymq_broker, monkeypatch, language):
    gantrymq_broker.create_topic("Orders", 1)
    with Visitor(gantrymq_broker, language=language) as visitor:
        form = visitor.get("/topics/Orders/send")
        real = visitor.cluster.admin.runtime_info

        async def full(address):
            info = await real(address)
            refusal = {"storeRefusal": "the disk of /store is full", "storeRefusalCause": "disk_ratio"}
            values = {"storeRefusalValues": '{"folder": "/store", "percent": "96.1", "limit": 95}'}
            return {**info, **refusal, **values}

        async def refused(*_given, **_more):
            raise SendFailed("Orders", ["broker-a"], BrokerRefused(14, "the store refuses", "127.0.0.1:1"), 3.0)

        monkeypatch.setattr(visitor.cluster.admin, "runtime_info", full)
        monkeypatch.setattr(Producer, "send", refused)
        page = visitor.submit(form, "/send", body="precious")
        assert page.status == 503 and "precious" in page.text
        assert REFUSED[language] in page.text, page.text
        assert "the disk of /store is full" in page.text
        assert page.link("Broker broker-a").endswith("/brokers/broker-a")


@pytest.mark.parametrize(
    ("last", "sentence"),
    [
        (CallTimeout("no answer"), "There was no answer in time from broker-a."),
        (ConnectFailed("no way"), "The console cannot connect to broker-a."),
    ],
)
def test_a_send_without_an_answer_says_so(visitor, monkeypatch, last, sentence):
    visitor.running.create_topic("Orders", 1)
    form = visitor.get("/topics/Orders/send")

    async def failed(*_given, **_more):
        raise SendFailed.after("Orders", ["broker-a"], last, 3.0)

    monkeypatch.setattr(Producer, "send", failed)
    page = visitor.submit(form, "/send", body="precious")
    assert page.status == 504 and "precious" in page.text, page.text
    assert sentence in page.text, page.text


def test_a_copy_of_a_message_fills_the_form(visitor):
    sent = visitor.running.send("Orders", b"\xff\x01", keys="k", properties={"a": "b"})
    form = visitor.get(f"/topics/Orders/send?from={sent.message_id}").form("/send")
    assert form.fields["encoding"] == "base64"
    visitor.submit(
        visitor.get(f"/topics/Orders/send?from={sent.message_id}"), "/send", body=base64.b64encode(b"\xff\x01").decode()
    )
    assert [each.body for each in visitor.running.pull("Orders")] == [b"\xff\x01"] * 2


def test_a_message_is_sent_again_to_all_groups_after_a_confirmation(visitor):
    sent = visitor.running.send("Orders", b"again", keys="k")
    page = visitor.get(f"/messages/{sent.message_id}?topic=Orders")
    form = next(each for each in page.forms if each.action.endswith("/again"))
    preview = visitor.post(form.action, form.fields)
    assert "Every group of the topic receives it" in preview.text
    assert len(visitor.running.pull("Orders")) == 1
    done = visitor.confirm(preview)
    assert done.status == 200 and "Sent again to Orders" in done.text
    assert [each.body for each in visitor.running.pull("Orders")] == [b"again", b"again"]


def test_a_delivery_to_a_group_without_members_is_one_sentence(visitor):
    sent = visitor.running.send("Orders", b"x")
    path = f"/messages/{sent.message_id}"
    page = visitor.get(f"{path}?topic=Orders")
    assert not any(each.action.endswith("/direct") for each in page.forms)  # there is no group to choose
    fields = page.form("/again").fields | {"group": "billing"}
    preview = visitor.post(f"{path}/direct", fields)
    assert "nothing is committed" in preview.text
    assert visitor.confirm(preview).status in (400, 502)


@pytest.mark.parametrize(
    "topic", ["RMQ_SYS_TRACE_TOPIC", "SCHEDULE_TOPIC_XXXX", "TBW102", "rmq_sys_wheel_timer", "DefaultCluster"]
)
def test_nothing_is_sent_to_system_topics(visitor, topic):
    page = visitor.get(f"/topics/{topic}/send")
    assert page.status == 400 and "is a system topic" in page.text
    visitor.cookies.clear()
    twin = visitor.request("POST", f"/api/v1/topics/{topic}/send", json={"body": "x"})
    assert twin.status_code == 400 and "is a system topic" in twin.json()["error"]
    assert [each for each in visitor.audit.entries if each.result == "done"] == []


def test_a_message_of_a_system_topic_is_not_sent_again(visitor):
    sent = visitor.running.send("RMQ_SYS_TRACE_TOPIC", b"x")
    page = visitor.get(f"/messages/{sent.message_id}?topic=RMQ_SYS_TRACE_TOPIC")
    assert not [form for form in page.forms if form.action.endswith("/again")] and "Edit a copy" not in page.text
    fields = visitor.get("/topics/TopicTest/send").forms[-1].fields | {"topic": "RMQ_SYS_TRACE_TOPIC"}
    again = visitor.post(f"/messages/{sent.message_id}/again", fields)
    assert again.status == 400 and "is a system topic" in again.text
    assert "Send" not in [text for text, _ in visitor.get("/topics/RMQ_SYS_TRACE_TOPIC").links]


def test_a_dry_run_returns_the_preview_and_sends_nothing(visitor):
    visitor.running.create_topic("Orders", 1)

    def post(path, **given):
        return visitor.request("POST", f"/api/v1/topics/Orders/{path}", json=given, headers=token)

    token = {"x-csrf-token": visitor.get("/topics/Orders/send").form("/topics/Orders/send").fields["csrf"]}
    found = post("send", encoding="text", body="hello", keys="k", delay="2", properties="a=b", dry_run="true")
    assert found.json() == {
        "topic": "Orders",
        "queue": "",
        "keys": "k",
        "tags": "",
        "delay_ms": 2000,
        "properties": {"a": "b"},
        "body_bytes": "5",
    }
    assert "not hex" in post("send", encoding="hex", body="x", dry_run="true").json()["error"]
    unclear = post("send", body="x", dry_run="yes")
    assert unclear.status_code == 400 and "yes is not one of true" in unclear.json()["error"]
    without = post("tail", dry_run="true")
    assert without.status_code == 400 and "no preview" in without.json()["error"] and not visitor.console.jobs._jobs
    assert visitor.running.pull("Orders") == []
    assert post("send", body="x").json()["done"]
