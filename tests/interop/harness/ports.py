"""Free loopback ports for servers that have to be told theirs."""

import socket
from contextlib import ExitStack


def free_port(*, also_below: int = 0) -> int:
    """Return a port that was free a moment ago, and with it the port *also_below* lower.

    A Java broker takes `listenPort - 2` as well, so it asks with `also_below=2`.
    """
    for _ in range(100):
        with ExitStack() as held:
            port = _bind(held, 0)
            try:
                if also_below:
                    _bind(held, port - also_below)
            except OSError:
                continue
            return port
    raise RuntimeError(f"found no free port with port - {also_below} free as well")


def _bind(held: ExitStack, port: int) -> int:
    listener = held.enter_context(socket.socket())
    listener.bind(("127.0.0.1", port))
    return int(listener.getsockname()[1])
