"""Names of metrics and labels in PromQL expressions, found well enough for our board and rules."""

import re
from typing import NamedTuple

WORDS = frozenset(("and", "or", "unless", "offset", "bool"))
TEXT = re.compile(r'"(?:[^"\\]|\\.)*"' + r"|'(?:[^'\\]|\\.)*'")
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*(?:\{([^}]*)\})?")
MATCHER = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)")


class Used(NamedTuple):
    """What an expression uses."""

    metrics: dict[str, set[str]]  # name to the labels that its selectors name
    grouped: set[str]  # labels in by(), on() and the like
    made: set[str]  # labels that label_replace makes


def used(expression):
    """Take an expression apart."""
    made = set(re.findall(r'label_replace\(.*?,\s*"(\w+)",', expression, re.DOTALL))
    text = TEXT.sub('""', expression)
    grouped = {label.strip() for labels in GROUPING.findall(text) for label in labels.split(",") if label.strip()}
    text = re.sub(r"\[[^\]]*\]|\b\d[\w.]*", "", GROUPING.sub("", text))
    metrics = {}
    for found in SELECTOR.finditer(text):
        name, matchers = found.groups()
        if name not in WORDS and not text[found.end() :].lstrip().startswith("("):
            metrics.setdefault(name, set()).update(MATCHER.findall(matchers or ""))
    return Used(metrics, grouped, made)
