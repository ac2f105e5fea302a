"""Write core/src/gantrymq/client/sync/admin.py: administration for threads, out of `gantrymq.client.admin`.

    python .ci/sync_admin.py

Every public call of the facade gets a method of the same name and signature that waits for it. A test compares the file
with what this would write (tests/core/client/test_sync_signatures.py).
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "core" / "src" / "gantrymq" / "client" / "admin"
PAGE = ROOT / "core" / "src" / "gantrymq" / "client" / "sync" / "admin.py"
ORDER = (
    "requests", "clusters", "topics", "groups", "connections", "progress", "offsets", "resets", "messages",
    "configuration", "brokers",
)  # fmt: skip

HEAD = '''"""Administration for threads: each method waits for the one of `gantrymq.client.Admin` with its name.

Written by .ci/sync_admin.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.client.admin import Admin as AsyncAdmin
{defaults}
from gantrymq.client.sync.base import SyncBaseClient

if TYPE_CHECKING:
{types}

__all__ = ["Admin"]


class Admin(SyncBaseClient[AsyncAdmin]):
    """All of `gantrymq.client.Admin`, whose docstrings say what arguments and errors there are."""
'''
METHOD = '''
    def {name}({parameters}) -> {result}:
        """{first}"""
        return self._portal.call(lambda: self._wrapped.{name}({arguments}))
'''
PROPERTY = '''
    @property
    def {name}(self) -> {result}:
        """{first}"""
        return self._portal.call_sync(lambda: self._wrapped.{name})
'''


def text() -> str:
    """What the file has to say, before ruff lays it out."""
    methods: list[str] = []
    homes: dict[str, str] = {}
    wanted: set[str] = set()
    defaults: set[str] = set()
    for word in ORDER:
        module = ast.parse((SOURCES / f"{word}.py").read_text(encoding="utf-8"))
        homes |= _homes(module, f"gantrymq.client.admin.{word}")
        (calls,) = [
            each
            for each in module.body
            if isinstance(each, ast.ClassDef) and (each.name.endswith("Calls") or each.name == "AdminRequests")
        ]
        for each in calls.body:
            if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) or each.name.startswith("_"):
                continue
            methods.append(_method(each))
            wanted |= _names(each.args) | _names(each.returns)
            values = [*each.args.defaults, *each.args.kw_defaults]
            defaults |= {name for value in values for name in _names(value)}
    known = {name: homes[name] for name in wanted | defaults if name in homes}
    return HEAD.format(
        defaults="\n".join(_imports({name: home for name, home in known.items() if name in defaults})),
        types="\n".join(f"    {line}" for line in _imports({n: h for n, h in known.items() if n not in defaults})),
    ) + "".join(methods)


def _method(each: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    first = (ast.get_docstring(each) or "").split("\n\n")[0].replace("\n", " ")
    result = ast.unparse(each.returns) if each.returns is not None else "None"
    if isinstance(each, ast.FunctionDef):
        return PROPERTY.format(name=each.name, result=result, first=first)
    given = [argument.arg for argument in each.args.args[1:]]
    given += [f"{argument.arg}={argument.arg}" for argument in each.args.kwonlyargs]
    return METHOD.format(
        name=each.name,
        parameters=ast.unparse(each.args),
        result=result,
        first=first,
        arguments=", ".join(given),
    )


def _homes(module: ast.Module, name: str) -> dict[str, str]:
    """Where the names of a module come from."""
    found = {}
    for each in module.body:
        if isinstance(each, ast.ImportFrom) and each.module != "__future__":
            found |= {alias.asname or alias.name: str(each.module) for alias in each.names}
        elif isinstance(each, ast.ClassDef):
            found[each.name] = name
        elif isinstance(each, ast.Assign | ast.AnnAssign):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            found |= {target.id: name for target in targets if isinstance(target, ast.Name)}
    return found


def _names(node: ast.AST | None) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} if node is not None else set()


def _imports(homes: dict[str, str]) -> list[str]:
    modules = sorted(set(homes.values()))
    return [
        f"from {module} import {', '.join(sorted(name for name, home in homes.items() if home == module))}"
        for module in modules
    ]


def main() -> None:
    """Write the file and let ruff lay it out."""
    PAGE.write_text(text(), encoding="utf-8")
    for words in (["check", "--fix", "--select", "I", "-q"], ["format", "-q"]):
        subprocess.run([sys.executable, "-m", "ruff", *words, str(PAGE)], check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
