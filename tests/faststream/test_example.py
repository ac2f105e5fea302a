"""The program of docs/client/faststream.md with the test broker and with a real broker."""

import os
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "client" / "stream_app.py"
END_S = 60.0


def test_in_memory(tmp_path):
    words = ["-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path}", "test_stream_app.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], capture_output=True, text=True, cwd=PROGRAM.parent, timeout=END_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_against_a_broker(servers):
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "NAMESRV_ADDR": servers.namesrv}
    with subprocess.Popen([sys.executable, PROGRAM], stdout=subprocess.PIPE, text=True, env=environ) as child:
        found = []
        while len(found) < 3:
            line = child.stdout.readline()
            assert line
            if line.startswith("order "):
                found.append(line)
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=END_S)
    assert child.returncode == 0
    assert sorted(found) == ["order 1: 119.00\n", "order 2: 238.00\n", "order 3: 357.00\n"]
