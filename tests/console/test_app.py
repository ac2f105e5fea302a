"""What every page shares: headers, checks of requests, languages, JSON twins, errors."""

from __future__ import annotations

import re
import string
import tomllib
from importlib.resources import files

import pytest
from console_visitor import Visitor

from gantrymq_console.access.users import Role
from gantrymq_console.web.render import visible
from gantrymq_console.web.texts import LANGUAGES, best_language, texts_of

SIGNS = ("0000", "007F", "0085", "D800", "200B")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a<b>&\"'\n\tü中文 \U0001f600", "a&lt;b&gt;&amp;&#34;&#39;\n\tü中文 \U0001f600"),
        ("a\u202eb", 'a<span class="sign">U+202E</span>b'),
        ("中\0\x7f\x85\ud800\u200b", "中" + "".join(f'<span class="sign">U+{each}</span>' for each in SIGNS)),
    ],
)
def test_control_and_bidirectional_characters_are_shown_as_signs(text, shown):
    assert visible(text) == shown


def test_a_key_that_a_catalogue_has_twice_is_reported_with_its_file(tmp_path, monkeypatch):
    (tmp_path / "texts/en").mkdir(parents=True)
    (tmp_path / "texts/en/groups.toml").write_text('deleted = "Deleted"\ndeleted = "Group {group} was deleted."\n')
    monkeypatch.setattr("gantrymq_console.web.texts.files", lambda package: tmp_path)
    with pytest.raises(tomllib.TOMLDecodeError) as raised:
        texts_of.__wrapped__("en")
    assert raised.value.__notes__ == ["in texts/en/groups.toml of gantrymq_console"]


def test_both_languages_have_every_text_with_the_same_fields():
    def fields(text):
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    english = texts_of("en").table
    for language in LANGUAGES:
        # What brokers say in English needs a text in the other languages only; see test_brokers.py.
        table = {key: text for key, text in texts_of(language).table.items() if not key.startswith("meanings.")}
        assert table.keys() == english.keys()
        for key, text in english.items():
            other = table[key]
            wanted = fields(text if isinstance(text, str) else text["other"])
            for form, each in {"other": other}.items() if isinstance(other, str) else other.items():
                assert fields(each) == wanted or (form in ("none", "one") and fields(each) < wanted), (language, key)
                assert each.strip(), (language, key)
    folders = files("gantrymq_console").joinpath("texts")
    names = [{each.name for each in folders.joinpath(language).iterdir()} - {"meanings.toml"} for language in LANGUAGES]
    assert names[0] == names[1]
    for language in LANGUAGES:
        for name in names[0]:
            tomllib.loads(folders.joinpath(language, name).read_text("utf-8"))


