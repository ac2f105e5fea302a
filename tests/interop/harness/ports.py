"""Free loopback ports for servers that need a fixed port.

A server binds its port seconds after its start, and may be killed and restarted. In the meantime neither another
test run nor an outgoing connection may take it: ports are below the ephemeral range of operating systems, and
each is locked, as one byte of a file in the cache, until the process that reserved it ends.
"""

import fcntl
import os
import random
import socket
from contextlib import suppress
from functools import cache

from harness import tools

PORTS = range(20_000, 32_000)
_ours: set[int] = set()  # a process's locks do not keep itself out


def free_port(*, also_below: int = 0) -> int:
    """Reserve a free port; for a broker, the port *also_below* lower and the next higher one as well. Return it.

    A Java broker also uses `listenPort - 2`, and ours `listenPort + 1`, so their port is reserved with `also_below=2`.
    """
    choice = PORTS[also_below:-1] if also_below else PORTS
    for port in random.sample(choice, min(len(choice), 200)):
        if all(_take(each) for each in ((port, port - also_below, port + 1) if also_below else (port,))):
            return port
    raise RuntimeError(f"found no free port with port - {also_below} and port + 1 free as well")


def _take(port: int) -> bool:
    """Try to reserve *port* for this process. Return False if it is in use."""
    with suppress(OSError), socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        if port not in _ours:
            fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            _ours.add(port)
            return True
    return False


@cache
def _locks() -> int:
    """Return the descriptor of the lock file, open until the process ends, since closing it releases the locks."""
    return os.open(tools.cache() / "ports.lock", os.O_RDWR | os.O_CREAT)
