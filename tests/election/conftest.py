"""Fixtures of the election tests: recordings of Java's brokers and controllers."""

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

# Makes the modules of this folder, and `harness` of the interop tests, importable in every import mode of pytest.
for folder in (Path(__file__).parent, Path(__file__).parent.with_name("interop")):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import pack_golden  # noqa: E402 (it is found only now)


@pytest.fixture(scope="session")
def java():
    """What Java's brokers and controllers 5.3.3 sent and wrote."""
    return pack_golden.load()


@pytest.fixture
def running():
    """A function that enters a context manager, which the end of the test leaves."""
    with ExitStack() as stack:
        yield stack.enter_context
