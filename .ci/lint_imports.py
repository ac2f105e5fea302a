"""Check the import contracts of pyproject.toml against every distribution whose folder is there.

    python .ci/lint_imports.py [options of lint-imports]

The contracts name packages of distributions by words in braces, and this puts the packages in their place:

    {packages}    every package of the tree
    {companions}  packages of the folders beside core
    {plugins}     packages of plugins

What a plugin says that it may import (``may-import`` in its pyproject.toml) is left out of the contracts that {plugins}
have to keep, from that plugin alone. The sources are read where they lie; nothing of GantryMQ has to be installed.
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

SOURCES = ("modules", "source_modules")  # where contracts name those that have to keep them


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
    """Import-linter's *settings* with packages in the place of words, and with what plugins may import."""
    meant = {
        "{packages}": [each.package for each in tree.every],
        "{companions}": [each.package for each in tree.companions.values()],
        "{plugins}": [each.package for each in tree.plugins.values()],
    }
    contracts = [with_packages(contract, meant) for contract in settings["contracts"]]
    for before, contract in zip(settings["contracts"], contracts, strict=True):
        if any("{plugins}" in before.get(key, ()) for key in SOURCES):
            contract["ignore_imports"] = [*contract.get("ignore_imports", ()), *allowed(tree)]
            contract["unmatched_ignore_imports_alerting"] = "none"
    return {**with_packages(settings, meant), "contracts": contracts}


def with_packages(table: dict[str, Any], meant: dict[str, list[str]]) -> dict[str, Any]:
    """A copy of *table*; in its lists of texts each word stands for the packages that it means."""
    return {key: filled_list(value, meant) if is_texts(value) else value for key, value in table.items()}


def is_texts(value: object) -> bool:
    """Whether *value* is a list of texts."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def filled_list(texts: list[str], meant: dict[str, list[str]]) -> list[str]:
    """*texts* with each word replaced by what it means."""
    return [package for text in texts for package in meant.get(text, [text])]


def allowed(tree: Workspace) -> list[str]:
    """Imports that plugins may make although plugins may not, as import-linter writes them."""
    return [
        f"{importer} -> {imported}"
        for plugin in tree.plugins.values()
        for module in plugin.may_import
        for importer in (plugin.package, f"{plugin.package}.**")
        for imported in (module, f"{module}.**")
    ]


def as_toml(settings: dict[str, Any]) -> str:
    """The file that import-linter reads. Texts, booleans and lists of texts look in TOML as they do in JSON."""
    lines = ["[tool.importlinter]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items() if key != "contracts"]
    for contract in settings["contracts"]:
        lines += ["", "[[tool.importlinter.contracts]]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in contract.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
