"""Lists of messages: newest first in pages, by key, time, queue, tag and expression; search, tail, export."""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import json
import shlex

import attrs
import pytest
from click.testing import CliRunner
from console_members import commit
from console_visitor import Page, Visitor
from polling import wait_until

from gantrymq.cli import main
from gantrymq.client import Message, Reader, TopicConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.send import SendMessageRequest
from gantrymq_console.access.users import Role
from gantrymq_console.data import bodies as message_bodies
from gantrymq_console.data import listing, searching
from gantrymq_testing import RunningBroker

MARKUP = "<script>alert(1)</script>\"'&"
BIDI = "a\u202eb\u0007"


def listed(visitor, topic="Orders", **query):
    """Return the rows of all pages."""
    rows, params = [], {key: str(each) for key, each in query.items()}
    for _ in range(100):
        page = visitor.api(f"/topics/{topic}/messages", params=params)["data"]["listing"]
        rows += page["rows"]
        if page["next_ms"] is None:
            return rows
        params |= {"before": str(page["next_ms"]), "skip": str(page["next_skip"])}
    raise AssertionError("no end")


def sent(visitor, count, queues=4, **message):
    visitor.running.create_topic("Orders", queues)
    return [visitor.running.send("Orders", b"body %d" % n, keys=f"k-{n}", **message) for n in range(count)]


@pytest.mark.parametrize("rows", [3, 200])
def test_pages_have_every_message_once_and_the_newest_first(visitor, rows):
    messages = sent(visitor, 50)
    found = listed(visitor, rows=rows)
    assert sorted(each["unique_id"] for each in found) == sorted(each.message_id for each in messages)
    times = [each["stored_ms"] for each in found]
    assert times == sorted(times, reverse=True)


def test_the_page_shows_messages_and_links_to_older_ones(visitor):
    sent(visitor, 60)
    page = visitor.get("/topics/Orders/messages")
    assert "50 messages, the newest first" in page.text and "body 59" in page.text
    older = visitor.get(page.link("Older"))
    assert "10 messages, the newest first" in older.text and "body 0" in older.text
    assert visitor.get(older.link("Newest")).text.count("body 59") == 1
    assert older.link("k-0").endswith("?topic=Orders")


def test_an_empty_topic_and_one_that_does_not_exist(visitor):
    visitor.running.create_topic("Orders", 1)
    assert "keeps no messages" in visitor.get("/topics/Orders/messages").text
    assert visitor.get("/topics/Other/messages").status == 404
    assert visitor.get("/topics/a%20b/messages").status == 400


def test_by_time_queue_and_offset(visitor):
    sent(visitor, 30, queues=3)
    rows = listed(visitor)
    middle = rows[15]["stored_ms"]
    assert listed(visitor, **{"from": middle}) == [each for each in rows if each["stored_ms"] >= middle]
    assert listed(visitor, to=middle, rows=4) == [each for each in rows if each["stored_ms"] <= middle]
    assert listed(visitor, **{"from": middle, "to": middle}) == [each for each in rows if each["stored_ms"] == middle]
    broker = rows[0]["broker"]
    queue = [each for each in rows if each["queue_id"] == 1]
    assert listed(visitor, queue=f"{broker}:1", rows=3) == queue
    assert listed(visitor, queue=f"{broker}:1", offset=4, rows=2) == queue[-5:]
    assert listed(visitor, queue=f"{broker}:9") == []


def test_by_tag_and_expression(visitor):
    visitor.running.create_topic("Orders", 2)
    for number in range(80):
        visitor.running.send("Orders", b"x", tags="AB"[number % 2 == 0], properties={"n": str(number)})
    assert len(listed(visitor, tag="A", rows=7)) == 40
    assert {each["tags"] for each in listed(visitor, tag="B")} == {"B"}
    assert len(listed(visitor, sql="n > 69", rows=3)) == 10
    assert visitor.get("/topics/Orders/messages?sql=n+%3E").status == 400


