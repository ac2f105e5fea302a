"""The page of a message: its facts, its body in all forms, who consumed it; hostile contents stay text."""

from __future__ import annotations

import re
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from console_members import join
from console_visitor import Visitor
from polling import wait_until

from gantrymq.client import Client, Message
from gantrymq.client.tracing.records import EndTransaction, MessageType, Pub, SubAfter, SubBefore
from gantrymq.model.group import GroupConfig
from gantrymq_admin.consumption import Copy, Pop, Stage, Traced
from gantrymq_console.access.users import Role
from gantrymq_console.data.body_forms import body_of, indented
from gantrymq_console.data.resends import SentAgain
from gantrymq_console.data.timeline import Moment, timeline
from gantrymq_console.web.lanes import MOST_COLUMNS, MOST_LANES, lanes
from gantrymq_console.web.render import shown_values
from gantrymq_console.web.texts import texts_of

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
    assert "consumed, filtered out, or skipped by a reset" in page.text
    assert "It does not prove that the application processed it" in page.text and "trace=True" in page.text
    assert '<span class="n">9007199254740993</span>' in page.response.text
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
        assert "To read bodies you need the role reader" in viewer.get(f"{path}?topic=Orders").text
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


def test_an_offset_id_is_found_after_its_broker_moved(gantrymq_broker_factory):
    pytest.importorskip("gantrymq_storage_mmap")
    running = gantrymq_broker_factory({"store": "mmap"})
    sent = [running.send("Orders", b"%d" % number) for number in range(3)]
    before = running.broker_address
    running.restart(new_ports=True)
    after = running.broker_address
    assert after != before
    new = running.send("Orders", b"new")
    with Visitor(running) as visitor:
        for number, each in enumerate(sent):
            page = visitor.get(f"/messages/{each.offset_id}")
            assert page.status == 200 and f"names {before}" in page.text and after in page.text
            assert visitor.api(f"/messages/{each.offset_id}")["data"]["body"]["text"] == str(number)
            assert f"/messages/{each.offset_id}" in visitor.get(f"/search?q={each.offset_id}").url
        port = f"{int(after.rpartition(':')[2]):08X}"
        wrong = sent[0].offset_id[:8] + port + sent[0].offset_id[16:]  # the place of another message by its old address
        assert visitor.get(f"/messages/{wrong}").status == 404
        inside = sent[0].offset_id[:16] + f"{int(sent[0].offset_id[16:], 16) + 4:016X}"
        assert visitor.get(f"/messages/{inside}").status == 404
        assert "The offset id names" not in visitor.get(f"/messages/{new.offset_id}").text


def test_the_search_finds_keys_ids_topics_and_groups(visitor):
    sent = visitor.running.send("Orders", b"x", keys="key-77")
    page = visitor.get("/search?q=key-77")
    assert page.link("key-77").endswith(f"/messages/{sent.message_id}?topic=Orders")
    for each, found_by in ((sent.message_id, "Found by its unique id"), (sent.offset_id, "Found by its offset id")):
        page = visitor.get(f"/search?q={each.lower()}")
        assert f"/messages/{each}".lower() in page.url.lower() and found_by in page.text
        assert [hit["unique_id"] for hit in visitor.api(f"/search?q={each}")["data"]["hits"]] == [sent.message_id]
    assert ("Orders", "http://127.0.0.1:8088/topics/Orders") in visitor.get("/search?q=rder").links
    assert visitor.api("/search?q=nothing-like-it")["data"]["hits"] == []
    asked = visitor.get("/search?q=nothing-like-it").text
    assert "These topics were searched for it, as a key and as a unique id: Orders" in asked
    assert "Type a key" in visitor.get("/search").text


