"""A server with the minimum work of a send: it reads the frame, writes body and header to a file, and answers.

It has one topic with one route, to itself; no checks, no queues, no index, no consumers, no flush. It is the baseline
with which `bench_send_java.py --bare` shows the cost of a broker's features, and of the client.
It prints its address when it listens, and exits at the end of its standard input.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import orjson
from load_client import new_loop

LOG_BYTES = 1024**3
ANSWER = (
    '{"code":0,"extFields":{"queueId":"%s","transactionId":"","msgId":"7F00000100002A9F%016X","MSG_REGION":'
    '"DefaultRegion","TRACE_ON":"true","queueOffset":"%d"},"flag":1,"language":"JAVA","opaque":%d,'
    '"serializeTypeCurrentRPC":"JSON","version":479}'
)


class Bare(asyncio.Protocol):
    """One connection."""

    position = 0  # in the file, of all connections

    def __init__(self, log: int, address: str, topic: str) -> None:
        self._log, self._held = log, b""
        queues = {"brokerName": "bare", "perm": 6, "readQueueNums": 8, "writeQueueNums": 8, "topicSysFlag": 0}
        brokers = {"brokerName": "bare", "cluster": "bare", "brokerAddrs": {"0": address}}
        self._route = orjson.dumps({"queueDatas": [queues], "brokerDatas": [brokers], "filterServerTable": {}})
        self._topic = topic

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Serve the complete frames."""
        data = self._held + data
        at, out, written = 0, [], []
        cls = type(self)
        while len(data) - at >= 8:
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if end > len(data):
                break
            body_at = at + 8 + int.from_bytes(data[at + 5 : at + 8], "big")
            header = orjson.loads(data[at + 8 : body_at])
            if header["code"] == 310:
                written.append(data[at:end])
                queue = header["extFields"]["e"]
                text = ANSWER % (queue, cls.position + at, cls.position, header["opaque"])
                out.append(_frame(text.encode()))
            else:
                out.append(self._other(header))
            at = end
        self._held = data[at:]
        if written:
            record = b"".join(written)
            os.pwrite(self._log, record, cls.position % (LOG_BYTES - len(record)))
            cls.position += len(record)
        if out:
            self._transport.write(b"".join(out))

    def _other(self, header: dict) -> bytes:
        known = header["code"] == 105 and header["extFields"]["topic"] == self._topic
        answer = {"code": 17 if header["code"] == 105 and not known else 0, "flag": 1, "language": "JAVA"}
        more = {"opaque": header["opaque"], "serializeTypeCurrentRPC": "JSON", "version": 479}
        return _frame(orjson.dumps({**answer, **more}), self._route if known else b"")


def _frame(header: bytes, body: bytes = b"") -> bytes:
    return b"".join(((4 + len(header) + len(body)).to_bytes(4, "big"), len(header).to_bytes(4, "big"), header, body))


async def main(folder: Path, topic: str) -> None:
    """Serve until standard input ends."""
    log = os.open(folder / "bare.log", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(log, 0, LOG_BYTES)
    loop = asyncio.get_running_loop()
    address = ""
    server = await loop.create_server(lambda: Bare(log, address, topic), "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    print(address, flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(Path(sys.argv[1]), sys.argv[2]))