def test_a_rare_tag_is_found_far_back(visitor):
    visitor.running.create_topic("Orders", 1)
    visitor.running.send("Orders", b"rare", tags="rare")
    for _ in range(300):
        visitor.running.send("Orders", b"x", tags="common")
    assert [each["excerpt"] for each in listed(visitor, tag="rare")] == ["rare"]
    assert len(listed(visitor, tag="common", rows=100)) == 300


@pytest.mark.parametrize(
    ("query", "command"),
    [
        ("", "--max 50"),
        ("from=5&tag=A+||+B", "--max 50 --from-time 5 -e 'A || B'"),
        ("queue=b:1&offset=7&sql=a+>+1", "--max 50 --queue b:1 --to-offset 7 -e 'a > 1'"),
        ("to=9&before=8&skip=2&rows=7", "--max 7 --to-time 8 --skip 2"),
        ("key=$(x)&from=5&to=9", "message query -t Orders --key '$(x)' --begin 5 --end 9"),
        ("text=x", ""),
    ],
)
def test_the_command_that_shows_the_same(visitor, query, command):
    if command.startswith("--"):
        command = f"message pull -t Orders --newest {command}"
    visitor.running.create_topic("Orders", 1)
    shown = visitor.api(f"/topics/Orders/messages?{query}")["command"]
    assert shown.removesuffix(" --expression-type SQL92") == command


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("tag=A&sql=a", "not both"),
        ("key=a&tag=A", "by itself"),
        ("offset=4", "belongs to a queue"),
        ("queue=a", "is not a queue"),
        ("queue=a:1&offset=x", "is not a number"),
        ("from=yesterday", "is not a time"),
        ("skip=-1", "is not a number"),
    ],
)
def test_wrong_fields_are_explained(visitor, query, text):
    visitor.running.create_topic("Orders", 1)
    page = visitor.get(f"/topics/Orders/messages?{query}")
    assert page.status == 400 and text in page.text


def test_more_messages_with_a_key_than_a_broker_returns(visitor):
    visitor.running.create_topic("Orders", 2)
    clock = visitor.running.cluster.world.clock
    messages = [visitor.running.send("Orders", b"x", keys="same") for _ in range(40)]
    visitor.running.run(clock.sleep(1.1))  # the index has times in seconds
    messages += [visitor.running.send("Orders", b"x", keys="same") for _ in range(40)]
    page = visitor.get("/topics/Orders/messages?key=same")
    assert "may be older ones" in page.text
    found = listed(visitor, key="same")
    assert sorted(each["unique_id"] for each in found) == sorted(each.message_id for each in messages)
    assert "No message of the topic has the key" in visitor.get("/topics/Orders/messages?key=other").text
    assert len(listed(visitor, key=messages[0].message_id)) == 1


def exported(visitor, query):
    """Return the lines of a file: the bodies of messages, and why some are missing."""
    lines = visitor.request("GET", f"/topics/Orders/messages/export?{query}").content.splitlines()
    found = [json.loads(each) for each in lines]
    return [each["body"] for each in found if "body" in each], [
        each["incomplete"] for each in found if "body" not in each
    ]


def test_a_file_has_all_messages_with_a_key_or_says_that_some_are_missing(visitor):
    visitor.running.create_topic("Orders", 2)
    clock = visitor.running.cluster.world.clock

    def send(count):
        visitor.running.run(clock.sleep(1.1 - clock.now_ms() % 1000 / 1000))  # the index has times in seconds
        for number in range(count):
            visitor.running.send("Orders", b"%d" % number, keys="same")

    send(40)
    send(40)
    bodies, missing = exported(visitor, "key=same")
    assert sorted(bodies) == sorted(2 * [str(n) for n in range(40)]) and missing == []
    assert exported(visitor, "key=same&most=70")[1] == ["the limit of 70 messages was reached"]
    assert len(exported(visitor, "key=same&most=70")[0]) == 70
    assert exported(visitor, "key=same&most=80")[1] == []


def test_a_file_says_that_a_broker_returns_not_all_messages_of_a_second(visitor, monkeypatch):
    sent(visitor, 3)

    async def by_key(*_args, end_ms=None, **_more):
        page = listing.Listing((), 0, listing.Long(0), more_in_one_second=True)
        return page if end_ms == 5 else attrs.evolve(page, next_ms=5, more_in_one_second=False)

    monkeypatch.setattr(listing, "by_key", by_key)
    monkeypatch.setattr(message_bodies, "by_key", by_key)
    ((why,),) = exported(visitor, "key=same")[1:]
    assert "more than 64 messages with this key were stored within one second" in why and "some are missing" in why


