"""Install commands of pages and errors work: for wheels by name, and in a clone, which has the folders."""

import re
import tomllib
from pathlib import Path

import pytest

from gantrymq.broker.wire.router import IN_PLUGINS
from gantrymq.cli.extensible_group import TO_INSTALL
from gantrymq.errors import install_command

ROOT = Path(__file__).parents[2]
FROM_AN_INDEX = re.compile(
    r"pip install\s+(?!.*(?:--find-links|\(in a clone))(?:[^\n|&();]*?['\" ])?['\"]?gantrymq\b(?!\.)"
)
FOLDER = re.compile(r"\./([a-z_]+(?:/[a-z0-9_]+)?)")
PLUGINS = sorted(path.parent for path in (ROOT / "plugins").glob("*/pyproject.toml"))


def texts():
    for pattern in ("*.md", "docs/**/*.md", "{}/README.md", "{}/src/**/*.py"):
        for place in ("core", "libs/*", "plugins/*") if "{}" in pattern else ("",):
            yield from ROOT.glob(pattern.format(place))


def test_nothing_is_advised_that_only_an_index_would_have():
    found = {
        f"{path.relative_to(ROOT)}: {advice[0]}"
        for path in texts()
        for advice in FROM_AN_INDEX.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_every_folder_that_is_advised_is_one_of_a_distribution():
    """Plugins are taken from the README's table, because an environment may lack the folders of other plugins."""
    listed = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in texts():
        for line in path.read_text(encoding="utf-8").splitlines():
            for folder in FOLDER.findall(line.partition("pip install")[2]):
                if folder.startswith("plugins/"):
                    name = f"gantrymq-{folder.removeprefix('plugins/').replace('_', '-')}"
                    assert f"`{name}`" in listed, f"{path}: {line}"
                elif folder != "plugins":  # ./plugins/*/
                    assert (ROOT / folder / "pyproject.toml").is_file(), f"{path}: {line}"


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda folder: folder.name)
def test_the_command_for_a_plugin_names_its_folder(folder):
    name = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"]
    command = install_command(name)
    assert command.startswith(f"pip install {name} (in a clone of GantryMQ: pip install ")
    assert command.endswith(f"./plugins/{folder.name})")


def test_the_command_for_an_extra_and_for_compiled_functions():
    assert install_command("gantrymq-spark", extra="spark") == (
        "pip install 'gantrymq-spark[spark]' (in a clone of GantryMQ: pip install './plugins/spark[spark]')"
    )
    assert install_command("gantrymq-speedups", options="--no-cache-dir ") == (
        "pip install --no-cache-dir gantrymq-speedups "
        "(in a clone of GantryMQ: pip install --no-cache-dir ./libs/speedups)"
    )


@pytest.mark.parametrize(
    "distribution",
    sorted({*TO_INSTALL.values(), "gantrymq-storage-mmap", "gantrymq-storage-memory", *IN_PLUGINS.values()}),
)
def test_the_command_names_everything_of_ours_that_the_plugin_needs(distribution):
    command = install_command(distribution)
    folder = ROOT / "plugins" / distribution.removeprefix("gantrymq-").replace("-", "_")
    if not folder.is_dir():
        pytest.skip("the plugin's folder is not here")
    needed = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["dependencies"]
    ours = [re.match(r"[A-Za-z0-9-]+", each)[0] for each in needed]
    for name in (each for each in ours if each.startswith("gantrymq-")):
        assert f"/{name.removeprefix('gantrymq-').replace('-', '_')} " in command