def test_a_search_in_all_topics_shows_its_price_first(visitor, gantrymq_broker):
    for topic in ("Orders", "Bills", "Refunds"):
        visitor.running.create_topic(topic, 1)
    sent = visitor.running.send("Bills", b"secret", keys="k-9")
    page = visitor.post("/search/everywhere", {"csrf": csrf(visitor), "q": "k-9"})
    assert "k-9 will be looked up" in page.text and "at 1 brokers" in page.text
    page = visitor.confirm(page)

    def ended():
        data = visitor.api(page.url.partition("?")[0].removeprefix("http://127.0.0.1:8088"))["data"]
        return None if data["running"] else data

    data = wait_until(ended, "end of the search")
    assert [each["unique_id"] for each in data["rows"]] == [sent.message_id]
    assert data["asked"] == data["topics"] and not data["limit"] and not data["failed"]
    page = visitor.get(page.url)
    assert "All topics were searched" in page.text and "secret" not in page.text
    assert page.link("k-9").endswith(f"/messages/{sent.message_id}?topic=Bills")
    with Visitor(gantrymq_broker, Role.READER) as reader:
        assert "/search/everywhere" not in [each.action for each in reader.get("/search?q=k").forms]
        assert reader.get("/search/everywhere/0").status == 403


def csrf(visitor):
    return visitor.get("/topics").form("/preferences").fields["csrf"]


def test_the_search_finds_clients(visitor):
    visitor.running.create_topic("Orders", 1)

    async def create():
        await visitor.client.admin.create_group(visitor.running.broker_address, GroupConfig("Readers"))

    visitor.running.run(create())
    join(visitor, "Readers", "host-7@1", "Orders")
    page = visitor.get("/search?q=HOST-7")
    assert page.link("host-7@1").endswith("/clients/show?id=host-7%401")
    assert "No connected client" in visitor.get("/search?q=host-8").text


def test_events_of_one_millisecond_are_in_the_order_in_which_they_happen():
    facts = SimpleNamespace(broker="broker-a", store_host="", stored_ms=1000, born_ms=1000, born_host="h")
    assert [each.key for each in timeline(facts, ())] == ["message.line.born", "message.line.stored"]
    sent = Traced(Pub(1000, "", "shop", "T", "id", None, None, "", 1, 1, MessageType.NORMAL, None, True), "h")
    assert [each.key for each in timeline(facts, (sent,))] == ["message.line.sent", "message.line.stored"]


def test_what_happened_to_a_traced_message(visitor):
    running = visitor.running
    running.create_topic("Orders", 1)

    async def work():
        async with Client(running.namesrv, world=running.cluster.world, trace=True) as client:
            return await client.producer("shop").send(Message("Orders", b"x"))

    sent = running.run(work())

    def traced():
        line = visitor.api(f"/messages/{sent.message_id}?topic=Orders")["data"]["timeline"]
        return None if line[0]["key"] == "message.line.born" else line

    line = wait_until(traced, "record of the trace")
    assert [each["key"] for each in line] == ["message.line.sent", "message.line.stored"]
    assert "producer group shop" in visitor.get(f"/messages/{sent.message_id}?topic=Orders").text


@pytest.mark.parametrize(
    ("record", "key", "sign"),
    [
        (Pub(5, "", "G", "T", "id", None, None, "", 1, 2, MessageType.NORMAL, None, False), "not_sent", "bad"),
        (SubBefore(5, "", "G", "r", "id", 2, None), "delivered", "unknown"),
        (SubAfter("r", "id", 3, True, None, 0, 6), "consumed", "good"),
        (SubAfter("r", "id", 3, False, None, 0), "failed", "bad"),
        (
            EndTransaction(5, "", "G", "T", "id", None, None, "", MessageType.NORMAL, None, "COMMIT_MESSAGE", False),
            "committed",
            "unknown",
        ),
    ],
)
def test_events_of_a_trace(record, key, sign):
    facts = SimpleNamespace(born_ms=1, born_host="b:1", stored_ms=2, broker="broker-a", store_host="")
    before = Traced(SubBefore(4, "", "G", "r", "id", 0, None), "10.0.0.1:1")
    (found,) = [each for each in timeline(facts, [before, Traced(record, "h:1")]) if "h:1" in each.fields.values()]
    assert (found.key, found.sign, found.fields["group"]) == (f"message.line.{key}", sign, "G")
    assert f"message.line.{key}" in texts_of("zh").table


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
    assert body_of(b"a\x00b", "", "auto").form == "hex"
    assert body_of(b"plain", "", "json").form == "text"
    assert body_of(b'{"a":1}', "", "text").form == "text"
    cut = body_of("é".encode() * 100, "", "auto", 51)
    assert (cut.form, cut.text, cut.size, cut.shown) == ("text", "é" * 25, 200, 50)
    assert body_of(b'{"a":"' + b"x" * 100 + b'"}', "", "auto", 50).form == "text"
    assert (
        body_of(bytes(range(20)), "", "hex").text.splitlines()[1] == "00000010  " + "10 11 12 13".ljust(47) + "  ...."
    )


