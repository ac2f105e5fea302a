"""What each finding means and what to do, in the reader's language.

docs/operations/findings.md has the same texts. Findings link to their entry here, or in the documentation that the
option ``--docs`` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from gantrymq_console.access.users import Role
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import Page, Section, View
from gantrymq_console.web.render import finding_anchor
from gantrymq_console.web.texts import DEFAULT, texts_of

PARTS: Final = ("home", "group", "refusal")


@attrs.frozen
class FindingEntry:
    """One finding."""

    part: str  # one of `PARTS`
    word: str
    anchor: str
    title: str
    what: str
    do: str


@attrs.frozen
class FindingsPage:
    """All findings."""

    parts: Sequence[str]
    entries: Sequence[FindingEntry]


def words(part: str) -> list[str]:
    """Return the words of a part, in the order of the texts."""
    start, end = f"findings.{part}.", ".what"
    keys = [key for key in texts_of(DEFAULT).table if key.startswith(start) and key.endswith(end)]
    return [key.removeprefix(start).removesuffix(end) for key in keys]


async def show(context: RequestContext) -> View:
    """Show the meaning of each finding."""
    t = context.texts
    entries = [
        FindingEntry(
            part,
            word,
            finding_anchor(part, word),
            t(f"findings.{part}.{word}.title").unescape(),
            t(f"findings.{part}.{word}.what").unescape(),
            t(f"findings.{part}.{word}.do").unescape(),
        )
        for part in PARTS
        for word in words(part)
    ]
    return View("findings.html", FindingsPage(PARTS, entries))


SECTION = Section(pages=(Page("/findings", "findings.title", Role.VIEWER, show, refresh_s=None),))
