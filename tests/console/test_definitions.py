"""Definitions of a cluster: download, upload with a preview, results by row; forms with files."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from console_visitor import Page, Visitor
from polling import wait_until

from gantrymq.errors import BrokerRefused, ClientError, ConnectFailed
from gantrymq_admin.definitions.importing import AT_ONCE
from gantrymq_console.access.users import Role
from gantrymq_console.pages import definitions as page_module
from gantrymq_console.web import actions, documents
from gantrymq_console.web.documents import Documents
from gantrymq_console.web.multipart import read_multipart

PATH = "/definitions"
IMPORT = "/definitions/import"
HOSTILE = '<script>alert(1)</script>"\u202e'


@pytest.fixture
def filled(visitor):
    visitor.running.create_topic("Orders", 4)
    return visitor


def exported(visitor, query=""):
    found = visitor.request("GET", f"{PATH}/export{query}")
    assert found.status_code == 200 and "attachment" in found.headers["content-disposition"]
    return found.json()


def changed(visitor, **topics):
    """Return the document of the cluster with other topics, as text."""
    document = exported(visitor)
    document["topics"] |= topics
    return json.dumps(document)


def upload(visitor, text, **fields):
    """Choose a file with *text*, and press the button."""
    form = visitor.get(PATH).form(IMPORT)
    given = {name: value for name, value in {**form.fields, **fields}.items() if name != "document"}
    file = {"document": ("definitions.json", text if isinstance(text, bytes) else text.encode(), "application/json")}
    return Page(visitor.request("POST", form.action, data=given, files=file))


def ended(visitor, page):
    path = page.url.partition("8088")[2].partition("?")[0]
    wait_until(lambda: not visitor.api(path)["data"]["running"], "end of the import")
    return visitor.get(path)


QUEUES = {"read_queues": 8, "write_queues": 8}


def test_the_download_is_the_document_of_the_command(filled):
    page = filled.get(filled.get("/brokers").link("Export or import topics and groups"))
    assert "gantrymq cluster export -n" in page.text and "1 topics" in page.text
    found = filled.request("GET", page.link("Download"))
    assert found.headers["content-disposition"] == 'attachment; filename="DefaultCluster-definitions.json"'
    document = found.json()
    assert document["definitions_version"] == 1 and document["brokers"] == ["broker-a"]
    assert document["topics"] == {"Orders": {"read_queues": 4, "write_queues": 4}}
    assert {"Orders", "TBW102"} <= exported(filled, "?system=yes")["topics"].keys()
    assert filled.api(PATH)["data"]["topics"] == "1"
    assert filled.request("GET", f"/api/v1{PATH}/export").json() == document


def test_an_import_shows_the_differences_and_then_makes_them(filled):
    text = changed(filled, Orders=QUEUES, Fresh={"read_queues": 1, "write_queues": 1})
    preview = upload(filled, text)
    assert "1 to add 1 to change 0 unchanged" in preview.text
    assert "Fresh topic ✓ new broker-a : read_queues 1 , write_queues 1" in preview.text, preview.text
    assert "Orders topic ! changed broker-a : read_queues 4 → 8 , write_queues 4 → 8" in preview.text
    assert "gantrymq cluster import definitions.json -n" in preview.text
    assert set(preview.form("/import").fields) >= {"kept", "seen"} and "document" not in preview.form("/import").fields
    assert exported(filled)["topics"]["Orders"]["read_queues"] == 4
    done = ended(filled, filled.confirm(preview))
    assert "2 of 2 changes have ended. ✓ done" in done.text and "✓ added" in done.text and "✓ changed" in done.text
    filled.cluster.forget()
    assert exported(filled)["topics"] == json.loads(text)["topics"]
    results = [(each.target, each.change, each.result) for each in filled.audit.entries]
    assert ("DefaultCluster", "1 to add, 1 to change", "done") in results
    assert ("DefaultCluster", "2 changes", "done: 2 changes") in results
    again = upload(filled, text)
    assert again.status == 400 and "Nothing would change: cluster DefaultCluster has all 2 definitions" in again.text


def test_text_may_be_pasted_and_what_only_the_cluster_has_stays(filled):
    filled.running.create_topic("Kept", 1)
    text = json.dumps({"definitions_version": 1, "topics": {"Orders": QUEUES}})
    preview = filled.submit(filled.get(PATH), "/import", text=text)
    assert "1 only in the cluster, not deleted" in preview.text and "topic Kept broker-a" in preview.text
    ended(filled, filled.confirm(preview))
    filled.cluster.forget()
    assert exported(filled)["topics"]["Kept"] == {"read_queues": 1, "write_queues": 1}


def test_a_cluster_that_changed_after_the_preview(filled):
    preview = upload(filled, changed(filled, Orders=QUEUES))
    filled.running.create_topic("Meanwhile", 1)
    filled.cluster.forget()
    again = filled.confirm(preview)
    assert again.status == 409 and "The numbers changed" in again.text
    assert exported(filled)["topics"]["Orders"]["read_queues"] == 4
    assert "has begun" in filled.confirm(again).text


def test_a_document_that_is_not_kept_any_more(filled, monkeypatch):
    preview = upload(filled, changed(filled, Orders=QUEUES))
    monkeypatch.setattr(documents, "_KEPT_S", -1.0)
    refused = filled.confirm(preview)
    assert refused.status == 409 and "upload it again" in refused.text
    assert exported(filled)["topics"]["Orders"]["read_queues"] == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Choose a file, or paste its text"),
        ("{", "line 1, column 2 is not JSON"),
        ("[" * 200_000, "nested too deep"),
        ("1" * 5000, "thousands of digits"),
        ('{"definitions_version": 1, "topics": {}, "topics": {}}', "topics is there twice"),
        ('{"definitions_version": 2}', "definitions_version is 2; expected 1"),
        ('{"definitions_version": 1, "topic": {}}', "did you mean topics?"),
        ('{"definitions_version": 1, "topics": {"a b": {"read_queues": 1, "write_queues": 1}}}', "topics: "),
        ('{"definitions_version": 1, "topics": {"T": {"read_queues": -1, "write_queues": 1}}}', "read_queues is -1"),
        ('{"definitions_version": 1, "topics": {"T": {"read_queues": 1, "write_queues": "\\ud800"}}}', "UTF-8"),
        ('{"definitions_version": 1, "brokers": ["nobody"], "topics": {}}', "the cluster has no broker nobody"),
        (json.dumps({"definitions_version": 1, HOSTILE: {}}), "unknown member"),
        (b"\xff\xfe{}", "document is not text in UTF-8"),
    ],
)
def test_a_document_with_an_error_is_refused_in_one_sentence(filled, text, said):
    page = upload(filled, text)
    assert page.status == 400 and said in page.text.partition("Details for your administrator")[0], page.text
    assert "<script>alert" not in page.response.text and [each.action for each in filled.audit.entries] == []


def test_a_document_that_is_too_large(filled, monkeypatch):
    monkeypatch.setattr(page_module, "MOST_BYTES", 2000)
    assert "more than 1 KiB" in upload(filled, " {" + " " * 3000 + "x}").text
    monkeypatch.undo()
    assert filled.request("POST", IMPORT, content=b"x" * (13 * 1024 * 1024)).status_code == 413


def test_definitions_of_another_broker_are_mapped(filled):
    document = {"definitions_version": 1, "brokers": ["old", "gone"], "topics": {"Fresh": QUEUES}}
    refused = upload(filled, json.dumps(document))
    assert "the cluster has no broker" in refused.text and "OLD=NEW" in refused.text
    assert "bad is not OLD=NEW" in upload(filled, json.dumps(document), map="bad").text
    preview = upload(filled, json.dumps(document), map="old=broker-a gone=")
    assert "Fresh topic ✓ new broker-a" in preview.text
    assert "--map old=broker-a --map gone=" in preview.text
    assert "✓ done" in ended(filled, filled.confirm(preview)).text


def test_fewer_queues_hide_messages_only_if_that_is_asked_for(filled):
    for number in range(8):
        filled.running.send("Orders", b"%d" % number)
    text = changed(filled, Orders={"read_queues": 1, "write_queues": 1})
    preview = upload(filled, text)
    assert "1 topic would lose read queues with messages in them" in preview.text
    assert "no consumer would receive 6 messages that are there now" in preview.text
    done = ended(filled, filled.confirm(preview))
    assert "1 change failed" in done.text and "not reduced, because" in done.text
    assert any(each.result == "failed: 1 of 1 changes" for each in filled.audit.entries)
    preview = upload(filled, text, fewer_queues="true")
    assert "no consumer will receive what is in them" in preview.text and "--fewer-queues" in preview.text
    assert "✓ done" in ended(filled, filled.confirm(preview)).text


def test_a_broker_that_is_lost_during_the_import(filled, monkeypatch):
    preview = upload(filled, changed(filled, Orders=QUEUES, Fresh=QUEUES))

    async def lost(*_given, **_more):
        raise ConnectFailed("connection refused")

    started = None
    with monkeypatch.context() as patch:
        patch.setattr(filled.cluster.admin, "create_topic", lost)
        started = filled.confirm(preview)
        done = ended(filled, started)
    assert "2 changes failed" in done.text and "connection refused" in done.text
    assert "Import the same file again" in done.text
    data = filled.api(started.url.partition("8088")[2].partition("?")[0])["data"]
    assert [each["result"] for each in data["report"]["changes"]] == ["failed", "failed"]


def test_a_cluster_that_cannot_be_read(filled, monkeypatch):
    text = changed(filled, Orders=QUEUES)
    filled.cluster.forget()

    async def no_master(*_given):
        raise ClientError("broker broker-b of cluster C has no master now; start it first")

    monkeypatch.setattr(page_module, "read_cluster", no_master)
    page = filled.get(PATH)
    assert page.status == 200 and "has no master now" in page.text and "Nothing is known" in page.text
    assert filled.request("GET", f"{PATH}/export").status_code == 400
    monkeypatch.setattr("gantrymq_admin.definitions.importing.read_cluster", no_master)
    assert "has no master now" in upload(filled, text).text


def test_a_refusal_of_one_broker_is_told_with_its_change(filled, monkeypatch):
    preview = upload(filled, changed(filled, Orders=QUEUES))

    async def refused(address, config):
        raise BrokerRefused(16, f"no permission for {HOSTILE}", address)

    monkeypatch.setattr(filled.cluster.admin, "create_topic", refused)
    done = ended(filled, filled.confirm(preview))
    assert "no permission for" in done.text and "<script>alert" not in done.response.text


def test_many_changes_are_shown_in_part(filled):
    topics = {f"T{number:03}": {"read_queues": 1, "write_queues": 1} for number in range(230)}
    preview = upload(filled, changed(filled, **topics))
    assert "230 to add" in preview.text and "The first 200 of 230 are shown" in preview.text
    done = ended(filled, filled.confirm(preview))
    assert "230 of 230 changes have ended. ✓ done" in done.text


def test_an_unknown_cluster(filled):
    assert filled.get(f"{PATH}?cluster=nothing").status == 404
    assert filled.request("GET", f"{PATH}/export?cluster=nothing").status_code == 404
    assert filled.get(f"{PATH}?system=perhaps").status == 400


def test_who_may_export_and_import(gantrymq_broker):
    with Visitor(gantrymq_broker, Role.VIEWER) as visitor:
        page = visitor.get(PATH)
        assert page.status == 200 and "you need the role administrator" in page.text
        assert exported(visitor)["definitions_version"] == 1
        assert not [each for each in page.forms if each.action.endswith("/import")]
    with Visitor(gantrymq_broker, Role.OPERATOR) as visitor:
        assert visitor.request("POST", IMPORT, data={"text": "{}"}).status_code == 403
        assert visitor.get(f"{IMPORT}/abc").status == 403


def test_a_form_with_a_file_needs_the_token(filled):
    file = {"document": ("d.json", b"{}", "application/json")}
    assert filled.request("POST", IMPORT, data={"csrf": "x"}, files=file).status_code == 403


def test_a_large_document_is_read_in_a_thread(filled, monkeypatch):
    threads, real = [], actions._parsed
    parsed = lambda *given, **more: threads.append(threading.current_thread()) or real(*given, **more)  # noqa: E731
    monkeypatch.setattr(actions, "_parsed", parsed)
    text = changed(filled, **{f"T{number}": QUEUES for number in range(2000)})
    preview = filled.submit(filled.get(PATH), "/import", text=text)
    assert "2,000 to add" in preview.text and len(threads) == 1
    upload(filled, changed(filled, Orders=QUEUES))
    assert threads[0] is not threads[1]
    broken = {"csrf": "x", "text": "x" * actions._LARGE, "bad": "%zz"}
    assert filled.request("POST", IMPORT, content=f"{broken}").status_code == 400


def test_in_json(filled):
    headers = {"x-csrf-token": filled.api("/account")["data"]["csrf_token"]}
    text = changed(filled, Orders=QUEUES)

    def post(**fields):
        return filled.request("POST", f"/api/v1{IMPORT}", json={"document": text, **fields}, headers=headers)

    report = post(dry_run="true").json()["report"]
    assert report["dry_run"] and report["changes"][0]["at"][0]["fields"]["read_queues"] == {"before": 4, "after": 8}
    started = post().json()
    path = f"{IMPORT}/{started['data']['job']}"
    wait_until(lambda: not filled.api(path)["data"]["running"], "end of the import")
    assert filled.api(path)["data"]["report"]["changes"][0]["result"] == "done"
    nothing = post().json()
    assert nothing["done"] and "Nothing would change" in nothing["text"]
    assert post(dry_run="true").json()["report"]["changes"] == []
    assert post(kept="x").status_code == 400
    assert filled.get(f"{IMPORT}/nothing").status == 404


def test_a_running_import_can_be_stopped(filled, monkeypatch):
    """What was begun ends, the rest is not begun, and the same file makes it later."""
    text = changed(filled, **{f"T{number}": QUEUES for number in range(AT_ONCE + 4)})
    going, created, real = asyncio.Event(), [], filled.cluster.admin.create_topic

    async def create(address, config):
        created.append(config.name)
        await going.wait()
        await real(address, config)

    monkeypatch.setattr(filled.cluster.admin, "create_topic", create)
    page = filled.confirm(upload(filled, text))
    wait_until(lambda: len(created) == AT_ONCE, "the first requests")
    stopping = filled.submit(page, "/stop")
    assert "stops after the current changes" in stopping.text
    assert not [each for each in stopping.forms if each.action.endswith("/stop")]
    filled.running.call(going.set)
    page = ended(filled, page)
    assert len(created) == AT_ONCE
    assert "stopped, 4 changes were not begun" in page.text and page.text.count("not begun") == 5
    assert filled.audit.entries[-1].result == f"done: {AT_ONCE} changes, stopped before 4"
    assert "4 to add" in upload(filled, text).text


def test_pages_in_chinese(gantrymq_broker):
    gantrymq_broker.create_topic("Orders", 4)
    with Visitor(gantrymq_broker, language="zh") as visitor:
        preview = upload(visitor, changed(visitor, Orders=QUEUES))
        assert "项修改" in preview.text
        assert "完成" in ended(visitor, visitor.confirm(preview)).text


def test_few_documents_are_kept_each_for_its_user(manual_clock):
    kept = Documents(manual_clock)
    key = kept.keep("ann", b"one")
    assert kept.find("ann", key) == b"one" and kept.find("bob", key) is None
    for number in range(documents.MOST):
        kept.keep("bob", b"%d" % number)
    assert kept.find("ann", key) is None
    last = kept.keep("bob", b"last")
    manual_clock.advance(3601)
    assert kept.find("bob", last) is None


@pytest.fixture
def manual_clock():
    from manual_clock import ManualClock

    return ManualClock()


KIND = "multipart/form-data; boundary=xyz"
FIELD = b'--xyz\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
FILE = (
    b'--xyz\r\nContent-Disposition: form-data; name="f"; filename="x.json"\r\n'
    b"Content-Type: text/plain\r\n\r\n{\r\n}\r\n"
)


def test_a_form_with_a_file_is_read():
    assert read_multipart(KIND, FIELD + FILE + b"--xyz--\r\n") == {"a": "1", "f": "{\r\n}"}
    assert read_multipart('multipart/form-data; boundary="xyz"', FIELD + b"--xyz--") == {"a": "1"}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", FIELD + b"--xyz--"),
        ("multipart/form-data; boundary=" + "x" * 71, b""),
        (KIND, b""),
        (KIND, FIELD),  # cut off
        (KIND, b"preamble" + FIELD + b"--xyz--"),
        (KIND, b'--xyzContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--xyz--'),
        (KIND, b'--xyz\r\nContent-Disposition: form-data; name="a"\r\n--xyz--'),
        (KIND, b"--xyz\r\nContent-Disposition: form-data\r\n\r\n1\r\n--xyz--"),
        (KIND, b'--xyz\r\nContent-Disposition: form-data; name="a"\r\n\r\n\xff\r\n--xyz--'),
        (KIND, FIELD * 300 + b"--xyz--"),
        (KIND, b'--xyz\r\nContent-Disposition: form-data; name="' + b"a" * 5000 + b'"\r\n\r\n1\r\n--xyz--'),
    ],
)
def test_a_malformed_form_is_refused(kind, body):
    with pytest.raises(ValueError):
        read_multipart(kind, body)


def test_any_bytes_are_a_form_or_an_error():
    """Cut and changed at each place, a form is read or refused, and nothing else is raised."""
    whole = FIELD + FILE + b"--xyz--\r\n"
    for place in range(len(whole)):
        for body in (whole[:place], whole[:place] + b"\x00" + whole[place + 1 :], whole[:place] + whole[place + 3 :]):
            try:
                found = read_multipart(KIND, body)
            except ValueError:
                continue
            assert all(isinstance(each, str) for pair in found.items() for each in pair)
