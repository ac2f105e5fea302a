"""The pages of the client's API reference have every exported name, and the client's guide leads to every page."""

import re
from pathlib import Path

import gantrymq.client
import gantrymq.client.admin
import gantrymq.client.sync

DOCS = Path(__file__).resolve().parents[3] / "docs/client"


def test_every_exported_name_is_on_a_page():
    on_pages = [name for page in DOCS.glob("api/*.md") for name in re.findall(r"^::: (\S+)$", page.read_text(), re.M)]
    client = {f"gantrymq.client.{name}" for name in gantrymq.client.__all__}
    sync = {f"gantrymq.client.sync.{name}" for name in gantrymq.client.sync.__all__}
    admin = {f"gantrymq.client.admin.{name}" for name in gantrymq.client.admin.__all__}
    elsewhere = {f"gantrymq.client.sync.{name}" for name in ("Message", "ReceivedMessage")}
    elsewhere |= {name for name in admin if name.replace(".admin.", ".") in client}
    assert (client | sync | admin) - elsewhere <= set(on_pages)
    assert len(on_pages) == len(set(on_pages))


def test_the_guide_leads_to_every_page():
    linked = set(re.findall(r"\]\(([\w-]+\.md)", (DOCS / "README.md").read_text()))
    assert linked == {page.name for page in DOCS.glob("*.md")} - {"README.md"}