def test_a_viewer_sees_the_list_without_bodies(gantrymq_broker):
    gantrymq_broker.send("Orders", b"secret-body", keys="k")
    with Visitor(gantrymq_broker, Role.VIEWER) as viewer:
        page = viewer.get("/topics/Orders/messages")
        assert "k" in page.text and "secret-body" not in page.response.text
        assert viewer.get("/topics/Orders/messages?text=secret").status == 403
        assert "secret" not in viewer.request("GET", "/api/v1/topics/Orders/messages").text
        for path in ("messages/export", "tail", "searches/0", "tails/0", "searches/0/export"):
            assert viewer.request("GET", f"/topics/Orders/{path}").status_code == 403
        assert viewer.audit.entries == []


def test_large_bodies_are_read_in_small_slices(visitor):
    visitor.running.create_topic("Orders", 1)
    for number in range(12):
        visitor.running.send("Orders", b"%02d" % number + b"x" * 1_000_000)
    first = visitor.api("/topics/Orders/messages?rows=2")["data"]["listing"]
    assert [each["excerpt"][:2] for each in first["rows"]] == ["11", "10"]
    assert int(first["read_bytes"]) < 5_000_000
    assert [each["excerpt"][:2] for each in listed(visitor, rows=3)] == [f"{n:02}" for n in range(11, -1, -1)]


def test_hostile_messages_stay_text(visitor):
    visitor.running.create_topic("Orders", 1)
    run = visitor.running
    run.send("Orders", MARKUP.encode(), keys=MARKUP.replace(" ", ""), tags=MARKUP.replace(" ", "").replace("|", ""))
    run.send("Orders", BIDI.encode(), keys=BIDI)
    run.send("Orders", b"\0\xff\xfe" + bytes(range(256)))
    run.send("Orders", b"=1+1", keys="=cmd", tags="@t", properties={"p": "\n-1"})
    run.send("Orders", b"<" * (4 * 1024 * 1024 - 1000))
    page = visitor.get("/topics/Orders/messages")
    assert MARKUP in page.text and "U+202E" in page.text and "00 ff fe" in page.text
    assert "<script>alert" not in page.response.text and len(page.response.content) < 60_000
    hostile = visitor.get("/topics/Orders/messages", params={"key": MARKUP, "from": "1"})
    assert hostile.status == 200 and "<script>alert" not in hostile.response.text
    table = visitor.request("GET", "/topics/Orders/messages/export?format=csv").content.decode()
    csv.field_size_limit(2**23)
    rows = list(csv.DictReader(io.StringIO(table)))
    assert len(rows) == 5
    assert not any(cell[:1] in "=+-@\t\r" for row in rows for cell in row.values() if cell)
    assert {"'=1+1", MARKUP} <= {row["body"] for row in rows}


