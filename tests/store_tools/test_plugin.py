"""The plugin: registrations, and no import before first use."""

import subprocess
import sys

import pytest

from gantrymq.plugins import load_plugins
from gantrymq_store_tools import plugin


def test_registers_the_command():
    found = load_plugins(extra=[("store_tools", plugin)], installed=False)
    assert [info.registers for info in found.infos] == [("command store",)]


@pytest.mark.parametrize(
    "start",
    [
        "from gantrymq.cli import main\nmain(['--help'], standalone_mode=False)",
        "from gantrymq.plugins import load_plugins\nload_plugins()",
    ],
    ids=["help", "server"],
)
def test_the_help_and_servers_import_none_of_it(start):
    program = f"import sys\n{start}\nprint(*(name for name in sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    loaded = {name for name in done.stderr.split() if name.startswith("gantrymq_store_tools")}
    assert loaded == {"gantrymq_store_tools", "gantrymq_store_tools.plugin"}


def test_the_library_does_not_import_the_command_line():
    program = "import sys\nimport gantrymq_store_tools.repair\nprint('click' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"
