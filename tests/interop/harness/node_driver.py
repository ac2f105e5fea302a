"""Runs `node/driver.js` on `ali-ons`."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from harness.peers import used
from harness.process import Event, Process
from harness.tools import HERE, cache, filling, require

SOURCE = HERE / "node"
INSTALL_S = 300.0
RUN_S = 60.0


class NodeDriver:
    """Starts driver processes against one name server.

    Args:
        scratch: each process gets a home of its own below it.
        namesrv: HOST:PORT.
    """

    def __init__(self, scratch: Path, namesrv: str) -> None:
        used(f"ali-ons {_version()}")
        self._folder = _install()
        self._scratch = scratch
        self._namesrv = namesrv
        self._started = 0

    def start(self, command: str, **options: str | int) -> Process:
        """Start `produce` or `push` and return at once."""
        self._started += 1
        name = f"node-{command}-{self._started}"
        home = self._scratch / name
        home.mkdir(parents=True, exist_ok=True)
        arguments = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
        node = ["node", str(self._folder / "driver.js"), command, "--namesrv", self._namesrv, *arguments]
        return Process(name, node, home, env={**os.environ, "HOME": str(home)})

    def produce(self, topic: str, count: int, **options: str | int) -> list[Event]:
        """Send *count* messages one after the other and return the "sent" events."""
        events = self.start("produce", topic=topic, count=count, **options).finish(RUN_S)
        sent = [e for e in events if e["event"] == "sent"]
        assert len(sent) == count, f"sent only {len(sent)} of {count}"
        return sent

    def push(self, topic: str, group: str, **options: str | int) -> Process:
        """Start a push consumer that stays until it is stopped, and return when it is connected."""
        process = self.start("push", topic=topic, group=group, **options)
        process.wait_for(lambda p: p.of("started"), "started")
        return process


def _version() -> str:
    """The version that is asked for, such as 3.12."""
    asked = json.loads((SOURCE / "package.json").read_text())["dependencies"]["ali-ons"]
    return ".".join(str(asked).lstrip("~^").split(".")[:2])


def _install() -> Path:
    """Copy the driver into the cache, with the packages that it needs beside it."""
    require("node", "npm")
    files = [SOURCE / "package.json", SOURCE / "driver.js"]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    target = cache() / f"node-{digest}"
    with filling(target) as folder:
        if folder is not None:
            for file in files:
                shutil.copy(file, folder)
            command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"npm ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
    return target
