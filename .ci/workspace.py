"""The distributions of this tree, as their folders and their own pyproject files tell them.

    core/                gantrymq
    speedups/ and so on  the companions of core, each in a folder beside it: gantrymq-<word>
    plugins/<word>/      the plugins: gantrymq-<word>

tox's environments, what they install and the import contracts follow from this, so that adding a plugin is adding its
folder. What is special to a plugin stands in its own pyproject.toml and nowhere else:

    [dependency-groups]
    test = [...]        libraries that its tests need besides what it depends on
    types = [...]       libraries that checking its types needs besides what it depends on

    [tool.gantrymq]
    standard = true     part of gantrymq[standard] and of requirements.txt
    may-import = [...]  modules that it may import although plugins may not, such as "gantrymq.client" or another plugin
    library = true      for applications to import: it registers nothing, so there is no entry point and no plugin.py
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CORE = "core"
COMPILED = "speedups"
KNOWN_KEYS = {"library", "may-import", "standard"}


@dataclass(frozen=True)
class Distribution:
    """One folder that a wheel is built from."""

    folder: Path
    settings: dict[str, Any]  # its pyproject.toml

    @property
    def word(self) -> str:
        """The name of its folder, from which its other names are made."""
        return self.folder.name

    @property
    def name(self) -> str:
        """What pip calls it."""
        return "gantrymq" if self.word == CORE else f"gantrymq-{self.word.replace('_', '-')}"

    @property
    def package(self) -> str:
        """What Python imports."""
        return "gantrymq" if self.word == CORE else f"gantrymq_{self.word}"

    @property
    def source(self) -> Path:
        """The folder of its package."""
        return self.folder / "src"

    @property
    def libraries(self) -> list[str]:
        """Requirements that come from elsewhere."""
        return [need for need in self.settings["project"].get("dependencies", ()) if not is_ours(need)]

    @property
    def standard(self) -> bool:
        """Whether the default install has it."""
        return bool(self._own.get("standard", False))

    @property
    def library(self) -> bool:
        """Whether applications import it and brokers do not: a plugin in all but hooks."""
        return bool(self._own.get("library", False))

    @property
    def may_import(self) -> list[str]:
        """Modules that it may import although the contracts of plugins forbid them."""
        return list(self._own.get("may-import", ()))

    def group(self, name: str) -> list[str]:
        """Requirements of one of its dependency groups; none where it has no such group."""
        return list(self.settings.get("dependency-groups", {}).get(name, ()))

    @property
    def _own(self) -> dict[str, Any]:
        own: dict[str, Any] = self.settings.get("tool", {}).get("gantrymq", {})
        if unknown := sorted(own.keys() - KNOWN_KEYS):
            raise ValueError(
                f"{self.folder / 'pyproject.toml'}: [tool.gantrymq] has {', '.join(unknown)}, "
                f"known are {', '.join(sorted(KNOWN_KEYS))}"
            )
        return own


@dataclass(frozen=True)
class Workspace:
    """Every distribution of a tree; plugins and companions by word, in the order of their words."""

    core: Distribution
    companions: dict[str, Distribution]
    plugins: dict[str, Distribution]

    @property
    def every(self) -> list[Distribution]:
        """Core, its companions, the plugins."""
        return [self.core, *self.companions.values(), *self.plugins.values()]

    def needed_by(self, companion: Distribution) -> list[Distribution]:
        """Plugins that *companion* depends on: they are wherever it is."""
        needs = {re.split(r"[^a-z0-9-]", need)[0] for need in companion.settings["project"].get("dependencies", ())}
        return [plugin for plugin in self.plugins.values() if plugin.name in needs]

    def imported_by(self, plugin: Distribution) -> list[Distribution]:
        """Other plugins that *plugin* may import, and that those may import."""
        found: dict[str, Distribution] = {}
        waiting = [plugin]
        while waiting:
            tops = {module.partition(".")[0] for module in waiting.pop().may_import}
            for other in self.plugins.values():
                if other.package in tops and other is not plugin and other.word not in found:
                    found[other.word] = other
                    waiting.append(other)
        return [found[word] for word in sorted(found)]


def read(root: Path = ROOT) -> Workspace:
    """The distributions that lie in *root* now."""
    beside = _below(root, "*")
    return Workspace(beside.pop(CORE), beside, _below(root, "plugins/*"))


def is_ours(requirement: str) -> bool:
    """Whether a requirement names a distribution of this project."""
    return re.match(r"gantrymq(?![a-z0-9])", requirement) is not None


def _below(root: Path, folders: str) -> dict[str, Distribution]:
    found = sorted(root.glob(f"{folders}/pyproject.toml"))
    return {path.parent.name: Distribution(path.parent, tomllib.loads(path.read_text())) for path in found}
