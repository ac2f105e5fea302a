"""One producer for each process of a web server or task queue, made by its first use."""

import atexit
import os
import threading

from gantrymq.client.sync import Client, Message, Producer

_lock = threading.Lock()
_producers: dict[int, Producer] = {}


def producer() -> Producer:
    """Return the producer of this process. A client does not survive a fork, so the forked process makes its own."""
    with _lock:
        if os.getpid() not in _producers:
            client = Client()
            client.start()
            atexit.register(client.close)
            _producers[os.getpid()] = client.producer("web_workers")
        return _producers[os.getpid()]


if __name__ == "__main__":  # as a view or a task does
    print(producer().send(Message("Signups", b"ann")).status.name)
