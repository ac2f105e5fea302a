"""The clients and servers of other projects that a test uses; `docs/start/compatibility.md` has a column for each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_servers: list[tuple[str, Callable[[], bool]]] = []
_used: set[str] = set()


def used(name: str) -> None:
    """Record that the running test uses the peer *name*, such as ``ali-ons 3.12``."""
    _used.add(name)


def serves(name: str, alive: Callable[[], bool]) -> None:
    """Record the start of a server of another project, for one or more tests; *alive* tells whether it still runs."""
    used(name)
    _servers.append((name, alive))


def shared(*alive: Callable[[], bool]) -> None:
    """Ignore these servers, which keep running during tests that do not use them; tests that do call `used`."""
    _servers[:] = [(name, check) for name, check in _servers if check not in alive]


@contextmanager
def recorded() -> Iterator[set[str]]:
    """Collect the peers used inside the context, and the servers that run when it is entered."""
    _used.clear()
    _used.update(name for name, alive in _servers if alive())
    yield _used