@pytest.mark.parametrize("size", [70_000, 4 * 1024 * 1024 - 1000])
def test_large_bodies_are_shown_in_part(visitor, size):
    sent = visitor.running.send("Orders", b"[" + b"1," * (size // 2 - 2) + b"1]")
    path = f"/messages/{sent.message_id}"
    part = visitor.api(f"{path}?topic=Orders")["data"]["body"]
    assert (part["form"], part["shown"]) == ("text", "65536")
    whole = visitor.api(f"{path}?topic=Orders&whole=yes")["data"]["body"]
    assert whole["shown"] == str(min(int(whole["size"]), 1024 * 1024))
    assert whole["form"] == ("json" if size < 1024 * 1024 else "text")
    assert "Show up to 1 MiB" in visitor.get(f"{path}?topic=Orders").text
    body = visitor.request("GET", f"{path}/body?topic=Orders").content
    assert len(body) == size - 1
    assert (whole["size"], whole["is_shortened"]) == (str(min(len(body), 1024 * 1024)), len(body) > 1024 * 1024)


def test_export_as_lines_of_json(visitor):
    messages = sent(visitor, 70)
    answer = visitor.request("GET", "/topics/Orders/messages/export?format=jsonl&most=200")
    assert answer.headers["content-disposition"] == 'attachment; filename="Orders.jsonl"'
    lines = [json.loads(each) for each in answer.content.splitlines()]
    assert sorted(each["message_id"] for each in lines) == sorted(each.message_id for each in messages)
    assert lines[0]["body"] == "body 69"
    assert [each.action for each in visitor.audit.entries] == ["messages.export"]
    few = visitor.request("GET", "/topics/Orders/messages/export?most=3").content.splitlines()
    assert len(few) == 4 and "limit of 3" in json.loads(few[3])["incomplete"]
    keyed = visitor.request("GET", "/topics/Orders/messages/export?key=k-5").content.splitlines()
    assert [json.loads(each)["body"] for each in keyed] == ["body 5"]
    some = visitor.request("GET", "/topics/Orders/messages/export?text=BODY+6").content.splitlines()
    assert len(some) == 11


def test_a_file_has_what_the_form_selects_as_typed(visitor):
    sent(visitor, 12)
    page = visitor.get("/topics/Orders/messages")
    assert page.response.text.count('topics/Orders/messages/export">Download') == 2
    assert not [each for each in page.forms if each.action.partition("?")[0].endswith("/export")]
    for name, value, bodies in (("text", "body 11", ["body 11"]), ("key", "k-3", ["body 3"])):
        form = next(each for each in page.forms if name in each.fields)
        answer = visitor.request("GET", "/topics/Orders/messages/export", params={**form.fields, name: value})
        assert [json.loads(each)["body"] for each in answer.content.splitlines()] == bodies
    kept = visitor.get("/topics/Orders/messages?text=body&format=csv&most=7")
    fields = next(each for each in kept.forms if "text" in each.fields).fields
    assert (fields["text"], fields["format"], fields["most"]) == ("body", "csv", "7")


def test_few_files_are_made_at_the_same_time(visitor):
    sent(visitor, 1)
    now = visitor.running.cluster.world.clock.monotonic()
    visitor.cluster.kept["files"] = [now] * 4
    assert "4 files are being made" in visitor.get("/topics/Orders/messages/export").text
    visitor.cluster.kept["files"] = [now - 1000] * 4
    assert visitor.request("GET", "/topics/Orders/messages/export").status_code == 200
    assert visitor.cluster.kept["files"] == []


def test_export_reads_large_bodies_again(visitor, monkeypatch):
    monkeypatch.setattr(message_bodies, "SMALL", 10)
    visitor.running.send("Orders", b"a body of more than ten bytes")
    (line,) = visitor.request("GET", "/topics/Orders/messages/export").content.splitlines()
    assert json.loads(line)["body"] == "a body of more than ten bytes"


def wait(visitor, path, field="running"):
    def ended():
        data = visitor.api(path)["data"]
        return None if data[field] else data

    return wait_until(ended, f"end of {path}")


def path_of(page):
    return page.url.partition("?")[0].removeprefix("http://127.0.0.1:8088")


def test_a_search_for_text(visitor, monkeypatch):
    monkeypatch.setattr(listing, "MOST_LOOKED", 8)
    sent(visitor, 100, queues=2)
    page = visitor.get("/topics/Orders/messages?text=Body+1")
    assert "Stopped at" in page.text
    page = visitor.submit(page, "/topics/Orders/searches")
    assert "The search has started" in page.text
    data = wait(visitor, path_of(page))
    assert data["found"] == 11 and data["limit"] == "" and data["reached_ms"] is None
    page = visitor.get(path_of(page))
    assert "Everything was looked at" in page.text and "11 messages found" in page.text and "body 19" in page.text
    lines = visitor.request("GET", f"{path_of(page)}/export?format=jsonl").content.splitlines()
    assert {json.loads(each)["body"] for each in lines} == {"body 1", *(f"body {n}" for n in range(10, 20))}


def test_a_search_that_is_stopped_goes_on_where_it_was(visitor, monkeypatch):
    monkeypatch.setattr("gantrymq_console.data.searching.MOST_LOOKED", 40)
    sent(visitor, 100, queues=2)
    answer = visitor.request("POST", "/api/v1/topics/Orders/searches", json={"text": "body"}, headers=token(visitor))
    path = f"/topics/Orders/searches/{answer.json()['data']['job']}"
    found = []
    for _ in range(20):
        data = wait(visitor, path)
        found += visitor.api(path, params={"rows": "200"})["data"]["rows"]
        if data["reached_ms"] is None:
            break
        assert data["limit"] == "looked"
        page = visitor.submit(visitor.get(path), "/topics/Orders/searches")
        path = path_of(page)
    assert sorted(each["excerpt"] for each in found) == sorted(f"body {n}" for n in range(100))


def test_a_running_search_is_stopped_by_its_button_and_seen_by_its_owner_only(visitor, monkeypatch):
    monkeypatch.setattr("gantrymq_console.data.searching.BYTES_PER_S", 300.0)
    sent(visitor, 60, queues=1)
    answer = visitor.request("POST", "/api/v1/topics/Orders/searches", json={"text": "none"}, headers=token(visitor))
    path = f"/topics/Orders/searches/{answer.json()['data']['job']}"
    page = visitor.get(path)
    assert "Searching" in page.text
    visitor.submit(page, "/stop")
    job = visitor.console.jobs.find(path.rpartition("/")[2], "search", "tester")
    assert job.stop_asked
    assert visitor.console.jobs.find(job.id, "search", "other") is None
    assert visitor.get(f"/topics/Other/searches/{job.id}").status == 404
    assert visitor.post("/topics/Orders/searches", {"csrf": token(visitor)["x-csrf-token"]}).status in (400, 409)


def token(visitor):
    page = visitor.get("/topics/Orders/tail")
    return {"x-csrf-token": page.form("/topics/Orders/tail").fields["csrf"]}


@pytest.fixture
def looks(monkeypatch):
    """A list with an entry for each look of a tail that has ended; the first finds where new messages begin."""
    ended, look = [], searching._look

    async def noting(*given):
        await look(*given)
        ended.append(given)

    monkeypatch.setattr(searching, "EVERY_S", 0.1)
    monkeypatch.setattr(searching, "_look", noting)
    return ended


def test_a_tail_shows_new_messages_and_counts_those_left_out(visitor, monkeypatch, looks):
    monkeypatch.setattr(searching, "MOST_PER_S", 5)
    sent(visitor, 3, queues=2)
    path = path_of(visitor.submit(visitor.get("/topics/Orders/tail"), "/topics/Orders/tail"))
    wait_until(lambda: looks, "first look")
    assert "No message has arrived" in visitor.get(path).text

    async def burst():
        producer = visitor.client.producer("burst")
        await producer.send_batch([Message("Orders", b"burst %d" % n) for n in range(20)])

    visitor.running.run(burst())
    wait_until(lambda: visitor.api(path)["data"]["rows"], "messages of the burst")
    data = visitor.api(path)["data"]
    assert (data["arrived"], data["left_out"], data["rows"][0]["excerpt"]) == ("20", "15", "burst 19")
    page = visitor.get(path)
    assert "15 messages were left out" in page.text
    visitor.submit(page, "/stop")
    assert wait(visitor, path)["unseen"] is False
    assert "Ended." in visitor.get(path).text


def test_a_tail_with_a_tag_says_what_its_numbers_count(visitor, looks):
    visitor.running.create_topic("Orders", 1)
    path = path_of(visitor.submit(visitor.get("/topics/Orders/tail"), "/topics/Orders/tail", tag="A || C"))
    wait_until(lambda: looks, "first look")
    for number in range(6):
        visitor.running.send("Orders", b"x", tags="AB"[number % 2])

    def all_read():  # a message has arrived before it is read
        data = visitor.api(path)["data"]
        return (data["arrived"], len(data["rows"])) == ("6", 3)

    wait_until(all_read, "six messages")
    (job,) = visitor.console.jobs._jobs.values()
    visitor.running.call(setattr, job.progress[0], "left_out", 2)
    page = visitor.get(path)
    assert "Arrived, with any tag: 6. Shown: 3." in page.text and "3 messages, the newest first" in page.text
    assert "Only messages with the tags A || C are shown." in page.text
    assert "2 messages were not looked at" in page.text and "newest 200" not in page.text


@pytest.mark.parametrize("query", ["", "tag=A", "key=k1", "queue=broker-a:1&offset=3", "from=FROM&to=TO", "sql=n+<+9"])
def test_the_command_prints_the_rows_of_each_page(visitor, query):
    """The command that a page shows is run, page by page."""
    visitor.running.create_topic("Orders", 3)
    for number in range(24):
        name = "AB"[number % 2]
        visitor.running.send("Orders", b"x", tags=name, keys=f"k{number % 3}", properties={"n": str(number)})
    every = listed(visitor)
    query = query.replace("FROM", str(every[-5]["stored_ms"])).replace("TO", str(every[4]["stored_ms"]))
    more, pages = f"?rows=5&{query}", 0
    while more:
        twin = visitor.api(f"/topics/Orders/messages{more}")
        done = CliRunner().invoke(
            main, [*shlex.split(twin["command"]), "-n", visitor.running.namesrv, "--output", "json"]
        )
        assert done.exit_code == 0, done.output
        printed = [json.loads(line)["offset_id"] for line in done.stdout.splitlines()]
        shown = [each["offset_id"] for each in twin["data"]["listing"]["rows"]]
        assert (sorted(printed) if "key=" in query else printed) == (sorted(shown) if "key=" in query else shown)
        listing, pages = twin["data"]["listing"], pages + 1
        more = listing["next_ms"] and f"?rows=5&{query}&before={listing['next_ms']}&skip={listing['next_skip']}"
    assert pages > 1 or "=" in query


def test_a_form_that_cannot_be_used_keeps_its_fields(visitor):
    visitor.running.send("Orders", b"1")
    page = visitor.get("/topics/Orders/messages?tag=A&sql=b%3D1&text=hello&queue=x:1&offset=zwei")
    assert page.status == 400 and "not both" in page.text
    fields = next(each for each in page.forms if "sql" in each.fields).fields
    assert [fields[name] for name in ("tag", "sql", "text", "queue", "offset")] == ["A", "b=1", "hello", "x:1", "zwei"]


def test_the_tail_is_linked_where_messages_are(visitor):
    visitor.running.send("Orders", b"1")
    for path in ("/topics/Orders", "/topics/Orders/messages", "/search?q=Orders"):
        assert visitor.get(path).link("Live tail").endswith("/topics/Orders/tail")
    assert visitor.get("/topics/Orders/tail").link("Messages").endswith("/topics/Orders/messages")


def test_a_tail_ends_when_nobody_looks(visitor, monkeypatch):
    monkeypatch.setattr(searching, "EVERY_S", 0.1)
    monkeypatch.setattr(searching, "UNSEEN_MS", 150)
    visitor.running.create_topic("Orders", 1)
    page = visitor.submit(visitor.get("/topics/Orders/tail"), "/topics/Orders/tail")
    (job,) = visitor.console.jobs._jobs.values()
    wait_until(lambda: job.progress[0].unseen, "end of the tail")
    assert "its page was not open" in visitor.get(path_of(page)).text


def test_the_pace_holds_its_rate():
    class Clock:
        now, slept = 0.0, 0.0

        def monotonic(self):
            return self.now

        async def sleep(self, seconds):
            self.slept += seconds
            self.now += seconds

    clock = Clock()
    pace = listing.Pace(clock, 100.0)

    async def work():
        for _ in range(50):
            await pace.spend(20)

    asyncio.run(work())
    assert clock.slept == pytest.approx(9.0)


async def send_record(visitor, body, **more):
    """Send a record that no client of ours would send."""
    header = SendMessageRequest(
        **{
            "producer_group": "raw",
            "topic": "Orders",
            "default_topic": "TBW102",
            "default_topic_queue_nums": 1,
            "queue_id": 0,
            "sys_flag": 0,
            "born_timestamp": visitor.running.cluster.world.clock.now_ms(),
            "flag": 0,
            "properties": "KEYS\x01raw\x02",
            "reconsume_times": 0,
            "unit_mode": False,
            "batch": False,
        }
        | more
    )
    address = visitor.running.broker_address
    await visitor.client.admin.request(address, RequestCode.SEND_MESSAGE, header, body=body)


def test_bodies_that_cannot_be_decompressed_are_shown_as_stored(visitor):
    visitor.running.create_topic("Orders", 1)
    visitor.running.run(send_record(visitor, b"not zlib", sys_flag=1))
    page = visitor.get("/topics/Orders/messages")
    assert "not zlib" in page.text and "decompress" in page.text
    message = visitor.get(page.link("raw"))
    assert message.status == 200 and "decompress" in message.text and "not zlib" in message.text
    (line,) = visitor.request("GET", "/topics/Orders/messages/export").content.splitlines()
    assert base64.b64decode(json.loads(line)["body_base64"]) == b"not zlib"


def test_compressed_bodies_are_searched_and_shown_decompressed(visitor):
    sent = visitor.running.send("Orders", b'{"word": "needle", "rest": "' + b"x" * 9000 + b'"}', keys="z")
    row = visitor.api("/topics/Orders/messages?text=NEEDLE")["data"]["listing"]["rows"][0]
    assert row["excerpt"].startswith('{"word": "needle"') and len(row["excerpt"]) == 300
    facts = visitor.api(f"/messages/{sent.message_id}?topic=Orders")["data"]["facts"]
    assert int(facts["record_bytes"]) < 1000 < 9000 < int(facts["body_bytes"])


def test_messages_of_an_inner_batch_are_listed_one_by_one(tmp_path):
    pytest.importorskip("gantrymq_storage_mmap")
    sizes = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 6000, "maxHashSlotNum": 500}
    with (
        RunningBroker(tmp_path, {"store": "mmap", "maxIndexNum": 2000, **sizes}) as running,
        Visitor(running) as visitor,
    ):

        async def work():
            config = TopicConfig("Orders", 1, 1, attributes={"+queue.type": "BatchCQ"})
            await visitor.client.admin.create_topic(running.broker_address, config)
            producer = visitor.client.producer("shop")
            await producer.wait_ready("Orders")
            for first in (0, 10, 20):
                batch = [Message("Orders", b"n-%d" % n, keys=f"k-{n}") for n in range(first, first + 10)]
                await producer.send_batch(batch)

        running.run(work())
        found = listed(visitor, rows=7)
        assert [each["excerpt"] for each in found] == [f"n-{n}" for n in range(29, -1, -1)]
        commit(visitor, "billing", "Orders", 20)
        page = visitor.get(visitor.get("/topics/Orders/messages").link("k-15"))
        assert page.status == 200 and "n-15" in page.text
        actions = [
            each.action.rpartition("/")[2]
            for each in page.forms
            if "/messages/" in each.action and each.method == "post"
        ]
        assert actions == ["again", "again"], "brokers deliver whole inner batches to one member only"
        assert visitor.request("GET", page.link("Download the body")).content == b"n-15"
        assert "n-15" in visitor.get(page.link("Edit a copy and send it")).text
        wrong = page.url.replace("%3A15", "%3A16")
        assert wrong != page.url and visitor.get(wrong).status == 404
        again = next(each for each in page.forms if each.action.endswith("/again"))
        done = visitor.confirm(Page(visitor.request("POST", again.action, data=again.fields)))
        assert "Sent again to Orders" in done.text and "n-15" in done.text
        assert listed(visitor)[0]["excerpt"] == "n-15"


def test_a_silent_broker_is_named_and_its_messages_are_not_said_to_be_missing(visitor, monkeypatch):
    sent(visitor, 5)
    monkeypatch.setattr(listing, "ROUND_S", 0.2)

    async def never(*_args, **_more):
        await asyncio.Event().wait()

    monkeypatch.setattr(Reader, "pull", never)
    page = visitor.get("/topics/Orders/messages")
    assert page.status == 200 and "is missing: no answer within" in page.text
    assert "No message is known" in page.text and "keeps no messages" not in page.text
