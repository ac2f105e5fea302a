"""Compressed bodies that are large: pages show the beginning and say so; downloads have all of them."""

from __future__ import annotations

import base64
import json
import tracemalloc
import zlib

import pytest

from gantrymq_console.data import listing

KIB, MIB = 1024, 1024 * 1024
LARGE = 2 * MIB - 64
COUNT = 6


@pytest.fixture
def large(visitor):
    """A topic with bodies of almost 2 MiB, compressed to 2 KiB; returns the last."""
    visitor.running.create_topic("Orders", 2)
    return [visitor.running.send("Orders", bytes(LARGE), keys="large") for _ in range(COUNT)][-1]


def peak_of(work):
    """Return the result of *work*, and how much memory it needed in between."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("query", ["", "?key=large", "?text=missing"])
def test_a_list_decompresses_the_beginnings(visitor, large, query):
    found, peak = peak_of(lambda: visitor.api(f"/topics/Orders/messages{query}"))
    most = listing.SEARCHED_BYTES if "text" in query else 64 * KIB
    rows = found["data"]["listing"]["rows"]
    if "text" in query:
        assert rows == [] and found["data"]["listing"]["half_searched"] == COUNT
        assert f"{COUNT} bodies" in visitor.get(f"/topics/Orders/messages{query}").text
    else:
        assert {(each["body_bytes"], each["is_shortened"], each["problem"]) for each in rows} == {
            (str(64 * KIB), True, "")
        }
        assert "more than 64.0 KiB" in visitor.get(f"/topics/Orders/messages{query}").text
    assert peak < COUNT * most + 3 * MIB


def test_the_message_page_shows_a_part_and_the_download_has_all(visitor, large):
    path = f"/messages/{large.message_id}"
    assert "Bytes 0 to 65,536; the body is longer" in visitor.get(f"{path}?topic=Orders").text
    twin = visitor.api(f"{path}?topic=Orders&whole=yes")["data"]
    assert (twin["body"]["shown"], twin["body"]["is_shortened"], twin["body"]["problem"]) == (str(MIB), True, "")
    assert twin["facts"]["is_shortened"]
    assert visitor.request("GET", f"{path}/body?topic=Orders").content == bytes(LARGE)
    assert visitor.request("GET", f"/messages/{large.offset_id}/body").content == bytes(LARGE)


def test_a_body_that_grows_too_large_is_refused_before_its_download(visitor, large, monkeypatch):
    monkeypatch.setattr("gantrymq.formats.compression.MAX_BODY_BYTES", MIB)
    refused = visitor.request("GET", f"/api/v1/messages/{large.message_id}/body?topic=Orders")
    assert refused.status_code == 400 and "grows beyond 1048576 bytes" in refused.json()["error"]
    assert visitor.get(f"/messages/{large.message_id}?topic=Orders").status == 200


def test_an_export_has_whole_bodies(visitor, large):
    lines = visitor.request("GET", "/topics/Orders/messages/export?format=jsonl&most=2").text.splitlines()
    assert [len(json.loads(each)["body"]) for each in lines[:2]] == [LARGE, LARGE]


def test_an_export_says_which_body_is_shortened(visitor, large, monkeypatch):
    monkeypatch.setattr("gantrymq_console.data.bodies.MOST_EXPORTED_BYTES", 100 * KIB)
    line = visitor.request("GET", "/topics/Orders/messages/export?format=jsonl&most=1").text.splitlines()[0]
    assert len(base64.b64decode(json.loads(line)["body_base64"])) == 100 * KIB
    assert "shortened" in json.loads(line)["body_problem"]
    rows = visitor.request("GET", "/topics/Orders/messages/export?format=csv&most=1").text.splitlines()
    assert "shortened" in rows[1]


def test_a_large_body_is_sent_again_whole(visitor, large):
    page = visitor.get(f"/messages/{large.message_id}?topic=Orders")
    form = next(each for each in page.forms if each.action.endswith("/again"))
    visitor.confirm(visitor.post(form.action, form.fields))
    bodies = [each.body for each in visitor.running.pull("Orders")]
    assert len(bodies) == COUNT + 1 and set(map(len, bodies)) == {LARGE}
    assert visitor.get(f"/topics/Orders/send?from={large.message_id}").form("/send").fields["encoding"] == "text"


def test_a_body_too_large_to_edit_is_refused(visitor, large, monkeypatch):
    monkeypatch.setattr("gantrymq_console.pages.sending.MOST_COPIED", MIB)
    page = visitor.get(f"/topics/Orders/send?from={large.message_id}")
    assert page.status == 400 and "larger than 1 MiB" in page.text


def test_a_body_that_fits_is_not_shortened(visitor):
    running, text = visitor.running, json.dumps({"a": "x" * 5000}).encode()
    sent = running.send("Orders", text)
    assert len(zlib.compress(text)) < 4096
    (row,) = visitor.api("/topics/Orders/messages")["data"]["listing"]["rows"]
    assert (row["body_bytes"], row["is_shortened"]) == (str(len(text)), False)
    twin = visitor.api(f"/messages/{sent.message_id}?topic=Orders")["data"]
    assert (twin["body"]["form"], twin["body"]["is_shortened"]) == ("json", False)
