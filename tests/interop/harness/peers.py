"""Which clients and servers of others a test has to do with; `docs/start/compatibility.md` has a column for each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_servers: list[tuple[str, Callable[[], bool]]] = []
_used: set[str] = set()


def used(name: str) -> None:
    """The test that runs uses the peer *name*, such as ``ali-ons 3.12``."""
    _used.add(name)


def serves(name: str, alive: Callable[[], bool]) -> None:
    """A server of others was started, for one test or for several; *alive* says whether it still runs."""
    used(name)
    _servers.append((name, alive))


def shared(*alive: Callable[[], bool]) -> None:
    """These servers run on for tests that have nothing to do with them; tests that do say so by `used`."""
    _servers[:] = [(name, check) for name, check in _servers if check not in alive]


@contextmanager
def recorded() -> Iterator[set[str]]:
    """Collect the peers that are used meanwhile, with the servers that run at the start."""
    _used.clear()
    _used.update(name for name, alive in _servers if alive())
    yield _used
