"""One program of the client on plain asyncio, on uvloop, and without Unix-only modules, as on Windows."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio
import sys

MANNER, FOLDER = sys.argv[1:]


def without_unix():
    import os
    import types

    import ctypes, mmap, ssl, tempfile  # parts of the standard library that differ by system

    sys.platform = "win32"  # asyncio's own loop for Windows needs the system's library and stays out of this
    for name in ("fcntl", "resource", "pwd", "grp", "termios", "syslog"):
        sys.modules[name] = None
    sys.modules["msvcrt"] = types.ModuleType("msvcrt")
    for name in UNIX_CALLS:
        if hasattr(os, name):
            delattr(os, name)


UNIX_CALLS = (
    "fork getuid geteuid pread pwrite preadv pwritev posix_fallocate posix_fadvise sched_getaffinity statvfs fdatasync "
    "register_at_fork killpg uname"
).split()
if MANNER == "without Unix":
    without_unix()

from gantrymq.client import Client, Message


async def main():
    async with asyncio.timeout(60), Client() as client:
        producer = client.producer("P")
        for number in range(20):
            await producer.send(Message("Platforms", b"%d" % number))
        group = "of-" + MANNER.replace(" ", "-")
        for options in ({}, {"broadcasting": True, "offsets_folder": FOLDER}):
            seen = set()
            options = {"consume_from": "first", **options}
            async with client.consumer(group + str(len(options)), "Platforms", **options) as consumer:
                async for message in consumer:
                    seen.add(message.body)
                    if len(seen) == 20:
                        break
                await consumer.commit()
        assert {message.body async for message in client.reader("Platforms")} >= seen
    print(type(asyncio.get_running_loop()).__module__)


if MANNER == "uvloop":
    import uvloop

    uvloop.run(main())
else:
    asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("manner", "loop"),
    [("asyncio", "asyncio.unix_events"), ("uvloop", "uvloop"), ("without Unix", "asyncio.unix_events")],
)
def test_a_program_runs(servers, tmp_path, manner, loop):
    if manner == "uvloop":
        pytest.importorskip("uvloop")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NAMESRV_ADDR": servers.namesrv}
    words = [sys.executable, "-W", "error", "-c", PROGRAM, manner, tmp_path / "offsets"]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == loop
    assert list((tmp_path / "offsets").rglob("offsets.json"))
