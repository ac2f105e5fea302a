"""tox's environments as the folders of the tree determine them: their names, and the libraries they need.

toxfile.py passes them to tox, check_groups.py expects them to have run.
"""

from __future__ import annotations

import sys

from pythons import PYTHONS
from workspace import Distribution, Workspace

ALONE_ON = "3.11"  # the Python on which core and each plugin are tested alone
CHECKS = ("wheels", "lint", "types")  # environments without tests


def quick() -> list[str]:
    """Names of the environments that plain ``tox`` runs: checks, and the fast tests on the Python that runs tox."""
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    return [*CHECKS, _named(running if running in PYTHONS else PYTHONS[-1], "all")]


def full(tree: Workspace) -> list[str]:
    """Names of the environments that ``tox run -m full`` runs: those that *quick* leaves out."""
    every = [_named(version, "all") for version in PYTHONS]
    others = [name for name in every if name not in quick()]
    alone = [_named(ALONE_ON, "core"), *plugins_alone(tree)]
    return ["wheels", *others, *alone, "slow", "sanitize", "kit", "spark", "interop"]


def _named(version: str, factor: str) -> str:
    return f"py{version.replace('.', '')}-{factor}"


def plugins_alone(tree: Workspace) -> list[str]:
    """Names of the environments with core and one plugin."""
    return [_named(ALONE_ON, word) for word in tree.plugins]


def plugin_of(environment: str, tree: Workspace) -> Distribution | None:
    """The plugin that *environment* tries alone, on any Python; None where it is of another kind."""
    python, _, word = environment.partition("-")
    return tree.plugins.get(word) if python.startswith("py") else None


def test_libraries(environment: str, tree: Workspace) -> list[str]:
    """What tests in *environment* need: those of core where it is alone, of the plugin that is alone, or of all."""
    alone = plugin_of(environment, tree)
    if environment.endswith("-core"):
        tested = [tree.core]
    else:
        tested = tree.every if alone is None else [alone]
    return sorted({library for each in tested for library in each.group("test")})


def spark_libraries(tree: Workspace) -> list[str]:
    """What plugins need beside Spark: their extra ``spark``."""
    extras = [each.settings["project"].get("optional-dependencies", {}) for each in tree.plugins.values()]
    return sorted({library for extra in extras for library in extra.get("spark", ())})


def type_libraries(tree: Workspace) -> list[str]:
    """What types are checked against: every library that is depended on, and what the distributions say besides."""
    return sorted({library for each in tree.every for library in [*each.libraries, *each.group("types")]})
