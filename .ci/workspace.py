"""The distributions of this tree, from their folders and pyproject files.

    core/                gantrymq
    libs/<word>/         libraries and tools that are no plugins, such as the compiled functions: gantrymq-<word>
    plugins/<word>/      the plugins: gantrymq-<word>

tox's environments, their packages and the import contracts are derived from this, so that adding a folder adds a
plugin. Special settings of a plugin are in its own pyproject.toml and nowhere else:

    [dependency-groups]
    test = [...]        libraries for its tests, in addition to its dependencies
    types = [...]       libraries for type checks, in addition to its dependencies

    [tool.gantrymq]
    standard = true     part of gantrymq[standard] and of requirements.txt
    may-import = [...]  modules that it may import despite the rules, such as "gantrymq.client" or another plugin
    library = true      a library for applications: it registers nothing, so it has no entry point and no plugin.py
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
KNOWN_KEYS = {"library", "may-import", "more-tests", "standard"}


@dataclass(frozen=True)
class Distribution:
    """One folder from which a wheel is built."""

    folder: Path
    settings: dict[str, Any]  # its pyproject.toml

    @property
    def word(self) -> str:
        """The name of its folder, from which its other names are derived."""
        return self.folder.name

    @property
    def name(self) -> str:
        """The name of its distribution."""
        return "gantrymq" if self.word == CORE else f"gantrymq-{self.word.replace('_', '-')}"

    @property
    def package(self) -> str:
        """The name of its import package."""
        return "gantrymq" if self.word == CORE else f"gantrymq_{self.word}"

    @property
    def source(self) -> Path:
        """The folder of its package."""
        return self.folder / "src"

    @property
    def libraries(self) -> list[str]:
        """Its requirements outside this project."""
        return [need for need in self.settings["project"].get("dependencies", ()) if not is_ours(need)]

    @property
    def standard(self) -> bool:
        """Whether it is part of the default install."""
        return bool(self._own.get("standard", False))

    @property
    def library(self) -> bool:
        """Whether it is a library for applications, without hooks."""
        return bool(self._own.get("library", False))

    @property
    def may_import(self) -> list[str]:
        """Modules that it may import although the contracts of plugins forbid them."""
        return list(self._own.get("may-import", ()))

    @property
    def tests(self) -> list[str]:
        """Folders of its tests, from the root of the tree."""
        return [f"tests/{word}" for word in (self.word, *self._own.get("more-tests", ()))]

    def group(self, name: str) -> list[str]:
        """Return the requirements of one of its dependency groups; empty if it has no such group."""
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
    """Every distribution of a tree; libraries and plugins by word, in the order of their words."""

    core: Distribution
    libs: dict[str, Distribution]
    plugins: dict[str, Distribution]

    @property
    def version(self) -> str:
        """The version of every distribution."""
        version: str = self.core.settings["project"]["version"]
        return version

    @property
    def every(self) -> list[Distribution]:
        """Core, the libraries, the plugins."""
        return [self.core, *self.libs.values(), *self.plugins.values()]

    def needed_by(self, lib: Distribution) -> list[Distribution]:
        """Return the plugins that *lib* depends on."""
        needs = {re.split(r"[^a-z0-9-]", need)[0] for need in lib.settings["project"].get("dependencies", ())}
        return [plugin for plugin in self.plugins.values() if plugin.name in needs]

    def imported_by(self, plugin: Distribution) -> list[Distribution]:
        """Return the other plugins that *plugin* may import, with those that they may import."""
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
    """Return the distributions in *root*."""
    return Workspace(_below(root, CORE)[CORE], _below(root, "libs/*"), _below(root, "plugins/*"))


def releases(version: str) -> str:
    """Return the versions of each other that our distributions of *version* work with, such as ``>=0.3.0,<0.4``."""
    major, minor = version.split(".")[:2]
    return f">={version},<{major}.{int(minor) + 1}"


def is_ours(requirement: str) -> bool:
    """Return whether a requirement names a distribution of this project."""
    return re.match(r"gantrymq(?![a-z0-9])", requirement) is not None


def _below(root: Path, folders: str) -> dict[str, Distribution]:
    found = sorted(root.glob(f"{folders}/pyproject.toml"))
    return {path.parent.name: Distribution(path.parent, tomllib.loads(path.read_text())) for path in found}
