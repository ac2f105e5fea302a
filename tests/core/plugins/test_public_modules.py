"""The public modules for plugins, `gantrymq.plugin` and below: type checkers and Python see the same names, nothing is
imported early, and every name is on a page of docs/plugins/api.
"""

import ast
import collections.abc
import json
import re
import subprocess
import sys
import typing
from importlib import import_module
from pathlib import Path

import pytest

import gantrymq.interfaces
import gantrymq.plugin

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "docs/plugins/api"
FOLDER = Path(gantrymq.plugin.__file__).parent
MODULES = sorted(path for path in FOLDER.glob("*.py") if path.stem not in ("__init__", "lazy"))
LAZY = [path.stem for path in MODULES if "lazy_exports(" in path.read_text()]


def imports_for_type_checkers(word):
    """Name to the module that declares it."""
    (block,) = (node for node in ast.parse((FOLDER / f"{word}.py").read_text()).body if isinstance(node, ast.If))
    return {name.asname: node.module for node in block.body for name in node.names}


@pytest.mark.parametrize("word", LAZY)
def test_the_names_of_a_module_are_listed_before_their_first_use(word):
    program = f"import gantrymq.plugin.{word} as module; assert {{*module.__all__}} <= {{*dir(module)}}, dir(module)"
    subprocess.run([sys.executable, "-c", program], check=True)


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


def test_every_name_is_on_the_page_of_its_module():
    show = "import sys, json; sys.path[0] = '.ci'; import hook_pages; print(json.dumps(hook_pages.api_pages()))"
    made = subprocess.run([sys.executable, "-c", show], cwd=ROOT, capture_output=True, check=True, text=True)
    pages = json.loads(made.stdout)
    assert {path.stem for path in MODULES} | {"plugin", "errors"} == {name.removesuffix(".md") for name in pages}
    for name, text in pages.items():
        assert (PAGES / name).read_text() == text, "bring the page up to date with: python .ci/hook_pages.py"


@pytest.mark.parametrize("word", [path.stem for path in MODULES])
def test_the_names_on_a_page_are_those_that_a_module_exports(word):
    module = import_module(f"gantrymq.plugin.{word}")
    listed = re.findall(rf"^::: gantrymq\.plugin\.{word}\.(\w+)$", (PAGES / f"{word}.md").read_text(), re.MULTILINE)
    assert listed
    assert len(listed) == len(set(listed))
    assert all(hasattr(module, name) for name in listed)
    if word == "interfaces":
        assert sorted(listed) == sorted(gantrymq.interfaces.__all__)
    elif word in LAZY:
        assert sorted(listed) == module.__all__


def test_the_index_and_the_site_have_every_page():
    pages = {path.name for path in PAGES.glob("*.md")} - {"README.md"}
    assert set(re.findall(r"^\| \[gantrymq\.\S+\]\((\w+\.md)\) \|", (PAGES / "README.md").read_text(), re.M)) == pages
    assert set(re.findall(r"plugins/api/(\w+\.md)", (ROOT / "mkdocs.yml").read_text())) == pages | {"README.md"}


@pytest.mark.parametrize("folder", ["hooks", "broker"])
def test_types_that_the_pages_declare_are_public(folder):
    public = {name for path in MODULES for name in dir(import_module(f"gantrymq.plugin.{path.stem}"))}
    public.update(*(import_module(f"gantrymq.plugin.{word}").__all__ for word in LAZY))
    declared = set()
    for page in (ROOT / "docs/plugins" / folder).glob("*.md"):
        interface = page.read_text().split("## Example")[0]
        for block in re.findall(r"```python\n(.*?)```", interface, re.DOTALL):
            declared.update(re.findall(r"^class (\w+)", block, re.MULTILINE))
            declared.update(re.findall(r"(?:->|:) ([A-Z]\w+[a-z])\b", block))
    generic = {"FactoryRegistry", "ObjectRegistry", "Made"}  # their aliases, such as StoreRegistry, are public
    standard = {"None", "Path", *collections.abc.__all__, *typing.__all__}
    assert len(declared) > 10
    assert declared - public - generic - standard == set()


@pytest.mark.parametrize("page", sorted((ROOT / "docs/plugins").rglob("*.md")), ids=lambda page: page.stem)
def test_code_of_the_pages_for_plugins_imports_public_names_only(page):
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        modules = re.findall(r"^ *(?:from|import) (gantrymq\.[\w.]+)", block, re.MULTILINE)
        assert [each for each in modules if not re.match(r"gantrymq\.(plugin|errors|client)\b", each)] == []
