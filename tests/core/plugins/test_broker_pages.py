"""docs/plugins/broker has a page for each part of a broker: signatures equal those of the code, and examples run."""

import inspect
import re
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from interface_pages import code_in, declared, in_the_code

from gantrymq import interfaces
from gantrymq.interfaces import Broker
from gantrymq_testing.simulation import simulate_cluster

PAGES = Path(__file__).resolve().parents[3] / "docs" / "plugins" / "broker"
NAMES = sorted(path.stem for path in PAGES.glob("*.md") if path.stem != "README")


def sections(name):
    """Heading to text."""
    title, *parts = re.split(r"^## (.+)\n", (PAGES / f"{name}.md").read_text(), flags=re.MULTILINE)
    assert title.startswith("# ")
    return dict(zip(parts[::2], parts[1::2], strict=True))


def parts_of_a_broker():
    """Attributes of a broker that are small protocols of `gantrymq.interfaces`."""
    for name, member in inspect.getmembers(Broker):
        if isinstance(member, property):
            kind = getattr(interfaces, inspect.signature(member.fget).return_annotation, None)
            if (
                kind is not None
                and kind.__module__.startswith("gantrymq.interfaces")
                and name not in ("store", "store_capabilities", "bit_maps")
            ):
                yield name


def test_every_part_of_a_broker_has_a_page():
    assert sorted([*parts_of_a_broker(), "lite", "pop"]) == NAMES
    assert set(re.findall(r"\((\w+)\.md\)", (PAGES / "README.md").read_text())) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_signatures_on_a_page_are_those_of_the_code(name):
    shown, code = declared(code_in(sections(name)["Interface"])), in_the_code()
    assert shown
    assert shown == {each: code[each] for each in shown}, "bring the page up to date with: python .ci/hook_pages.py"


@pytest.mark.skipif(find_spec("gantrymq_filter_tag") is None, reason="one example compiles a filter by tag")
@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_page_runs(name):
    module = ModuleType("example")
    exec(compile(code_in(sections(name)["Example"]), f"{name}.md", "exec"), vars(module))

    async def main(cluster):
        await cluster.create_topic("Orders", 1)
        await cluster.send("Orders", b"one")
        await cluster.world.clock.sleep(1)
        assert cluster.broker.topics.get("Orders") is not None

    simulate_cluster(main, plugins=[("example", module)])
