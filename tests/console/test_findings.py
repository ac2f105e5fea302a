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
import pytest
from click.testing import CliRunner
from console_members import commit

from gantrymq.cli import main
from gantrymq_admin.explanations import NOT_FOLLOWING
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
