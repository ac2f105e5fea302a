"""docs/operations/store-tools.md has every command and every kind of finding, and its example of the library runs."""

import re
from pathlib import Path

import pytest

import gantrymq_store_tools
from gantrymq.world.real import RealFiles
from gantrymq_store_files import log_walk
from gantrymq_store_tools.commands.store import store
from gantrymq_store_tools.layout import find_layout

PAGE = (Path(__file__).parents[2] / "docs/operations/store-tools.md").read_text()
PLACES = [*Path(gantrymq_store_tools.__file__).parent.glob("*.py"), Path(log_walk.__file__)]
SOURCES = "\n".join(path.read_text() for path in sorted(PLACES))
PARTS = "layout|log|queue|batch|ext|index|checkpoint|config|store"


def test_every_command_is_on_the_page_and_no_other():
    assert set(re.findall(r"`gantrymq store ([a-z-]+) (?:STORE )?DIR(?: STORE)?`", PAGE)) == set(store.commands)


def kinds():
    """Kinds that the sources name: in calls, and in the lists that modules begin with."""
    named = re.findall(rf'"((?:{PARTS})\.[a-z_]+)"', SOURCES)
    named += re.findall(rf"^    ((?:{PARTS})\.[a-z_]+) ", SOURCES, re.MULTILINE)
    return sorted(name for name in set(named) if name != "queue.type" and not name.endswith(".json"))


@pytest.mark.parametrize("kind", kinds())
def test_every_kind_of_finding_is_on_the_page(kind):
    assert f"`{kind}`" in PAGE


def test_no_kind_is_on_the_page_that_is_not_found():
    mentioned = set(re.findall(rf"`((?:{PARTS})\.[a-z_]+)`", PAGE))
    written = {f"{part}.{word}" for part, word in re.findall(rf"`({PARTS})\.([a-z_]+)`", PAGE)}
    assert mentioned == written
    for kind in mentioned:
        assert f'"{kind.partition(".")[2]}"' in SOURCES or f'"{kind}"' in SOURCES or f"{kind} " in SOURCES, kind


def test_the_example_of_the_library_runs(tmp_path):
    folder = tmp_path / "commitlog"
    folder.mkdir()
    (folder / f"{0:020d}").write_bytes(bytes(4096))
    code = PAGE.partition("```python\n")[2].partition("```")[0]
    names = {"files": RealFiles(), "root": tmp_path}
    exec(code, names)
    assert find_layout(names["files"], tmp_path) == names["layout"]
    assert [part.records for part in names["parts"]] == [0]