@pytest.mark.parametrize(
    ("accept", "language"),
    [
        ("", "en"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("de,en;q=0.5,zh;q=0.7", "zh"),
        ("zh;q=0,en", "en"),
        ("x;q=y", "en"),
    ],
)
def test_the_language_is_the_one_that_the_browser_prefers(accept, language):
    assert best_language(accept) == language


def test_a_page_and_its_json_twin_have_the_same_facts(visitor):
    visitor.running.create_topic("Orders", 4)
    page, twin = visitor.get("/topics?filter=ORDER"), visitor.api("/topics?filter=ORDER")
    assert [name for name, _ in page.links].count("Orders") == 1
    assert [each["name"] for each in twin["data"]["topics"]] == ["Orders"]
    assert twin["data"]["total"] == "1"
    assert twin["command"] in page.text


def test_every_response_has_the_headers_of_security(visitor):
    for path in ("/topics", "/api/v1/topics", "/nothing", "/static/x/console.css"):
        headers = visitor.request("GET", path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_another_host_or_site_is_refused(visitor):
    assert visitor.request("GET", "/topics", headers={"host": "attacker.example"}).status_code == 403
    page = visitor.get("/topics")
    given = page.form("/preferences").fields | {"lang": "zh"}
    for headers in ({"origin": "http://attacker.example"}, {"sec-fetch-site": "cross-site"}):
        assert visitor.request("POST", "/preferences", data=given, headers=headers).status_code == 403
    assert visitor.request("POST", "/preferences", data={**given, "csrf": "0" * 64}).status_code == 403
    assert 'lang="zh"' in visitor.submit(page, "/preferences", lang="zh").response.text


def test_a_program_needs_no_token_without_log_in(visitor):
    visitor.running.create_topic("Orders", 1)
    json, sent = {"content-type": "application/json"}, b'{"body": "hello"}'
    path = "/api/v1/topics/Orders/send"

    def status(path=path, headers=json, content=sent):
        visitor.cookies.clear()
        return visitor.request("POST", path, headers=headers, content=content).status_code

    for added in (
        {"origin": "http://127.0.0.1:8088"},
        {"origin": "null"},
        {"referer": "http://127.0.0.1:8088/"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-mode": "no-cors"},
        {"cookie": "gantrymq-8088=" + "0" * 64},
        {"host": "attacker.example"},  # also the same name with this address: DNS rebinding
        {"content-type": "text/plain"},
        {"content-type": "text/plain; application/json"},
        {"content-type": "application/x-www-form-urlencoded"},
    ):
        assert status(headers=json | added) == 403, added
    assert status(headers={}) == 403
    assert status(path="/topics/Orders/send", content=b"body=hello") == 403
    assert visitor.running.pull("Orders") == []
    assert status() == 200
    assert status(headers={"content-type": "Application/JSON; charset=utf-8"}) == 200
    assert [each.body for each in visitor.running.pull("Orders")] == [b"hello", b"hello"]
    preflight = visitor.request("OPTIONS", path, headers={"origin": "http://attacker.example"})
    assert preflight.status_code in (403, 405) and "access-control-allow-origin" not in preflight.headers


def test_unknown_addresses_and_methods(visitor):
    assert visitor.get("/nothing/here").status == 404
    assert visitor.request("DELETE", "/topics", headers={"origin": "http://127.0.0.1:8088"}).status_code == 405
    assert visitor.api("/nothing")["error"]


def test_a_refresh_returns_the_main_part_only_and_304_if_it_is_unchanged(visitor, unchanged):
    first = visitor.request("GET", "/topics?kind=all&part=live")
    assert "<html" not in first.text and "<table" in first.text
    again = visitor.request("GET", "/topics?kind=all&part=live", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304 and not again.content


def test_a_bad_parameter_is_one_sentence(visitor):
    page = visitor.get("/topics?rows=1000000")
    assert page.status == 400
    assert "rows: 1000000 is not a number from 1 to 200." in page.text


def test_links_lead_to_pages_below_any_path_of_a_proxy(visitor):
    visitor.running.create_topic("Orders", 4)
    for path in ("/topics", "/topics?filter=Orders"):
        for _, to in visitor.get(path).links:
            assert to.startswith("http://127.0.0.1:8088/")
        assert 'href="/' not in visitor.get(path).response.text


@pytest.mark.parametrize(
    ("role", "path", "needed"),
    [
        (Role.VIEWER, "/topics/Orders", "With the role reader you also see bodies and the live tail"),
        (Role.READER, "/topics/Orders", "To send messages or change the topic you need the role operator."),
        (Role.VIEWER, "/topics", "To create one you need the role operator."),
        (Role.VIEWER, "/groups", "To create one you need the role operator."),
        (Role.OPERATOR, "/brokers/broker-a", "To change something here you need the role administrator."),
        (Role.OPERATOR, "/brokers/broker-a/settings/brokerName", "you need the role administrator."),
        (Role.OPERATOR, "/nameservers", "To change something here you need the role administrator."),
    ],
)
def test_a_page_names_the_role_needed_for_what_is_absent(gantrymq_broker, role, path, needed):
    gantrymq_broker.create_topic("Orders", 1)
    with Visitor(gantrymq_broker, role) as visitor:
        assert needed in visitor.get(path).text
    with Visitor(gantrymq_broker) as admin:
        assert "you need the role" not in admin.get(path).text


def test_a_message_names_the_roles_needed_for_its_body_and_for_sending_it_again(gantrymq_broker):
    gantrymq_broker.create_topic("Orders", 1)
    sent = gantrymq_broker.send("Orders", b"secret")
    with Visitor(gantrymq_broker, Role.VIEWER) as visitor:
        page = visitor.get(f"/messages/{sent.message_id}?topic=Orders")
        assert "To read bodies you need the role reader." in page.text
        assert "To deliver or send the message again you need the role operator." in page.text


def test_sentences_are_whole_in_both_languages(gantrymq_broker):
    for language in LANGUAGES:
        texts = texts_of(language)
        plain = {key: each for key, each in texts.table.items() if isinstance(each, str)}
        assert not [key for key, each in plain.items() if re.search(r"\} (failed tries|name servers)", each)]
    assert texts_of("zh")("common.milliseconds", count=5) == "5 毫秒"
    with Visitor(gantrymq_broker, language="zh") as visitor:
        gantrymq_broker.create_topic("Orders", 1)
        sent = gantrymq_broker.send("Orders", b"1")
        page = visitor.get(f"/messages/{sent.message_id}?topic=Orders")
        assert not re.search(r"\d ?ms ?前", page.text)
