"""Write docs/operations/findings.md from the texts of the console.

    python .ci/findings_page.py

The console shows the same texts on its page of findings, in its languages, so they are written once.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ROOT / "plugins/console/src/gantrymq_console/texts/en/findings.toml"
PAGE = ROOT / "docs/operations/findings.md"
PARTS = ("home", "group", "refusal")


def page() -> str:
    """Return the page."""
    texts = tomllib.loads(TEXTS.read_text("utf-8"))
    lines = [f"# {texts['title']}", "", f"{texts['intro']} The console links each finding to its entry."]
    for part in PARTS:
        lines += [
            "",
            f"## {texts[f'about_{part}']}",
            "",
            texts[f"see_{part}"],
            "",
            "| finding | meaning | what to do |",
        ]
        lines += ["|---|---|---|"]
        for word, entry in texts[part].items():
            anchor = f"{part}-{word}".replace("_", "-")
            title, what, do = (entry[name].replace("|", "\\|") for name in ("title", "what", "do"))
            lines.append(f'| <a id="{anchor}"></a>{title} `{word}` | {what} | {do} |')
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
