"""The page of a message: its facts, its body in all forms, who consumed it; hostile contents stay text."""

from __future__ import annotations

import pytest
from console_visitor import Visitor

from gantrymq_console.access.users import Role
from gantrymq_console.data.bodies import body_of, indented

MARKUP = "<script>alert(1)</script>\"'&"


def test_who_consumed_a_message(visitor):
    running = visitor.running
    sent = running.send("Orders", b'{"id":9007199254740993,"a":[]}', keys="k-1", tags="A")

    async def consume(group):
        async with running.cluster.consumer(group) as consumer:
            queue = sent.queue
            assert (await consumer.pull(queue, 0)).messages
            await consumer.commit(queue, 1)

    running.run(consume("billing"))
    page = visitor.get(f"/messages/{sent.message_id}?topic=Orders")
    assert page.status == 200
    assert "billing" in page.text and "passed" in page.text
    assert "consumed, or skipped by a reset" in page.text
    assert '"id": 9007199254740993' in page.text
    twin = visitor.api(f"/messages/{sent.message_id}?topic=Orders")["data"]
    assert twin["facts"]["queue_offset"] == "0" and twin["facts"]["keys"] == "k-1"
    (group,) = twin["consumers"]["groups"]
    assert (group["group"], group["reason"]) == ("billing", "passed")
    by_offset_id = visitor.api(f"/messages/{sent.offset_id}")["data"]
    assert by_offset_id["facts"] == twin["facts"]


def test_hostile_contents_stay_text(visitor):
    sent = visitor.running.send(
        "Orders", MARKUP.encode(), keys=MARKUP.replace(" ", ""), properties={"note": MARKUP, "bidi": "a\u202eb"}
    )
    page = visitor.get(f"/messages/{sent.message_id}?topic=Orders")
    assert MARKUP in page.text and "U+202E" in page.text
    assert "<script>alert" not in page.response.text
    assert "<script>alert" not in visitor.get(f"/search?q={MARKUP}").response.text


def test_a_viewer_sees_no_body_and_a_reader_leaves_a_line_in_the_audit_log(gantrymq_broker):
    sent = gantrymq_broker.send("Orders", b"secret-body")
    path = f"/messages/{sent.message_id}"
    with Visitor(gantrymq_broker, Role.VIEWER) as viewer:
        assert "does not permit" in viewer.get(f"{path}?topic=Orders").text
        assert "secret-body" not in viewer.request("GET", f"/api/v1{path}?topic=Orders").text
        assert viewer.request("GET", f"{path}/body?topic=Orders").status_code == 403
        assert viewer.audit.entries == []
    with Visitor(gantrymq_broker, Role.READER) as reader:
        assert "secret-body" in reader.get(f"{path}?topic=Orders").text
        body = reader.request("GET", f"{path}/body?topic=Orders")
        assert body.content == b"secret-body"
        assert body.headers["content-type"] == "application/octet-stream"
        assert body.headers["content-disposition"].startswith("attachment")
        assert [(each.action, each.result) for each in reader.audit.entries] == [
            ("message.title", "read"),
            ("message.download", "read"),
        ]


def test_a_message_that_does_not_exist(visitor):
    visitor.running.create_topic("Orders", 1)
    page = visitor.get(f"/messages/{'0' * 32}?topic=Orders")
    assert page.status == 404 and "no message" in page.text
    assert (
        visitor.get(f"/messages/{'7F000001' + '00002A9F' + '0' * 16}").status == 404
    )  # a broker that is not registered


def test_the_search_finds_keys_ids_topics_and_groups(visitor):
    sent = visitor.running.send("Orders", b"x", keys="key-77")
    for query in ("key-77", sent.message_id, sent.offset_id):
        page = visitor.get(f"/search?q={query}")
        assert any(to.endswith(f"/messages/{sent.message_id}?topic=Orders") for _, to in page.links), query
    assert visitor.get("/search?q=rder").link("Orders").endswith("/topics/Orders")
    assert visitor.api("/search?q=nothing-like-it")["data"]["hits"] == []
    assert "Type a key" in visitor.get("/search").text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"a":1}', '{\n  "a": 1\n}'),
        ('{"a":[1,{"b":{}}],"c":"x,}"}', '{\n  "a": [\n    1,\n    {\n      "b": {}\n    }\n  ],\n  "c": "x,}"\n}'),
        ("[]", "[]"),
        ("[12345678901234567890.5e10]", "[\n  12345678901234567890.5e10\n]"),
        ("[" * 201 + "]" * 201, None),
        ('{"a":1', None),
        ("[1}", None),
        ('["a"] x', None),
        ("7", None),
        ('["unclosed]', None),
    ],
)
def test_json_is_indented_token_by_token(text, shown):
    assert indented(text) == shown


def test_forms_of_bodies():
    assert body_of(b"\xff\x00", "", "auto").form == "hex"
    assert body_of(b"a\x00b", "", "text").form == "hex"
    assert body_of(b"plain", "", "json").form == "text"
    assert body_of(b'{"a":1}', "", "text").form == "text"
    cut = body_of("é".encode() * 100, "", "auto", 51)
    assert (cut.form, cut.text, cut.size, cut.shown) == ("text", "é" * 25, 200, 51)
    assert body_of(b'{"a":"' + b"x" * 100 + b'"}', "", "auto", 50).form == "text"
    assert (
        body_of(bytes(range(20)), "", "hex").text.splitlines()[1] == "00000010  " + "10 11 12 13".ljust(47) + "  ...."
    )
