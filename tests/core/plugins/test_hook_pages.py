"""docs/plugins/hooks has one page for each hook: its signatures equal those of the code, and its example loads."""

import re
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from interface_pages import code_in, declared, in_the_code

from gantrymq import hooks
from gantrymq.client import Client
from gantrymq.errors import BrokerRefused
from gantrymq.plugins import PluginState, load_plugins
from gantrymq_testing.simulation import simulate_cluster

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "docs/plugins/hooks"
SOURCE = ROOT / "core" / "src" / "gantrymq"
HOOKS = [name for name in vars(hooks) if name.startswith("gantry_")]
SECTIONS = ["Signature", "When", "Interface", "Errors", "Example", "Who uses it"]


def sections(hook):
    """Heading to text."""
    title, *parts = re.split(r"^## (.+)\n", (PAGES / f"{hook}.md").read_text(), flags=re.MULTILINE)
    assert title.startswith(f"# {hook}\n")
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.fixture(scope="module", name="in_the_code")
def declarations():
    return in_the_code()


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
    assert list(shown) == ["LogRange", "Segment", "RawLogReader", "RawLogWriter", "RawLog"]
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
    settings = [each for each in info.registers if each.startswith("setting ")]
    with_service = hook == "gantry_register_handlers"  # the handler is a method of it
    assert len(info.registers) - (0 if hook == "gantry_register_config" else len(settings)) == 1 + with_service
    assert callable(getattr(module, hook))


@pytest.mark.skipif(find_spec("gantrymq_filter_tag") is None, reason="the consumer subscribes to tags")
def test_the_request_of_the_page_of_handlers_is_answered():
    page = sections("gantry_register_handlers")["Example"]
    module = ModuleType("example")
    exec(compile(code_in(page), "example", "exec"), vars(module))
    (call,) = re.findall(r"`(await client\.admin\.request_json\(.+?\))`", page)
    ask = {}
    exec(f"async def ask(client, address, PROGRESS, ProgressRequest):\n    return {call}", ask)

    async def main(cluster):
        for body in (b"one", b"two", b"three"):
            await cluster.send("Orders", body)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            given = client, cluster.broker.registration.address, module.PROGRESS, module.ProgressRequest
            with pytest.raises(BrokerRefused, match="group billing does not exist"):
                await ask["ask"](*given)
            async with client.consumer("billing", "Orders", consume_from="first") as consumer:
                assert (await anext(aiter(consumer))).body in (b"one", b"two", b"three")
                await cluster.world.clock.sleep(10)
                return await ask["ask"](*given)

    assert simulate_cluster(main, plugins=[("example", module)]) == {"behind": {"Orders": 3}}


@pytest.mark.parametrize("hook", HOOKS)
def test_plugins_named_on_a_page_use_the_hook(hook):
    for word in re.findall(r"`gantrymq-([a-z0-9-]+)`", sections(hook)["Who uses it"]):
        folder = ROOT / "plugins" / word.replace("-", "_")
        if folder.exists():
            assert f"def {hook}(" in next(folder.glob("src/*/plugin.py")).read_text()
