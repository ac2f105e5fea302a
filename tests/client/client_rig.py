"""A name server and a broker, each in a separate process, and a monitor of the client's event loop."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

STOP_S = 60.0
SETTINGS = {
    "mappedFileSizeCommitLog": 64 * 1024 * 1024,
    "metricsExporterType": "DISABLE",
    "messageDelayLevel": "1s 1s 1s 1s 1s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s",  # a refused message is back in 1 s
}


class Servers:
    """Servers on free loopback ports; the broker may be killed and started again on its port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[subprocess.Popen[bytes]] = []
        self.namesrv = self._start("nameserver", "--port", "0")["namesrv"]
        self._port = 0
        self._broker: subprocess.Popen[bytes] | None = None
        self.start_broker()

    def start_broker(self) -> None:
        """Start it on its earlier port, if any; return when it is ready."""
        sets = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
        sets += ["--set", "brokerIP1=127.0.0.1"]
        words = ["--store", str(self._folder / "store"), "--namesrv", self.namesrv, "--port", str(self._port)]
        self.broker = self._start("broker", *words, *sets)["broker"]
        self._port = int(self.broker.rpartition(":")[2])
        self._broker = self._children[-1]

    def kill_broker(self) -> None:
        """Stop it like kill -9; return when it has exited."""
        assert self._broker is not None
        self._broker.kill()
        self._broker.wait(STOP_S)

    def stop_broker(self) -> None:
        """Stop it with SIGTERM; return when it has exited."""
        assert self._broker is not None
        self._broker.terminate()
        self._broker.wait(STOP_S)

    def __enter__(self) -> "Servers":
        return self

    def __exit__(self, *_: object) -> None:
        for child in reversed(self._children):
            child.kill()
            child.wait(STOP_S)
            assert child.stdout is not None
            child.stdout.close()

    def _start(self, *words: str) -> dict[str, str]:
        log = self._folder / f"{words[0]}.err"
        with log.open("ab") as errors:
            child = subprocess.Popen(
                [Path(sys.executable).parent / "gantrymq", *words, "--output", "json", "--log-level", "warning"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={"PATH": os.environ["PATH"], "HOME": str(self._folder)},
            )
        self._children.append(child)
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line, log.read_text()[-3000:]
        return dict(json.loads(line))


class Beside:
    """Another task of the same loop: how often it had its turn."""

    def __init__(self) -> None:
        self.turns = 0
        self.longest_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Beside":
        self._task = asyncio.ensure_future(self._run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()

    async def _run(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.001)  # real time: turns of the event loop are measured
            self.turns += 1
            self.longest_s = max(self.longest_s, time.monotonic() - last)
            last = time.monotonic()
