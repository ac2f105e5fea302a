"""The entries of findings: one for each word, here and in the documentation, and links that lead to them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import attrs
import click
import pytest
from click.testing import CliRunner
from console_members import commit

from gantrymq.cli import main
from gantrymq_admin.explanations import NOT_FOLLOWING
from gantrymq_console.data import group_overview
from gantrymq_console.pages import findings
from gantrymq_console.web.render import finding_anchor
from gantrymq_console.web.texts import LANGUAGES, texts_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/operations/findings.md"


def texts(package, language="en"):
    return tomllib.loads(files(package).joinpath("texts", f"{language}.toml").read_text("utf-8"))


def words_used():
    """Return the words of each part that the console can show."""
    home = {key.removeprefix("home.problem_") for key in texts_of("en").table if key.startswith("home.problem_")}
    reasons = {key.partition(".")[0] for key in texts("gantrymq_diagnosis")} | {NOT_FOLLOWING}
    refusals = {
        key.removeprefix("meanings.refusal.") for key in texts_of("zh").table if key.startswith("meanings.refusal.")
    }
    return {"home": home, "group": reasons, "refusal": refusals}


def test_each_word_has_an_entry_and_no_entry_is_of_an_unknown_word():
    for part, used in words_used().items():
        assert used and set(findings.words(part)) == used, part


def test_a_finding_leads_to_the_tab_with_what_its_command_prints():
    tabs = {"gantrymq group clients": "members", "gantrymq group progress": "queues", "gantrymq group dlq list": "dlq"}
    named = {}
    for word, text in texts("gantrymq_diagnosis").items():
        sentences = text if isinstance(text, str) else " ".join(text.values())
        named |= {word.partition(".")[0]: tab for command, tab in tabs.items() if command in sentences}
    assert named == group_overview._TABS


@pytest.mark.skipif(find_spec("gantrymq_storage_mmap") is None, reason="needs gantrymq-storage-mmap")
def test_the_causes_of_a_store_have_entries():
    sources = ROOT / "plugins/storage_mmap/src"
    if not sources.exists():
        pytest.skip("needs the sources of gantrymq-storage-mmap")
    found = set()
    for path in sources.rglob("*.py"):
        found |= set(re.findall(r"Refusal\(\s*\"([a-z_]+)\"", path.read_text("utf-8")))
    assert found and found <= set(findings.words("refusal"))


@pytest.mark.skipif(not PAGE.exists(), reason="needs the documentation")
def test_the_documentation_has_the_same_entries_with_anchors():
    made = subprocess.run(
        [sys.executable, "-c", "import findings_page; print(findings_page.page(), end='')"],
        cwd=ROOT / ".ci",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert PAGE.read_text("utf-8") == made, "run: python .ci/findings_page.py"
    anchors = re.findall(r'<a id="([^"]+)">', made)
    wanted = [finding_anchor(part, word) for part in findings.PARTS for word in findings.words(part)]
    assert anchors == wanted and len(set(anchors)) == len(anchors)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_has_each_anchor_in_each_language(visitor, language):
    visitor.cookies.set("lang", language)
    page = visitor.get("/findings")
    wanted = {finding_anchor(part, word) for part in findings.PARTS for word in findings.words(part)}
    assert wanted <= page.ids
    for part in findings.PARTS:
        titles = [texts_of(language)(f"findings.{part}.{word}.title") for word in findings.words(part)]
        assert len(set(titles)) == len(titles)
        assert all(
            f"{title.unescape()} {word}" in page.text for title, word in zip(titles, findings.words(part), strict=True)
        )
    assert {each["anchor"] for each in visitor.api("/findings")["data"]["entries"]} == wanted


def behind(visitor):
    visitor.running.send("Orders", b"1")
    commit(visitor, "billing", "Orders", 0)


def test_findings_link_to_their_entries(visitor):
    behind(visitor)
    for page in (visitor.get("/groups/billing"), visitor.get("/")):
        links = {to for text, to in page.links if text == "What this means"}
        assert links, page.text
        for to in links:
            address, _, anchor = to.partition("#")
            assert anchor in visitor.get(address).ids
    assert "#group-nobody-online" in visitor.get("/groups/billing").link("What this means")


def test_with_an_address_of_the_documentation_findings_link_there(visitor):
    behind(visitor)
    visitor.use(attrs.evolve(visitor.console, docs="https://docs.example.com/gantrymq/"))
    link = visitor.get("/groups/billing").link("What this means")
    assert link == "https://docs.example.com/gantrymq/operations/findings.html#group-nobody-online"


def test_a_word_of_another_version_has_no_link(visitor, monkeypatch):
    behind(visitor)
    monkeypatch.delitem(texts_of("en").table, "findings.group.nobody-online.what")
    page = visitor.get("/groups/billing")
    assert "No member of group billing" in page.text and "What this means" not in page.text


@pytest.mark.parametrize(
    "url", ["ftp://x/", "docs.example.com", "https://", "https://x/?q=1", "https://x/ y", "http://["]
)
def test_an_address_that_is_none_is_refused_when_the_console_starts(url, tmp_path):
    words = ["console", "-n", "127.0.0.1:1", "--state", str(tmp_path), "--docs", url]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and "expected an address such as" in done.output


PLACEHOLDERS = {
    "GROUP": "billing",
    "TOPIC": "Orders",
    "MASTER": "127.0.0.1:10911",
    "ADDRESS": "127.0.0.1:10911",
    "NAME": "broker-a",
    "QUEUE": "0",
    "OFFSET": "7",
    "NUMBER": "4",
}


def commands_in(text):
    """Return the commands that a text names, each as its command of click and its arguments."""
    found = []
    for line in re.findall(r"(?<!\")\bgantrymq( [ -~]+)", text):
        command, arguments, path = main, [], []
        for word in line.split():
            word = word.rstrip(".,;:")
            if isinstance(command, click.Group) and not arguments:
                next_one = command.get_command(click.Context(command), word)
                if next_one is not None:
                    command, path = next_one, [*path, word]
                    continue
            if not re.fullmatch(r"--?[a-z-]+|[A-Z]+|\d+|\w+=\w+|broker\.conf", word):
                break
            arguments.append(word)
        found.append((" ".join(path), command, arguments))
    return found


def names_commands():
    for language in LANGUAGES:
        table = texts_of(language).table
        for part in findings.PARTS:
            for word in findings.words(part):
                for name in ("what", "do"):
                    for found in commands_in(table[f"findings.{part}.{word}.{name}"]):
                        yield pytest.param(*found, id=f"{language}-{part}-{word}-{found[0]}")
            yield from (
                pytest.param(*found, id=f"{language}-{part}-{found[0]}")
                for found in commands_in(table[f"findings.see_{part}"])
            )


@pytest.mark.parametrize(("path", "command", "arguments"), list(names_commands()))
def test_each_command_of_an_entry_exists_and_needs_nothing_else(path, command, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("broker.conf").touch()
    assert path and not (isinstance(command, click.Group) and not command.invoke_without_command), path
    command.make_context(path, [PLACEHOLDERS.get(word, word) for word in arguments])


def test_entries_name_the_same_commands_and_settings_in_each_language():
    def named(language, key):
        text = texts_of(language).table[key]
        settings = set(re.findall(r"(?<![A-Za-z])[a-z]+[A-Z][A-Za-z]+(?:=[A-Za-z0-9]+)?", text))
        return [(path, arguments) for path, _, arguments in commands_in(text)], settings

    for part in findings.PARTS:
        for word in findings.words(part):
            for name in ("what", "do"):
                key = f"findings.{part}.{word}.{name}"
                assert named("zh", key) == named("en", key), key


def test_a_change_of_one_broker_names_the_broker():
    for language in LANGUAGES:
        for part in findings.PARTS:
            for word in findings.words(part):
                for path, _, arguments in commands_in(texts_of(language).table[f"findings.{part}.{word}.do"]):
                    if path == "broker config set" and word != "deleted-unread":  # all brokers keep messages longer
                        assert arguments[-2:] == ["-b", "ADDRESS"], (language, word)


@pytest.mark.skipif(find_spec("gantrymq_storage_mmap") is None, reason="needs gantrymq-storage-mmap")
def test_entries_have_the_defaults_of_settings():
    from gantrymq_storage_mmap.retention.settings import RETENTION

    defaults = {each.key: each.default for each in RETENTION}
    for language in LANGUAGES:
        text = " ".join(value for key, value in texts_of(language).table.items() if key.startswith("findings."))
        told = re.findall(r"(disk\w+)[ （(]+(\d+) ?%", text)
        assert told and {(key, int(value)) for key, value in told} == {(key, int(defaults[key])) for key, _ in told}
