"""Links of the documentation that leave docs/; MkDocs loads this file as a hook.

The site has only the pages of docs/. A link to another file of the tree, such as an example, becomes its text and the
file's path. A link to a file that does not exist fails the build.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]+)(?:#[^)\s]*)?\)")
logger = logging.getLogger("mkdocs.hooks")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return *markdown* with links that leave docs/ replaced."""
    folder = (DOCS / page.file.src_uri).parent

    def as_text(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / link[2]))
        if target.is_relative_to(DOCS):
            return link[0]
        if not target.exists():
            logger.warning(f"{page.file.src_uri} links to {link[2]}, which does not exist")
        return f"{link[1]} (`{target.relative_to(ROOT).as_posix()}`)"

    return LINK.sub(as_text, markdown)
