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
from harness.peers import recorded  # noqa: E402

Running = Callable[[Process], Process]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryServer]:
    """Our name server and broker in one process, shared by the tests of a module."""
    with GantryServer.both(tmp_path_factory.mktemp("ours")) as server:
        yield server


@pytest.fixture(autouse=True)
def _peers(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """The report of the run says which peers each test had to do with; compatibility.py makes a table of it."""
    with recorded() as names:
        yield
    for name in sorted(names):
        record_property("peer", name)


@pytest.fixture
def topic() -> str:
    """A topic name that no other test uses."""
    return f"Interop{next(_numbers)}"


@pytest.fixture
def running() -> Iterator[Running]:
    """Hand a process over, to be stopped at the end of the test, the last started first."""
    with ExitStack() as stack:
        yield stack.enter_context
