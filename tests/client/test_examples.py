"""The README's Python is what stands in examples/, and that runs as it is."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
END_S = 60.0


def example(name, namesrv):
    """Start a program of examples/ as a reader of the README would."""
    return subprocess.Popen(
        [sys.executable, ROOT / "examples" / f"{name}.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "NAMESRV_ADDR": namesrv},
        preexec_fn=heed_ctrl_c,
    )


def heed_ctrl_c():
    """As in a terminal: what a shell starts in the background ignores SIGINT, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_the_readme_shows_the_examples_as_they_are():
    shown = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert sorted(shown) == sorted(path.read_text() for path in EXAMPLES)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_readme_names_each_example(path):
    assert f"examples/{path.name}" in (ROOT / "README.md").read_text()


def test_examples_send_and_consume(servers):
    with example("send", servers.namesrv) as sending:
        said, errors = sending.communicate(timeout=END_S)
    assert (sending.returncode, errors) == (0, "")
    assert re.fullmatch(r"hello is stored: queue \d, offset 0\n1000 more are stored\n", said)

    with example("consume", servers.namesrv) as consuming:
        try:
            lines = [consuming.stdout.readline() for _ in range(1001)]
            consuming.send_signal(signal.SIGINT)
            rest, errors = consuming.communicate(timeout=END_S)
        finally:
            consuming.kill()
    assert (consuming.returncode, rest, errors) == (0, "", "")
    bodies = sorted(re.fullmatch(r"queue \d, offset \d+: (.*)\n", line)[1] for line in lines)
    assert bodies == sorted(["hello", *(f"number {n}" for n in range(1000))])
