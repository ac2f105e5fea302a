"""Exports of `gantrymq.client`, and the cost of importing it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gantrymq.client

LOOK = """
import sys
{0}
loaded = sorted(name for name in sys.modules if name.startswith("gantrymq.") or name in ("pluggy", "rich", "click"))
print("\\n".join(loaded))
"""


def loaded_by(statement):
    done = subprocess.run([sys.executable, "-c", LOOK.format(statement)], capture_output=True, check=True, text=True)
    return set(done.stdout.split())


def test_type_checkers_see_what_python_sees():
    """Imports for type checkers equal the lazy imports, so that type checkers find typos."""
    tree = ast.parse(Path(gantrymq.client.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {name.asname: node.module for node in block.body for name in node.names}
    assert seen == gantrymq.client._HOMES
    assert [ast.unparse(node).split()[:2] for node in block.orelse] == [["__all__", "="], ["def", "__getattr__(name:"]]


def test_every_name_is_there():
    assert len(set(gantrymq.client.__all__)) == len(gantrymq.client.__all__)
    for name in gantrymq.client.__all__:
        assert getattr(gantrymq.client, name).__name__ == name
    assert set(gantrymq.client.__all__) <= set(dir(gantrymq.client))
    with pytest.raises(AttributeError, match="module 'gantrymq.client' has no attribute 'Consume'"):
        gantrymq.client.Consume  # noqa: B018


def test_a_program_loads_what_it_uses():
    assert loaded_by("import gantrymq.client") == {"gantrymq.client"}
    producing = loaded_by("from gantrymq.client import Producer")
    assert "gantrymq.client.producing.producer" in producing
    assert not producing & {"pluggy", "rich", "click", "gantrymq.plugins", "gantrymq.client.admin"}
    assert not {name for name in producing if name.startswith(("gantrymq.broker", "gantrymq.interfaces"))}
