"""tox's environments, derived from the folders of the tree: their names, and the libraries they need.

toxfile.py passes them to tox, check_groups.py expects them to have run.
"""

from __future__ import annotations

import sys

from pythons import PYTHONS
from workspace import Distribution, Workspace

PLUGINS_ON = PYTHONS[-1]  # the Python on which each plugin is tested alone
CORE_ON = PYTHONS[-2]  # the Python on which core is tested alone
CHECKS = ("wheels", "lint", "types", "docs", "release")  # environments without tests


def quick() -> list[str]:
    """Names of the environments that plain ``tox`` runs: checks, and the fast tests on the Python that runs tox."""
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    return ["wheels", "lint", "types", _named(running if running in PYTHONS else PYTHONS[-1], "all")]


def full(tree: Workspace) -> list[str]:
    """Names of the environments of ``tox run -m full``: those not in *quick*.

    The oldest Python runs everything together. The others run the tests of core alone, and of each plugin with that
    plugin alone. Files that need several plugins run on the oldest only; a ``-rest`` environment runs them on another.
    """
    together = _named(PYTHONS[0], "all")
    others = [together] if together not in quick() else []
    return ["wheels", "docs", "release", *others, *alone(tree), "slow", "sanitize", "kit", "spark", "interop"]


def _named(version: str, factor: str) -> str:
    return f"py{version.replace('.', '')}-{factor}"


def alone(tree: Workspace) -> list[str]:
    """Names of the environments with core alone, and with core and one plugin."""
    return [_named(CORE_ON, "core"), *(_named(PLUGINS_ON, word) for word in tree.plugins)]


def plugin_of(environment: str, tree: Workspace) -> Distribution | None:
    """Return the plugin that *environment* tests alone, on any Python; None for other environments."""
    python, _, word = environment.partition("-")
    return tree.plugins.get(word) if python.startswith("py") else None


def test_libraries(environment: str, tree: Workspace) -> list[str]:
    """Return the libraries for tests in *environment*: those of core, of the plugin tested alone, or of all."""
    alone = plugin_of(environment, tree)
    if environment.endswith("-core"):
        tested = [tree.core]
    else:
        tested = tree.every if alone is None else [alone]
    return sorted({library for each in tested for library in each.group("test")})


def spark_libraries(tree: Workspace) -> list[str]:
    """Return the libraries that plugins need with Spark: their extra ``spark``."""
    extras = [each.settings["project"].get("optional-dependencies", {}) for each in tree.plugins.values()]
    return sorted({library for extra in extras for library in extra.get("spark", ())})


def type_libraries(tree: Workspace) -> list[str]:
    """Return the libraries for type checks: every dependency, and the dependency groups ``types``."""
    return sorted({library for each in tree.every for library in [*each.libraries, *each.group("types")]})
