"""Generation of a project's files from templates. The only I/O is reading the templates.

A template is a ``.in`` file below ``templates/both`` or ``templates/<kind>``; in its path and text ``@word@``,
``@WORD@`` and ``@Class@`` stand for the plugin's name as a package, a filter type and a class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from keyword import iskeyword
from typing import Final

from gantrymq.errors import InvalidParameter

KINDS: Final = ("filter", "allocation", "dispatcher", "authorizer", "store")
_MOST_LETTERS: Final = 40
_WORD: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def word_of(name: str) -> str:
    """Return the name of package, distribution and entry point for *name*; hyphens become underscores.

    Raises:
        InvalidParameter: *name* is not a valid name.
    """
    word = name.strip().lower().replace("-", "_")
    if len(word) > _MOST_LETTERS or not _WORD.fullmatch(word) or iskeyword(word):
        raise InvalidParameter(
            f"{name!r} cannot name a plugin: take one word of up to {_MOST_LETTERS} letters, digits and single "
            "underscores that begins with a letter, such as json_body"
        )
    return word


def project(kind: str, name: str) -> dict[str, str]:
    """Return the text of each file of a new project, by path with slashes.

    Args:
        kind: one of `KINDS`.
        name: see `word_of`.

    Raises:
        InvalidParameter: see `word_of`.
    """
    word = word_of(name)
    words = {"@word@": word, "@WORD@": word.upper(), "@Class@": "".join(map(str.capitalize, word.split("_")))}
    words["@dist@"] = word.replace("_", "-")
    templates = files("gantrymq_kit.projects") / "templates"
    found = {}
    for part in ("both", kind):
        for path, text in _walked(templates / part):
            found[_filled(path, words)] = _filled(text, words)
    return found


def _walked(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            yield from _walked(each, f"{prefix}{each.name}/")
        elif each.name.endswith(".in"):
            yield prefix + each.name.removesuffix(".in"), each.read_text(encoding="utf-8")


def _filled(text: str, words: dict[str, str]) -> str:
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text
