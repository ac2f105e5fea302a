"""Check the import contracts of pyproject.toml against every distribution with a folder in the tree.

    python .ci/lint_imports.py [options of lint-imports]

The contracts name packages of distributions by words in braces, which are replaced:

    {packages}    every package of the tree
    {libs}        packages of libs/
    {plugins}     packages of plugins
    {internal}    modules of core that no plugin imports: all besides those of `PUBLIC`

Imports that a plugin may make (``may-import`` in its pyproject.toml) are excluded from the contracts of {plugins}, for
that plugin only. Sources are read in place; GantryMQ need not be installed.
"""

from __future__ import annotations

import json
import sys
import tempfile
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import workspace
from workspace import Workspace

PUBLIC = ("plugin", "errors")  # of core, for plugins
SOURCES = ("modules", "source_modules")  # keys of contracts that list the bound modules


def main() -> None:
    tree = workspace.read()
    sys.path[:0] = [str(each.source) for each in tree.every]
    (command,) = entry_points(group="console_scripts", name="lint-imports")
    settings = tomllib.loads((workspace.ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "contracts.toml")
        config.write_text(as_toml(filled(settings, tree)))
        command.load()(["--config", str(config), *sys.argv[1:]])


def filled(settings: dict[str, Any], tree: Workspace) -> dict[str, Any]:
    """Return import-linter's *settings* with packages for words, and with the exceptions of plugins."""
    meant = {
        "{packages}": [each.package for each in tree.every],
        "{libs}": [each.package for each in tree.libs.values()],
        "{plugins}": [each.package for each in tree.plugins.values()],
        "{internal}": internal(tree),
    }
    contracts = [with_packages(contract, meant) for contract in settings["contracts"]]
    for before, contract in zip(settings["contracts"], contracts, strict=True):
        if any("{plugins}" in before.get(key, ()) for key in SOURCES):
            contract["ignore_imports"] = [*contract.get("ignore_imports", ()), *allowed(tree)]
            contract["unmatched_ignore_imports_alerting"] = "none"
    return {**with_packages(settings, meant), "contracts": contracts}


def with_packages(table: dict[str, Any], meant: dict[str, list[str]]) -> dict[str, Any]:
    """Return a copy of *table*; in its lists of texts each word is replaced by its packages."""
    return {key: filled_list(value, meant) if is_texts(value) else value for key, value in table.items()}


def is_texts(value: object) -> bool:
    """Return whether *value* is a list of texts."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def filled_list(texts: list[str], meant: dict[str, list[str]]) -> list[str]:
    """Return *texts* with each word replaced by its packages."""
    return [package for text in texts for package in meant.get(text, [text])]


def internal(tree: Workspace) -> list[str]:
    """Return the packages and modules of core that are not public for plugins."""
    folder = tree.core.source / tree.core.package
    found = {path.parent.name for path in folder.glob("*/__init__.py")} | {path.stem for path in folder.glob("*.py")}
    return [f"{tree.core.package}.{name}" for name in sorted(found - {"__init__", *PUBLIC})]


def allowed(tree: Workspace) -> list[str]:
    """Return the imports allowed by ``may-import``, as import-linter writes them.

    A module of core is allowed without those below it, another distribution with all of its modules.
    """
    return [
        f"{importer} -> {imported}"
        for plugin in tree.plugins.values()
        for module in plugin.may_import
        for importer in (plugin.package, f"{plugin.package}.**")
        for imported in ([module] if module.startswith("gantrymq.") else [module, f"{module}.**"])
    ]


def as_toml(settings: dict[str, Any]) -> str:
    """Format import-linter's file. Texts, booleans and lists of texts look the same in TOML and JSON."""
    lines = ["[tool.importlinter]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items() if key != "contracts"]
    for contract in settings["contracts"]:
        lines += ["", "[[tool.importlinter.contracts]]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in contract.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
