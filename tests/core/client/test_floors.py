"""The table of the client's layers in docs/architecture.md matches the imports."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CLIENT = ROOT / "core" / "src" / "gantrymq" / "client"


def floors():
    """Return the row number of each part, from the top."""
    chapter = re.search(r"^## \d+\. The client\n(.*?)^## ", (ROOT / "docs/architecture.md").read_text(), re.M | re.S)[1]
    rows = [re.findall(r"`(\w+)`", line.split(" | ")[0]) for line in chapter.splitlines() if line.startswith("| `")]
    return {part: number for number, row in enumerate(rows) for part in row}


def test_every_part_has_its_row():
    parts = {path.stem for path in CLIENT.glob("*.py")} | {path.parent.name for path in CLIENT.glob("*/__init__.py")}
    assert parts - {"__init__"} == floors().keys()


def test_imports_point_down_the_table():
    """Check imports at module level; local imports and imports for type checkers may point up."""
    floor = floors()
    up = [(path.relative_to(CLIENT).as_posix(), part) for path, part in imports() if floor[part] < floor[top(path)]]
    assert up == []


def top(path):
    return path.relative_to(CLIENT).parts[0].removesuffix(".py")


def imports():
    for path in sorted(CLIENT.rglob("*.py")):
        for node in ast.parse(path.read_text()).body if top(path) != "__init__" else ():
            if isinstance(node, ast.ImportFrom) and node.module.startswith("gantrymq.client."):
                yield path, node.module.split(".")[2]
