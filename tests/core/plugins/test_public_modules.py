"""The public modules for plugins, `gantrymq.plugin` and below, export what type checkers see, without early imports."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import gantrymq.plugin

FOLDER = Path(gantrymq.plugin.__file__).parent
MODULES = sorted(path for path in FOLDER.glob("*.py") if path.stem not in ("__init__", "lazy"))
LAZY = [path.stem for path in MODULES if "lazy_exports(" in path.read_text()]


def imports_for_type_checkers(word):
    """Name to the module that declares it."""
    (block,) = (node for node in ast.parse((FOLDER / f"{word}.py").read_text()).body if isinstance(node, ast.If))
    return {name.asname: node.module for node in block.body for name in node.names}


@pytest.mark.parametrize("word", LAZY)
def test_type_checkers_see_the_names_that_python_exports(word):
    module, seen = import_module(f"gantrymq.plugin.{word}"), imports_for_type_checkers(word)
    assert module.__all__ == sorted(seen)
    for name, home in seen.items():
        assert getattr(module, name) is getattr(import_module(home), name)
    with pytest.raises(AttributeError, match=f"module 'gantrymq.plugin.{word}' has no attribute 'Brokr'"):
        module.Brokr  # noqa: B018


def test_a_public_module_imports_the_used_names_only():
    modules = ", ".join(f"gantrymq.plugin.{word}" for word in LAZY)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}; print(*sys.modules)"],
        capture_output=True,
        check=True,
        text=True,
    )
    loaded = [name.split(".")[1] for name in done.stdout.split() if name.startswith("gantrymq.")]
    assert set(loaded) == {"plugin", "hooks"}
