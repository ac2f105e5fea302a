"""Update the pages of docs/plugins from the code.

    python .ci/hook_pages.py

The pages of docs/plugins/api list the names of the public modules for plugins (`gantrymq.plugin` and below) and of
`gantrymq.errors`; the site adds signatures and docstrings. On the pages of docs/plugins/hooks and docs/plugins/broker,
and on that of the raw log, the blocks under "Signature" and "Interface" are regenerated for the names in them, from
`gantrymq.hooks`, `gantrymq.interfaces` and some other modules. Needs ruff on the path, for the layout.
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
    SOURCE / "model" / "pushes.py",
    SOURCE / "model" / "queue.py",
    SOURCE / "model" / "role.py",
    SOURCE / "formats" / "dispatch_entry.py",
    SOURCE / "remoting" / "serving.py",
    *SOURCE.glob("interfaces/*.py"),
]
PUBLIC = [*(path for path in sorted(SOURCE.glob("plugin/*.py")) if path.stem != "lazy"), SOURCE / "errors.py"]
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
    for name, text in api_pages().items():
        (folder / "api" / name).write_text(text)


def api_pages() -> dict[str, str]:
    """Return file name to text, of a page for each public module for plugins."""
    pages = {}
    for path in PUBLIC:
        module = module_name(path)
        about, _, _ = (ast.get_docstring(ast.parse(path.read_text())) or "").replace("``", "`").partition("\n\n")
        listed = "\n".join(f"::: {module}.{name}" for name in exported(path))
        pages[f"{module.split('.')[-1]}.md"] = f"# {module}\n\n{about}\n\n{listed}\n"
    return pages


def module_name(path: Path) -> str:
    """Return the name of core's module in *path*."""
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def exported(path: Path) -> list[str]:
    """Return the names that a public module exports: ``__all__``, or its imports and declarations."""
    names: list[str] = []
    body = ast.parse(path.read_text()).body
    for node in (*body, *(each for block in body if isinstance(block, ast.If) for each in block.body)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names += all_of(str(node.module)) if alias.name == "*" else [alias.name] * (alias.asname == alias.name)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            (target,) = node.targets if isinstance(node, ast.Assign) else [node.target]
            if ast.unparse(target) == "__all__":
                return list(ast.literal_eval(ast.unparse(node.value)))
            names.append(ast.unparse(target))
    return [name for name in names if name.isidentifier() and not name.startswith("_")]


def all_of(module: str) -> list[str]:
    """Return the names that ``from module import *`` binds."""
    path = SOURCE.parent.joinpath(*module.split("."))
    return exported(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))


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
