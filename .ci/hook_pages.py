"""Update the signatures on the pages of docs/plugins/hooks and docs/plugins/broker, and on that of the raw log.

    python .ci/hook_pages.py

The blocks under "Signature" and "Interface" of a page are regenerated for the names in them, from `gantrymq.hooks`,
`gantrymq.interfaces` and some other modules. Needs ruff on the path, for the layout.
"""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "core" / "src" / "gantrymq"
DECLARING = [
    SOURCE / "hooks.py",
    SOURCE / "config.py",
    SOURCE / "model" / "access.py",
    SOURCE / "model" / "queue.py",
    SOURCE / "model" / "role.py",
    SOURCE / "formats" / "dispatch_entry.py",
    SOURCE / "formats" / "ext_unit.py",
    SOURCE / "remoting" / "serving.py",
    *SOURCE.glob("interfaces/*.py"),
]
SHOWN_DUNDERS = ("__init__", "__call__")
BLOCK = re.compile(r"(?<=^```python\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)


def main() -> None:
    known = declarations()
    folder = ROOT / "docs/plugins"
    broker = sorted(set(folder.glob("broker/*.md")) - {folder / "broker" / "README.md"})
    for page in (*sorted(folder.glob("hooks/gantry_*.md")), *broker, folder / "raw_log.md"):
        text = page.read_text()
        head, example = text.split("## Example\n")
        head = BLOCK.sub(lambda block: rewritten(block[1], known), head)
        page.write_text(f"{head}## Example\n{example}")


def declarations() -> dict[str, str]:
    """Return name to declaration, of every function, class and alias that a page may contain."""
    found: dict[str, str] = {}
    for path in DECLARING:
        source = path.read_text()
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef):
                found[node.name] = stub(node)
            elif isinstance(node, ast.ClassDef):
                found[node.name] = class_stub(node, source.splitlines())
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = ast.unparse(node)
    return found


def class_stub(node: ast.ClassDef, lines: list[str]) -> str:
    """A class without bodies, docstrings and private members; fields keep their comments."""
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    shown = [f"class {node.name}({bases}):" if bases else f"class {node.name}:"]
    for member in node.body:
        if isinstance(member, ast.AnnAssign):
            shown += [f"    {line.strip()}" for line in lines[member.lineno - 1 : member.end_lineno]]
        elif isinstance(member, ast.Assign) and ast.unparse(member.targets[0]) != "__slots__":
            shown.append(f"    {ast.unparse(member)}")
        elif isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and is_shown(member.name):
            shown += [f"    {line}" for line in stub(member).splitlines()]
    if len(shown) == 1:
        shown.append("    ...")
    return "\n".join(shown)


def is_shown(name: str) -> bool:
    """Return whether a method is part of the interface."""
    return name in SHOWN_DUNDERS or not name.startswith("_")


def stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """A function without its body."""
    marks = [f"@{ast.unparse(mark)}\n" for mark in node.decorator_list if ast.unparse(mark) != "hookspec"]
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{''.join(marks)}{word} {node.name}({ast.unparse(node.args)}){returns}: ..."


def rewritten(block: str, known: dict[str, str]) -> str:
    """The same names as in *block*, as the code declares them now."""
    names = re.findall(r"^(?:def |class )?(\w+)(?=[ (:])", block, re.MULTILINE)
    text = "\n\n\n".join(known[name] for name in names)
    command = ["ruff", "format", "--line-length", "120", "--stdin-filename", "page.py", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
