"""docs/plugins/hooks has one page for each hook: its signatures equal those of the code, and its example loads."""

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

from gantrymq import hooks
from gantrymq.plugins import PluginState, load_plugins

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "docs/plugins/hooks"
SOURCE = ROOT / "core" / "src" / "gantrymq"
HOOKS = [name for name in vars(hooks) if name.startswith("gantry_")]
SECTIONS = ["Signature", "When", "Interface", "Errors", "Example", "Who uses it"]
DECLARING = [
    SOURCE / "hooks.py",
    SOURCE / "config.py",
    SOURCE / "model" / "queue.py",
    SOURCE / "formats" / "dispatch_entry.py",
    SOURCE / "formats" / "ext_unit.py",
    SOURCE / "remoting" / "serving.py",
    *sorted(SOURCE.glob("interfaces/*.py")),
]


def declared(text):
    """Name to signature of each function, class and alias at the top of *text*; a class's is that of its members."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            members = [signature(member) for member in node.body]
            found[node.name] = [ast.unparse(base) for base in node.bases], [each for each in members if each]
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = signature(node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = ast.unparse(node)
    return found


def signature(member):
    """One member as text without its body; empty for private names and other statements."""
    if isinstance(member, ast.Assign):
        return "" if ast.unparse(member.targets[0]) == "__slots__" else ast.unparse(member)
    if isinstance(member, ast.AnnAssign):
        return ast.unparse(member)
    if not isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    if member.name.startswith("_") and member.name not in ("__init__", "__call__"):
        return ""
    marks = [ast.unparse(mark) for mark in member.decorator_list if ast.unparse(mark) != "hookspec"]
    word = "async def" if isinstance(member, ast.AsyncFunctionDef) else "def"
    returns = "" if member.returns is None else ast.unparse(member.returns)
    return f"{marks} {word} {member.name}({ast.unparse(member.args)}) -> {returns}"


def sections(hook):
    """Heading to text."""
    title, *parts = re.split(r"^## (.+)\n", (PAGES / f"{hook}.md").read_text(), flags=re.MULTILINE)
    assert title.startswith(f"# {hook}\n")
    return dict(zip(parts[::2], parts[1::2], strict=True))


def code_in(text):
    return "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


@pytest.fixture(scope="module")
def in_the_code():
    found = {}
    for path in DECLARING:
        found.update(declared(path.read_text()))
    return found


def test_every_hook_has_a_page_and_every_page_a_hook():
    assert sorted(path.stem for path in PAGES.glob("*.md")) == sorted([*HOOKS, "README"])
    listed = re.findall(r"^\| \[(gantry_\w+)\]\((gantry_\w+)\.md\) \|", (PAGES / "README.md").read_text(), re.MULTILINE)
    assert listed == [(name, name) for name in HOOKS]


@pytest.mark.parametrize("hook", HOOKS)
def test_a_page_has_its_sections(hook):
    found = sections(hook)
    assert list(found) == SECTIONS
    assert all(text.strip() for text in found.values())


@pytest.mark.parametrize("hook", HOOKS)
def test_the_signatures_on_a_page_are_those_of_the_code(hook, in_the_code):
    found = sections(hook)
    first, others = declared(code_in(found["Signature"])), declared(code_in(found["Interface"]))
    assert next(iter(first)) == hook
    shown = {**first, **others}
    now = {name: in_the_code[name] for name in shown}
    assert shown == now, "bring the page up to date with: python .ci/hook_pages.py"


def test_the_signatures_on_the_page_of_the_raw_log_are_those_of_the_code(in_the_code):
    interface = (ROOT / "docs/plugins/raw_log.md").read_text().split("## Reading")[0]
    shown = declared(code_in(interface))
    assert list(shown) == ["LogRange", "Segment", "RawLog"]
    assert shown == {name: in_the_code[name] for name in shown}, "run: python .ci/hook_pages.py"


@pytest.mark.parametrize("hook", HOOKS)
def test_a_page_shows_the_registry_that_the_hook_is_handed(hook):
    registry = vars(hooks)[hook].__annotations__["registry"]
    assert registry in declared(code_in(sections(hook)["Signature"]))


@pytest.mark.parametrize("hook", HOOKS)
def test_the_example_of_a_page_loads(hook):
    module = ModuleType("example")
    exec(compile(code_in(sections(hook)["Example"]), f"{hook}.md", "exec"), vars(module))
    loaded = load_plugins(extra=[("example", module)], installed=False)
    (info,) = loaded.infos
    assert info.state is PluginState.LOADED
    assert len(info.registers) == 1
    assert callable(getattr(module, hook))


@pytest.mark.parametrize("hook", HOOKS)
def test_plugins_named_on_a_page_use_the_hook(hook):
    for word in re.findall(r"`gantrymq-([a-z0-9-]+)`", sections(hook)["Who uses it"]):
        folder = ROOT / "plugins" / word.replace("-", "_")
        if folder.exists():
            assert f"def {hook}(" in next(folder.glob("src/*/plugin.py")).read_text()
