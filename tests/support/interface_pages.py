"""Pages that show interfaces: what the code declares, and what a page shows."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "core" / "src" / "gantrymq"
DECLARING = [
    SOURCE / "hooks.py",
    SOURCE / "config.py",
    SOURCE / "model" / "access.py",
    SOURCE / "model" / "pushes.py",
    SOURCE / "model" / "queue.py",
    SOURCE / "model" / "role.py",
    SOURCE / "formats" / "dispatch_entry.py",
    SOURCE / "remoting" / "serving.py",
    *sorted(SOURCE.glob("interfaces/*.py")),
]


def in_the_code():
    """Name to signature of all that pages may show."""
    found = {}
    for path in DECLARING:
        found.update(declared(path.read_text()))
    return found


def declared(text):
    """Name to signature of each function, class and alias at the top of *text*; a class's is that of its members."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            members = [signature(member) for member in node.body]
            found[node.name] = [ast.unparse(base) for base in node.bases], [each for each in members if each]
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = signature(node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = ast.unparse(node)
    return found


def signature(member):
    """One member as text without its body; empty for private names and other statements."""
    if isinstance(member, ast.Assign):
        return "" if ast.unparse(member.targets[0]) == "__slots__" else ast.unparse(member)
    if isinstance(member, ast.AnnAssign):
        return ast.unparse(member)
    if not isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    if member.name.startswith("_") and member.name not in ("__init__", "__call__"):
        return ""
    marks = [ast.unparse(mark) for mark in member.decorator_list if ast.unparse(mark) != "hookspec"]
    word = "async def" if isinstance(member, ast.AsyncFunctionDef) else "def"
    returns = "" if member.returns is None else ast.unparse(member.returns)
    return f"{marks} {word} {member.name}({ast.unparse(member.args)}) -> {returns}"


def code_in(text):
    return "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