@pytest.mark.parametrize(
    ("language", "sentence"),
    [("en", "Could not be asked: committed offsets, dead letters."), ("zh", "无法查询：已提交位点, 死信。")],
)
def test_facts_that_are_missing_are_named_in_the_readers_language(language, sentence):
    context = SimpleNamespace(texts=texts_of(language))
    assert context.texts("evidence.unknown", **shown_values(context, {"facts": "committed dead-letters"})) == sentence


@pytest.mark.parametrize(("language", "time"), [("en", "an unknown time"), ("zh", "未知时间")])
def test_unknown_times_of_evidence_are_called_so(language, time):
    context = SimpleNamespace(texts=texts_of(language))
    values = {"client": "<c>", "time_at": None, "took_ms": None, "failures": 1234}
    text = context.texts("evidence.consumed", **shown_values(context, values))
    assert text.count(time) == 2 and "1234" in text and "&lt;c&gt;" in text


FACTS = SimpleNamespace(broker="broker-a", store_host="", stored_ms=1000, born_ms=990, born_host="h")


def verdict_of(copies=(), pop=None):
    facts = SimpleNamespace(copies=copies, pop=pop)
    return SimpleNamespace(group="billing", facts=facts)


def test_copies_pops_and_resends_are_in_the_time_line():
    copies = (
        Copy(Stage.DELAYED, "SCHEDULE_TOPIC_XXXX", "broker-a", 0, 1, 2000, 1, "A", due_ms=12_000),
        Copy(Stage.RETRY, "%RETRY%billing", "broker-a", 0, 1, 12_000, 1, "B"),
        Copy(Stage.DEAD_LETTER, "%DLQ%billing", "broker-b", 0, 1, 60_000, 16, "C"),
    )
    again = SentAgain("yes", 90_000, "ann", "Orders")
    line = timeline(FACTS, (), [verdict_of(copies, Pop(1500, 61_500, False))], again)
    assert [(each.word, each.time_ms, each.group) for each in line] == [
        ("born", 990, ""),
        ("stored", 1000, ""),
        ("popped", 1500, "billing"),
        ("put_back", 2000, "billing"),
        ("retried", 12_000, "billing"),
        ("dead_letter", 60_000, "billing"),
        ("sent_again_by", 90_000, ""),
    ]
    assert line[3].fields["due_at"] == 12_000 and line[5].sign == "bad"
    for language in ("en", "zh"):
        assert all(each.key in texts_of(language).table for each in line)
    assert timeline(FACTS, (), (), SentAgain("unknown", None))[-1].word == "sending_again"
    assert [each.word for each in timeline(FACTS, (), (), SentAgain("no"))] == ["born", "stored"]


def picture(moments, verdicts, sentences=None):
    context = SimpleNamespace(texts=texts_of("en"))
    return lanes(context, moments, sentences or [each.key for each in moments], verdicts)


