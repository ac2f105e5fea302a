"""The harness never gives a port twice, not even to two processes at the same time."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import free_port, ports

HERE = Path(__file__).parent
ASK = """
import sys
sys.path[:0] = sys.argv[1:3]
from harness import ports
ports.PORTS = [int(port) for port in sys.argv[3:]]
print(ports.free_port())
"""


@pytest.fixture(autouse=True)
def _locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ports are new, and the tests return them at the end."""
    monkeypatch.setenv("GANTRYMQ_INTEROP_CACHE", str(tmp_path))
    monkeypatch.setattr(ports, "_ours", set())
    ports._locks.cache_clear()
    yield
    os.close(ports._locks())
    ports._locks.cache_clear()


def test_each_port_is_given_once_and_so_are_those_around_it() -> None:
    given = [free_port(also_below=2) for _ in range(50)]
    around = {port + more for port in given for more in (-2, 0, 1)}
    assert len(around) == 150 and around <= set(ports.PORTS)


def test_a_process_gets_no_port_that_another_one_was_given() -> None:
    first, second = free_port(), free_port()
    assert "found no free port" in _ask(first, second)
    os.close(ports._locks())  # as at the end of this process
    ports._locks.cache_clear()
    assert _ask(first, second).strip() in {str(first), str(second)}


def _ask(*choice: int) -> str:
    """Return the output of another process that reserves one of the ports *choice*."""
    command = [sys.executable, "-c", ASK, str(HERE), str(HERE.parent / "support"), *map(str, choice)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr
