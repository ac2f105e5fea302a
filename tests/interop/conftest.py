"""Fixtures of the interop tests. See README.md beside this file."""

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

# Makes `import harness` work whatever import mode pytest runs in.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

pytest.register_assert_rewrite("checks")

from harness import GantryServer, Process  # noqa: E402 (it is found only now)

Running = Callable[[Process], Process]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryServer]:
    """Our name server and broker in one process, shared by the tests of a module."""
    with GantryServer.both(tmp_path_factory.mktemp("ours")) as server:
        yield server


@pytest.fixture
def topic() -> str:
    """A topic name that no other test uses."""
    return f"Interop{next(_numbers)}"


@pytest.fixture
def running() -> Iterator[Running]:
    """Hand a process over, to be stopped at the end of the test, the last started first."""
    with ExitStack() as stack:
        yield stack.enter_context
