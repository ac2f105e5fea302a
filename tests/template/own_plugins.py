"""The plugins of docs/plugins/README.md: the files of the page, added to a project of `gantrymq plugin new`."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/plugins/README.md"
BEGUN = re.compile(r"^`gantrymq plugin new (\w+) (\w+)`", re.MULTILINE)
FILE = re.compile(r"`([\w./]+\.(?:py|toml))`[^`\n]*:\n\n```\w+\n(.*?)\n```", re.DOTALL)


def shown():
    """Name to kind and files of each plugin; of pyproject.toml the page has lines that replace others."""
    text = PAGE.read_text()
    starts = [*BEGUN.finditer(text)]
    ends = [each.start() for each in starts[1:]] + [len(text)]
    return {
        start[2]: (start[1], dict(FILE.findall(text[start.start() : end])))
        for start, end in zip(starts, ends, strict=True)
    }


def complete(folder, files):
    """Put *files* into the project in *folder*."""
    for path, text in files.items():
        assert (folder / path).is_file(), path
        if path == "pyproject.toml":
            key = text.partition(" =")[0]
            lines = (folder / path).read_text().splitlines()
            text = "\n".join(text if line.startswith(f"{key} =") else line for line in lines)
            assert text.count(f"\n{key} =") == 1
        (folder / path).write_text(f"{text}\n")
