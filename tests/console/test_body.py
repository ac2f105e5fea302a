"""Bodies on the page of a message: charsets, folded JSON, parts of large ones, and searches in them."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
import zlib

import pytest
from console_visitor import Visitor
from markupsafe import escape

from gantrymq.client import Client, Message
from gantrymq.errors import FormatError
from gantrymq.formats.compression import decompressed_parts
from gantrymq_console.access.users import Role
from gantrymq_console.data.body_forms import CHARSETS, SHOWN_BYTES, WHOLE_BYTES, body_of, decoded_body
from gantrymq_console.data.body_parts import MOST_HITS, find, part_of
from gantrymq_console.web.body_html import MOST_DEPTH, MOST_LINES, MOST_MARKED, json_html, text_html

KIB, MIB = 1024, 1024 * 1024
INVALID = {"utf-8": b"\xff\x80", "gbk": b"\xff\x80", "shift_jis": b"\xff\x81\x20", "latin-1": b"\x00\x9f"}


# --- charsets ---


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("gbk", "订单已付款"),
        ("shift_jis", "注文は支払済み"),
        ("latin-1", "bezahlt für Köln"),
        ("utf-8", "订单 für 注文"),
    ],
)
def test_text_in_a_charset(charset, text):
    found = body_of(text.encode(CHARSETS[charset]), "", "auto", charset=charset)
    assert (found.form, found.text, found.charset, found.undecoded) == ("text", text, charset, 0)


@pytest.mark.parametrize("charset", CHARSETS)
def test_no_byte_of_any_body_is_lost(charset):
    """Bytes that are not text are shown as numbers, others as their characters."""
    data = b"begin " + INVALID[charset] + b" end"
    found = body_of(data, "", "text", charset=charset)
    if charset != "latin-1":  # which has a character for every byte
        assert found.undecoded and "\\xff" in found.text and 'class="sign">\\xff' in text_html(found.marked)
    assert found.text.startswith("begin ") and found.text.endswith(" end")
    restored = b"".join(
        bytes([ord(each) - 0xDC00]) if 0xDC00 <= ord(each) <= 0xDCFF else each.encode(CHARSETS[charset])
        for each in found.marked
    )
    assert restored == data


@pytest.mark.parametrize("charset", CHARSETS)
def test_every_byte_pair_can_be_shown(charset):
    for first in range(256):
        row = b"".join(bytes([first, second]) for second in range(256))
        found = body_of(row, "", "text", charset=charset)
        assert found.shown == len(row)
        json.dumps(found.text).encode()
        found.text.encode()  # for the JSON twin
        text_html(found.marked).encode()


@pytest.mark.parametrize("charset", ["utf-8", "gbk", "shift_jis"])
def test_parts_that_follow_each_other_cut_no_character_in_two(charset):
    text = "订单" * 100 if charset != "shift_jis" else "注文" * 100
    data = text.encode(CHARSETS[charset])
    found, start = "", 0
    while start < len(data):
        part = body_of(data[start : start + 51], "", "auto", 51, charset=charset, start=start, size=len(data))
        assert part.shown > 0 and part.undecoded == 0
        found, start = found + part.text, part.end
    assert found == text


def test_a_part_that_begins_within_a_character_is_text():
    data = "é".encode() * 100
    assert body_of(data[1:], "", "auto", 51, start=1, size=200).form == "text"
    assert body_of(data[1:], "", "auto", 51).form == "hex"


def test_the_charset_is_in_the_address(visitor):
    sent = visitor.running.send("Orders", "订单<b>".encode("gbk"))
    path = f"/messages/{sent.message_id}?topic=Orders"
    page = visitor.get(path)
    assert visitor.api(path)["data"]["body"]["form"] == "hex"
    assert {"", "gbk", "shift_jis", "latin-1", "utf-8"} <= set(CHARSETS) | {""} and "GBK" in page.text
    assert "订单<b>" in visitor.get(path + "&charset=gbk").text
    assert "<b>" not in visitor.get(path + "&charset=gbk").response.text
    wrong = visitor.get(path + "&charset=utf-8&form=text")
    assert "bytes are not text in UTF-8" in wrong.text and "\\xb6" in wrong.text
    assert visitor.api(path + "&charset=utf-8&form=text")["data"]["body"]["text"].startswith("\\xb6\\xa9")
    assert visitor.get(path + "&charset=ebcdic").status == 400


# --- folded JSON ---


def tree(text):
    body = body_of(text, "", "auto", 8 * MIB)
    assert body.form == "json"
    return json_html(body)


def test_json_is_folded_and_keeps_its_tokens():
    html = tree(b'{"a":[9007199254740993,1.50e3,"<b>",null,[],{}],"k:{":{"x":true}}')
    assert html.count("<details open>") == 3 and html.count("</details>") == 3
    assert '<span class="n">9007199254740993</span>' in html and '<span class="n">1.50e3</span>' in html
    assert '<span class="s">&#34;&lt;b&gt;&#34;</span>' in html and "<b>" not in html
    assert '<span class="l">null</span>' in html and 'data-count="6" data-end="],"' in html
    assert '<span class="k">&#34;k:{&#34;</span>' in html


@pytest.mark.parametrize(
    "hostile",
    [
        b"[" * 10_000 + b"]" * 10_000,
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b'{"a":' * (MOST_DEPTH + 2) + b"1" + b"}" * (MOST_DEPTH + 2),
        b"[" + b"1," * 500_000 + b"1]",
        b"[" + b"[]," * 300_000 + b"1]",
        b'["' + b"\\u0000" * 500_000 + b'"]',
        b'{"' + b'"' * 100_000,
        b'["\\' + b"\\" * 1_000_001 + b'"]',
    ],
    ids=["arrays", "objects", "depth", "numbers", "empty", "escapes", "quotes", "backslashes"],
)
def test_hostile_json_takes_no_time_and_no_room(visitor, hostile):
    began = time.process_time()
    body = body_of(hostile, "", "auto", SHOWN_BYTES)
    html = json_html(body) if body.form == "json" else None
    assert html is None or (len(html) < 4 * MIB and html.count("<details") <= MOST_LINES)
    whole = body_of(hostile[:WHOLE_BYTES], "", "auto", WHOLE_BYTES)
    if whole.form == "json":
        json_html(whole)
    assert time.process_time() - began < 10  # hours, if it grew with the square of the size
    sent = visitor.running.send("Orders", hostile[: 3 * MIB])
    assert visitor.get(f"/messages/{sent.message_id}?topic=Orders").status == 200


def test_json_that_cannot_be_folded_is_shown_with_a_sentence(visitor):
    sent = visitor.running.send("Orders", b"[" + b"1," * (MOST_LINES + 1) + b"1]")
    assert "too many lines" in visitor.get(f"/messages/{sent.message_id}?topic=Orders").text


def test_large_json_has_only_its_upper_levels_open():
    html = tree(json.dumps([{"a": {"b": [1, 2, 3]}} for _ in range(100)]).encode())
    assert "<details open>" in html and "<details><summary" in html


def test_the_text_as_sent_is_kept(visitor):
    sent = visitor.running.send("Orders", b'{"a":  1}')
    path = f"/messages/{sent.message_id}?topic=Orders"
    assert escape('{"a":  1}') in visitor.get(path + "&form=text").response.text
    assert visitor.api(path + "&form=text")["data"]["body"]["text"] == '{"a":  1}'


# --- parts and searches ---

DATA = bytes(range(256)) * 40
PARTS = [1, 7, 100, 256 * 40, 100_000]


def pieces(data, size):
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("size", PARTS)
@pytest.mark.parametrize("start", [0, 1, 99, 5000, 10_139, 10_140, 10_141, 10_239])
def test_a_part_is_that_of_the_body(size, start):
    part = part_of(pieces(DATA, size), start, 100)
    assert (part.start, part.data) == (start, DATA[start : start + 100])
    assert part.size in (None, len(DATA)) and (part.size == len(DATA)) == (start + 100 >= len(DATA))


@pytest.mark.parametrize("size", PARTS)
@pytest.mark.parametrize("start", [None, 10_240, 10_241, 10**15])
def test_the_last_part_is_shown_after_the_end(size, start):
    part = part_of(pieces(DATA, size), start, 100)
    assert (part.start, part.data, part.size) == (10_140, DATA[-100:], len(DATA))
    assert part_of(iter([]), start, 100).data == b""


def test_no_more_is_decompressed_than_a_part_needs():
    read = []

    def parts():
        for each in pieces(DATA, 100):
            read.append(each)
            yield each

    part_of(parts(), 1000, 100)
    assert len(read) == 12


def test_a_damaged_body_shows_what_comes_before():
    packed = zlib.compress(bytes(10 * MIB) + DATA)
    part = part_of(decompressed_parts(packed[:-100], 1, 256 * KIB), None, 100)
    assert part.problem and len(part.data) == 100 and part.size is None
    found = find(decompressed_parts(packed[:-100], 1, 256 * KIB), "0x0001", "utf-8")
    assert found.problem


@pytest.mark.parametrize("size", PARTS)
@pytest.mark.parametrize(
    ("wanted", "needle"), [("0x00010203", bytes(range(4))), ("xyz{", b"xyz{"), ("0xff00", b"\xff\0")]
)
def test_a_search_finds_every_place(size, wanted, needle):
    found = find(pieces(DATA, size), wanted, "utf-8")
    places = [at for at in range(len(DATA)) if DATA.startswith(needle, at)]
    assert found.count == len(places) and [each.offset for each in found.hits] == places[:MOST_HITS]
    assert found.searched == len(DATA)


def test_hits_do_not_overlap_and_are_bounded():
    found = find(iter([b"a" * 100_001]), "aa", "utf-8")
    assert (found.count, len(found.hits)) == (50_000, MOST_HITS)
    assert find(iter([b"0xzz"]), "0xzz", "utf-8").count == 1
    assert find(iter(["¥".encode()]), "订", "latin-1").unwritable
    assert find(iter(["a订b".encode("gbk")]), "订", "gbk").hits[0].before == "a"


def test_a_search_in_a_compressed_body_needs_memory_for_a_part():
    packed = zlib.compress(bytes(48 * MIB) + b"needle")
    tracemalloc.start()
    try:
        found = find(decompressed_parts(packed, 1, 256 * KIB), "needle", "utf-8")
        last = part_of(decompressed_parts(packed, 1, 256 * KIB), None, 64 * KIB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [each.offset for each in found.hits] == [48 * MIB] and last.data.endswith(b"needle")
    assert peak < 3 * MIB


LINES = "".join(f"line {number:07} <b>\n" for number in range(150_000)).encode()  # 2.6 MB


@pytest.fixture(params=["compressed", "plain"])
def long(visitor, request):
    """A message with many lines."""
    running = visitor.running
    running.create_topic("Orders", 1)

    async def send():
        over = 4096 if request.param == "compressed" else 2**31 - 1
        async with Client(running.namesrv, world=running.cluster.world) as client:
            return await client.producer("shop", compress_over_bytes=over).send(Message("Orders", LINES))

    return running.run(send())


def test_a_large_body_is_shown_by_parts(visitor, long):
    path = f"/messages/{long.message_id}?topic=Orders"
    page, parts = visitor.get(path), 0
    body = visitor.api(path)["data"]["body"]
    assert (body["start"], body["shown"]) == ("0", str(64 * KIB))
    while "Next" in [name for name, _ in page.links] and parts < 3:
        page = visitor.get(page.link("Next"))
        parts += 1
    assert parts == 3
    assert visitor.get(page.link("First")).link("Next") == visitor.get(path).link("Next")
    last = visitor.get(page.link("Last"))
    assert "line 0149999" in last.text and "Next" not in [name for name, _ in last.links]
    assert f"of {len(LINES) / MIB:.1f} MiB" in last.text
    before = visitor.get(last.link("Previous"))
    assert f"to {len(LINES) - 64 * KIB:,} of" in before.text or "body is longer" in before.text
    at = LINES.index(b"line 0077777")
    body = visitor.api(f"{path}&from={at}")["data"]["body"]
    assert body["text"].startswith("line 0077777") and body["start"] == str(at)
    assert visitor.get(f"{path}&from=x").status == 400
    assert visitor.get(f"{path}&from={2**62}").status == 200


def test_a_search_leads_to_the_place(visitor, long):
    path = f"/messages/{long.message_id}?topic=Orders"
    page = visitor.get(f"{path}&find=0077777")
    assert "1 place." in page.text and "were searched for exactly this text" in page.text
    at = LINES.index(b"0077777")
    there = visitor.get(page.link(f"Byte {at:,}"))
    assert "line 0077777 <b>" in there.text and "<mark>0077777</mark>" in there.response.text
    assert visitor.api(f"{path}&find=0077777")["data"]["hits"]["hits"][0]["offset"] == str(at)
    hostile = visitor.get(f"{path}&find=%3Cb%3E")
    assert "The first 50 are listed" in hostile.text and "<b>" not in hostile.response.text
    assert "0 places." in visitor.get(f"{path}&find=nowhere").text


def test_viewers_cannot_search(gantrymq_broker):
    sent = gantrymq_broker.send("Orders", b"secret")
    with Visitor(gantrymq_broker, Role.VIEWER) as viewer:
        page = viewer.request("GET", f"/messages/{sent.message_id}?topic=Orders&find=secret&from=2")
        assert "place" not in page.text.replace("placeholder", "") and viewer.audit.entries == []
        assert viewer.api(f"/messages/{sent.message_id}?topic=Orders&find=secret")["data"]["hits"] is None


def test_an_error_of_the_format_is_a_sentence():
    def broken():
        yield b"abc"
        raise FormatError("damaged")

    assert part_of(broken(), 1, 100).data == b"bc" and part_of(broken(), 1, 100).problem == "damaged"


@pytest.mark.parametrize("needle", ["a", "aa", "aba", "ab", "b" * 7])
@pytest.mark.parametrize("size", [1, 3, 7, 64, 1000])
def test_hits_are_counted_as_by_a_search_of_the_whole_body(needle, size):
    values = random.Random(size)
    body = bytes(values.choice(b"aab") for _ in range(2000)) + b"a" * 500 + b"ab" * 300 + b"b" * 700
    parts = (body[at : at + size] for at in range(0, len(body), size))
    assert find(parts, needle, "utf-8").count == body.count(needle.encode())


def test_not_more_places_are_marked_than_a_browser_bears():
    assert text_html("a" * 5000, "a").count("<mark>") == MOST_MARKED


def test_a_hit_at_each_byte_takes_no_time():
    parts, begun_s = (b"a" * (256 * KIB) for _ in range(256)), time.process_time()
    assert find(parts, "a", "utf-8").count == 64 * MIB
    assert time.process_time() - begun_s < 3


@pytest.mark.parametrize("text", ["{\n}\n}", "[\n]\n]\n]", "{\n[", "{\n}\n{"])
def test_text_of_a_decoder_that_is_only_like_json_is_not_folded(text):
    assert json_html(decoded_body(text, 9)) is None
