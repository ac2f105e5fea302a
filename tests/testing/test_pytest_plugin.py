"""The modules that pytest loads automatically if gantrymq-testing is installed cost almost nothing."""

import subprocess
import sys
from importlib.metadata import entry_points

LIGHT = {"gantrymq_testing", "gantrymq_testing.pytest_plugin"}


def test_the_registered_module_loads_nothing_heavy():
    found = subprocess.run(
        [sys.executable, "-c", "import sys, gantrymq_testing.pytest_plugin; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert {name for name in found if name.startswith("gantrymq")} == LIGHT
    assert not {"click", "orjson", "rich", "uvloop"} & set(found)


def test_pytest_finds_it_by_its_entry_point():
    (point,) = entry_points(group="pytest11", name="gantrymq")
    assert point.value == "gantrymq_testing.pytest_plugin"


def test_the_marker_is_declared(pytestconfig):
    assert any(line.startswith("gantrymq(") for line in pytestconfig.getini("markers"))
