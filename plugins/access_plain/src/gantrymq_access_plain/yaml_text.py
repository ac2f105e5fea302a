"""YAML without types: texts, lists and members with their lines. Anchors, aliases, tags and repeated keys are refused.

Values stay as they are written, so that a secret of digits, such as 0123, is the same text for us and for clients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs
import yaml

from gantrymq.errors import FormatError

MOST_BYTES: Final = 16 * 1024 * 1024
MOST_LEVELS: Final = 6  # plain_acl.yml has four
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TEXT_TAG: Final = "tag:yaml.org,2002:str"
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C is 10 times as fast
_DUMPER: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class YamlFault(FormatError):
    """Raised for a text that is not YAML, or uses more of it than such files need; never quotes values."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line, self.what = line, what


@attrs.frozen
class Node:
    """A text, None, a list or the members of a mapping, with the line where it begins."""

    value: str | list[Node] | dict[str, Node] | None = attrs.field(repr=False)  # may have secrets
    line: int  # from 1


@attrs.define
class _Open:
    """A list or mapping whose end has not been read."""

    node: Node
    key: str | None = None  # of a mapping: the key whose value comes next

    def items(self) -> list[Node]:
        """Return the items of a list."""
        assert isinstance(self.node.value, list)
        return self.node.value


def read_yaml(data: bytes, key: str = "", take: Callable[[Node], object] | None = None) -> Node:
    """Parse one YAML document; an empty one is a node without value.

    Args:
        data: the text, in UTF-8.
        key: a key of the document's mapping.
        take: called with each list or mapping in the list under *key*, which is then left out of the result, so that
            long lists take no memory.

    Raises:
        YamlFault: with the line; also raised by *take*.
    """
    if len(data) > MOST_BYTES:
        raise YamlFault(1, f"the file has {len(data)} bytes, at most {MOST_BYTES} are read")
    try:
        return _read_events(data, key, take)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise YamlFault(line, f"it is not YAML: {error.problem or error.context or 'syntax error'}") from None
    except yaml.reader.ReaderError as error:
        where = data[: error.position].count(b"\n") + 1
        raise YamlFault(where, "it is not text in UTF-8, or has a control character") from None


def _read_events(data: bytes, key: str, take: Callable[[Node], object] | None) -> Node:
    root: Node | None = None
    open_nodes: list[_Open] = []
    event: Any  # of the loader in C or in Python, which have marks of different types
    for event in yaml.parse(data, Loader=_LOADER):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            if root is not None:
                raise YamlFault(line, "a second document begins; only one is read")
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            node = open_nodes.pop().node
            if take is not None and len(open_nodes) == 2 and _is_under(key, open_nodes):
                open_nodes[1].items().pop()
                take(node)
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        node = _node(event, line)
        root = root or node
        if open_nodes and _put(open_nodes[-1], node):
            continue
        if not isinstance(node.value, (list, dict)):
            continue
        if len(open_nodes) == MOST_LEVELS:
            raise YamlFault(line, f"lists and mappings are nested in more than {MOST_LEVELS} levels")
        open_nodes.append(_Open(node))
    return root or Node(None, 1)


def _is_under(key: str, open_nodes: list[_Open]) -> bool:
    """Return whether the second open node is the list under *key* of the first."""
    root, held = open_nodes[0].node.value, open_nodes[1].node
    return isinstance(held.value, list) and isinstance(root, dict) and root.get(key) is held


def _node(event: Any, line: int) -> Node:
    if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
        raise YamlFault(line, "anchors and aliases (& and *) are not read; write the value out, or put it in quotes")
    if event.tag not in (None, _TEXT_TAG) and not (isinstance(event, yaml.ScalarEvent) and event.implicit[1]):
        raise YamlFault(line, "tags (!) are not read; put the value in quotes if it begins with one")
    if isinstance(event, yaml.SequenceStartEvent):
        return Node([], line)
    if isinstance(event, yaml.MappingStartEvent):
        return Node({}, line)
    is_plain = not event.style and event.tag is None
    return Node(None if is_plain and event.value in _NULLS else event.value, line)


def _put(parent: _Open, node: Node) -> bool:
    """Put a node into its list or mapping; True if it is a key."""
    held = parent.node.value
    if isinstance(held, list):
        held.append(node)
        return False
    assert isinstance(held, dict)
    if parent.key is not None:
        held[parent.key], parent.key = node, None
        return False
    if not isinstance(node.value, str):
        raise YamlFault(node.line, "a key is not a text")
    if node.value in held:
        raise YamlFault(node.line, f"the key {node.value[:40]} is here twice; keep one of the two")
    parent.key = node.value
    return True


def yaml_text(value: Any) -> bytes:
    """Return the YAML of texts, numbers, flags, None, lists and dicts, with members in their order."""
    text = yaml.dump(value, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return str(text).encode()
