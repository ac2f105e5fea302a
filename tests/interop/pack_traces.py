"""Make tests/core/client/data/java_traces.json: `python tests/interop/pack_traces.py`; needs Java and Maven.

    {"bodies": [the text of each message of the trace topic], "keys": [its property KEYS, sorted]}

The records are written by client 5.3.3 on our server: a producer and a consumer that exchange two messages, and
transactions that are committed, rolled back, and checked.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parent))

from harness import Driver, GantryServer, create_topic
from polling import wait_until
from test_message_trace import TRACES_S, in_trace_topic

from gantrymq.client import decode_trace

VERSION = "5.3.3"
TARGET = Path(__file__).parents[1] / "core" / "client" / "data" / "java_traces.json"
SOON = {"transactionCheckInterval": "1000", "transactionTimeOut": "1000"}


def written(namesrv: str) -> int:
    """Return the number of trace records."""
    return sum(len(decode_trace(message.body)) for message in asyncio.run(in_trace_topic(namesrv)))


def pack(folder: Path) -> None:
    with GantryServer.both(folder / "server", settings=SOON) as server:
        driver = Driver(VERSION, folder, server.namesrv)
        create_topic(server.namesrv, "Traced")
        create_topic(server.namesrv, "Decided")
        with driver.start("exchange", "--trace", topic="Traced", group="consumers", count=2) as clients:
            clients.wait_for(lambda p: len(p.of("received")) == 2, "2 messages")
            wait_until(lambda: written(server.namesrv) == 6, "traces of both", TRACES_S)
            clients.close_input()
            clients.finish()
        driver.run("transact", "--trace", topic="Decided", decide="commit,rollback,ask", group="deciding")
        found = asyncio.run(in_trace_topic(server.namesrv))
    messages = sorted((message.body.decode(), sorted((message.keys or "").split())) for message in found)
    packed = {"bodies": [body for body, _ in messages], "keys": [keys for _, keys in messages]}
    TARGET.write_text(json.dumps(packed, indent=1) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        pack(Path(scratch))
