"""Tests wait for conditions with a deadline (`tests/support/polling.py`) or on the virtual clock, not for a fixed time.

A line that must sleep on the real clock says why in a comment `# real time: ...`.
"""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
REASON = "# real time: "
HELPER = "support/polling.py"
VIRTUAL = (  # asyncio.sleep is virtual here: these run on the simulated event loop
    "golden/test_ha_stream.py",
    "simulation/simulation_rig/grpc_run.py",
    "simulation/simulation_rig/harness.py",
    "testing/test_simulated_faults.py",
    "testing/test_simulated_process.py",
)


def sleeping_lines(source):
    """Return the numbers of lines that sleep on the real clock without a reason; 0 and endless sleeps do not count."""
    lines = source.splitlines()
    tree = ast.parse(source)
    renamed = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("time", "asyncio")
        for name in node.names
        if name.name == "sleep"
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (ast.unparse(node.func) in ("time.sleep", "asyncio.sleep") or ast.unparse(node.func) in renamed)
        and ast.unparse(node.args[0]) not in ("0", "1000", "10 ** 6")
        and REASON not in "\n".join(lines[node.lineno - 1 : node.end_lineno])
    ]


def test_no_test_waits_for_a_fixed_time_without_a_reason():
    found = [
        f"tests/{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if path.relative_to(TESTS).as_posix() not in (HELPER, *VIRTUAL)
        for line in sleeping_lines(path.read_text(encoding="utf-8"))
    ]
    assert found == [], f"poll with polling.until, use world.clock, or give the reason in a comment {REASON!r}"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import time\ntime.sleep(0.1)", [2]),
        ("import time\ntime.sleep(0.1)  # real time: rate of the load", []),
        ("async def wait():\n    await asyncio.sleep(PAUSE_S)", [2]),
        ("from time import sleep as pause\npause(1)", [2]),
        ("async def turn():\n    await asyncio.sleep(0)", []),
        ("async def wait(world):\n    await world.clock.sleep(5)", []),
        ("SOURCE = 'time.sleep(1)'", []),
    ],
)
def test_lines_that_sleep_on_the_real_clock_are_found(source, lines):
    assert sleeping_lines(source) == lines