def test_the_picture_has_a_lane_for_each_group_and_writes_distances():
    copies = (Copy(Stage.RETRY, "%RETRY%billing", "broker-a", 0, 1, 4000, 1, "B"),)
    moments = timeline(FACTS, (), [verdict_of(copies)])
    svg = picture(moments, [("billing", "warn", "waits"), ("<b>\u202e" + "g" * 300, "unknown", "passed")])
    assert "+10 ms" in svg and "+3 s" in svg and "billing" in svg and "passed" in svg
    assert "<b>" not in svg and "\u202e" not in svg and "style=" not in svg
    assert svg.count('class="line open"') == 2 and "Time line of 3 events in 3 lanes" in svg
    ElementTree.fromstring(svg)


def test_events_of_one_level_have_marks_of_their_own():
    group = {"group": "billing"}
    words = [("put_back", "warn"), ("retried", "warn"), ("consumed", "good"), ("sent_again", "good"), ("failed", "bad")]
    words += [("dead_letter", "bad"), ("stored", "good")]
    moments = [Moment(1000 * at, f"message.line.{word}", sign, group) for at, (word, sign) in enumerate(words, 1)]
    marks = re.findall(r"</title>(<[^>]+>)<path d=\"([^\"]+)\"/></g>", picture(moments, ()))
    assert len(set(marks)) == len(words)


@pytest.mark.parametrize("at_ms", ["9" * 400, "-" + "9" * 400, "9" * 18, "-1"])
def test_a_trace_of_times_that_no_clock_has_takes_no_page_down(visitor, at_ms):
    visitor.running.create_topic("Orders", 1)
    visitor.running.create_topic("RMQ_SYS_TRACE_TOPIC", 1)

    async def work():
        async with Client(visitor.running.namesrv, world=visitor.running.cluster.world) as client:
            producer = client.producer("shop")
            sent = await producer.send(Message("Orders", b"x"))
            fields = ("SubAfter", "r", sent.message_id, at_ms, "true", "", "0", at_ms, "g")
            trace = "\x01".join(fields) + "\x02"
            await producer.send(Message("RMQ_SYS_TRACE_TOPIC", trace.encode(), keys=sent.message_id))
            return sent.message_id

    found = visitor.get(f"/messages/{visitor.running.run(work())}?topic=Orders")
    assert found.status == 200 and "Orders" in found.text


@pytest.mark.parametrize("at_ms", [10**400, -(10**400), 10**18, -1])
def test_times_that_no_clock_has_are_not_recorded(at_ms):
    record = EndTransaction(
        at_ms, "", "G", "T", "id", None, None, "", MessageType.NORMAL, None, "COMMIT_MESSAGE", False
    )
    (last,) = timeline(FACTS, [Traced(record, "h:1")])[-1:]
    assert (last.word, last.time_ms) == ("committed", None)


def test_the_picture_is_bounded():
    moments = [
        Moment(1000 + each * 86_400_000, "message.line.consumed", "good", {"group": f"g{each % 50}"})
        for each in range(200)
    ]
    svg = picture(moments, [(f"g{each}", "good", "consumed") for each in range(50)])
    assert svg.count("<g ") <= MOST_COLUMNS and svg.count('class="line open"') <= MOST_LANES
    assert len(svg) < 30_000 and "+24 h" in svg
    empty = picture([], [("billing", "unknown", "unknown")])
    ElementTree.fromstring(empty)
    same = picture([Moment(5, "message.line.stored", "good")] * 9, ())
    assert same.count("<g ") == 3


def test_the_page_has_its_parts_in_the_order_of_questions(visitor):
    sent = visitor.running.send("Orders", b'{"a": 1}', keys="k-1")
    html = visitor.get(f"/messages/{sent.message_id}?topic=Orders").response.text
    order = [
        'class="key-facts"',
        'class="json"',
        'class="consumers"',
        '<svg class="lanes"',
        'class="timeline"',
        "/again",
        'class="rest"',
    ]
    places = [html.index(each) for each in order]
    assert places == sorted(places)
    assert 'value="body" checked' in html and 'value="consumers" checked' not in html
    assert (
        'value="consumers" checked' in visitor.get(f"/messages/{sent.message_id}?topic=Orders&start=50").response.text
    )
