"""What tox's environments take from the folders: one for each plugin, what it tests, and the libraries they need.

toxfile.py tells tox, check_groups.py expects them afterwards.
"""

from __future__ import annotations

from workspace import Distribution, Workspace

ALONE_ON = "3.11"  # the Python on which the default run tries each plugin alone


def plugins_alone(tree: Workspace) -> list[str]:
    """Names of the environments with core and one plugin."""
    return [f"py{ALONE_ON.replace('.', '')}-{word}" for word in tree.plugins]


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
