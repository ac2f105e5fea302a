"""The client's API reference matches the docstrings."""

import importlib.util
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import gantrymq.client
import gantrymq.client.sync

ROOT = Path(__file__).resolve().parents[3]
OPENTELEMETRY = pytest.mark.skipif(find_spec("opentelemetry") is None, reason="opentelemetry-api is not installed")


def script():
    spec = importlib.util.spec_from_file_location("client_pages", ROOT / ".ci" / "client_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


client_pages = script()


@pytest.fixture(scope="module")
def placed():
    return {name: page for page in client_pages.PAGES for name in client_pages.names_on(page)}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[OPENTELEMETRY] if page in ("client-api", "client-api-tracing") else [])
        for page in client_pages.PAGES
    ],
)
def test_a_page_is_what_the_docstrings_say(page, placed):
    written = (ROOT / "docs" / f"{page}.md").read_text()
    assert written == client_pages.page_text(page, placed), "bring it up to date with: python .ci/client_pages.py"


def test_every_name_has_its_place(placed):
    assert set(gantrymq.client.__all__) <= placed.keys()
    own = set(gantrymq.client.sync.__all__) - {"Message", "ReceivedMessage"}
    assert {f"gantrymq.client.sync.{name}" for name in own} <= placed.keys()


def test_docstrings_in_markdown():
    text = """Send ``one``; see `send`.

    Args:
        message: is not
            changed.
        a, b: ``x``.

    Raises:
        as `send`: everything.
    """
    assert client_pages.prose(text) == [
        "Send `one`; see `send`.",
        "**Args**",
        "- `message`: is not changed.\n- `a`, `b`: `x`.",
        "**Raises**",
        "- as `send`: everything.",
    ]


def test_links_lead_to_headings():
    """Covers all pages of the client, including those written by hand."""
    pages = {path.name: path.read_text() for path in (ROOT / "docs").glob("*.md")}
    anchors = {name: headings(text) for name, text in pages.items()}
    lost = []
    for name, text in pages.items():
        if not name.startswith("client"):
            continue
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            file, _, anchor = target.partition("#")
            there = "/" in file or (file or name) in pages
            if not there or (anchor and anchor not in anchors[file or name]):
                lost.append((name, target))
    assert lost == []


def headings(text):
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        anchor = client_pages.anchor(heading.replace("`", ""))
        found.add(f"{anchor}-1" if anchor in found else anchor)
    return found


def test_the_tutorial_leads_to_every_page():
    pages = {path.name for path in (ROOT / "docs").glob("client-*.md")}
    linked = set(re.findall(r"\]\((client-[\w-]+\.md)", (ROOT / "docs" / "client.md").read_text()))
    assert linked == {page for page in pages if not page.startswith("client-api-")}
