"""The cluster of a description for `gantrymq cluster plan`, whose machines are loopback addresses, as processes."""

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path

from gantrymq_admin.planning.description import parse
from gantrymq_admin.planning.placing import name_server_list, place

READY_S = 30.0
FOLLOWS = b"the master's log up to"  # what a slave logs when it has compared its log and follows


class PlannedServer:
    """One server of the plan: its process, which may be killed and started again."""

    def __init__(self, planned, folder):
        machine = folder / planned.machine
        machine.mkdir(parents=True, exist_ok=True)
        self.kind, self.name, self.broker = planned.kind, f"{planned.machine}/{planned.name}", planned.broker
        self.address = planned.address
        self.store = machine / planned.name
        self.log = machine / f"{planned.name}.log"
        self._file = machine / planned.file
        self._file.write_text(planned.text("the test").replace("=/data/", f"={machine}/"))
        self._command = [shutil.which("gantrymq", path=Path(sys.executable).parent), planned.command.split()[1]]
        self._process = None

    async def start(self, **settings):
        """Start it, and wait until it is ready; *settings* override the file."""
        pairs = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, "-c", self._file, *pairs, "--output", "json", stdout=asyncio.subprocess.PIPE, stderr=log
            )
        line = await asyncio.wait_for(self._process.stdout.readline(), READY_S)
        assert line, f"{self.name} did not start: {self.log.read_text()[-2000:]}"
        return json.loads(line)

    async def end(self, how):
        """End it by the signal *how*, and return its exit code."""
        self._process.send_signal(how)
        return await asyncio.wait_for(self._process.wait(), READY_S)

    @property
    def runs(self):
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    def times_followed(self):
        """How often a slave has begun to follow its master."""
        return self.log.read_bytes().count(FOLLOWS)

    def copied_log(self):
        """The bytes of its log, without the unused end."""
        files = sorted(path for path in (self.store / "commitlog").iterdir() if path.name.isdigit())
        return b"".join(path.read_bytes() for path in files).rstrip(b"\0")


class PlannedCluster:
    """All servers of a description."""

    def __init__(self, text, folder):
        pid = os.getpid()
        network = f"127.{64 + (pid >> 8) % 64}.{pid % 256}"  # addresses of this process, so the default ports are free
        description = parse(text.replace("NETWORK", network), "the test")
        self.namesrv = name_server_list(description)
        self.servers = [PlannedServer(planned, folder) for planned in place(description)]

    async def __aenter__(self):
        for server in self.servers:
            await server.start()
        return self

    async def __aexit__(self, *problem):
        for server in self.servers:
            if server.runs:
                await server.end(signal.SIGKILL)

    def of_kind(self, kind):
        """The servers of a kind, in the order of the plan."""
        return [server for server in self.servers if server.kind == kind]
