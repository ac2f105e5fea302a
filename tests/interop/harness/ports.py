"""Free loopback ports for servers that have to be told theirs.

A server binds its port seconds after it was told, and may be killed and started again at it. Meanwhile neither another
run of tests nor an outgoing connection may take it: ports come from below those that systems give to connections, and
each stays locked, as one byte of a file in the cache, until the process that asked for it ends.
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
    """Return a port that is free and nobody else will be given, and with it the port *also_below* lower.

    A broker takes `listenPort - 2` as well, so it is asked for with `also_below=2`.
    """
    choice = PORTS[also_below:]
    for port in random.sample(choice, min(len(choice), 200)):
        if all(_take(each) for each in {port, port - also_below}):
            return port
    raise RuntimeError(f"found no free port with port - {also_below} free as well")


def _take(port: int) -> bool:
    """Whether *port* is free, and this process's from now on."""
    with suppress(OSError), socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        if port not in _ours:
            fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            _ours.add(port)
            return True
    return False


@cache
def _locks() -> int:
    """The file whose bytes are locked; open as long as the process lives, since closing it would give them back."""
    return os.open(tools.cache() / "ports.lock", os.O_RDWR | os.O_CREAT)
