"""The systemd unit of the console agrees with the command, and systemd finds nothing wrong with it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gantrymq_console.commands.console import console

UNIT = Path(__file__).resolve().parents[2] / "packaging/systemd/gantrymq-console.service"
MOST_EXPOSED = 2.0  # of systemd's scale to 10


@pytest.fixture
def analyze(tmp_path):
    program = shutil.which("systemd-analyze") or pytest.skip("systemd-analyze is not here")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/gantrymq/bin/gantrymq", shutil.which("true")))

    def run(*words):
        return subprocess.run([program, *words, unit], capture_output=True, text=True, check=False)

    return run


def test_the_unit_uses_options_of_the_command():
    text = UNIT.read_text()
    known = {option for each in console.params for option in each.opts}
    assert {*re.findall(r"(?<!-)--[a-z-]+", text)} - {"--role"} <= known
    assert "StateDirectory=gantrymq-console\n" in text and "--state /var/lib/gantrymq-console\n" in text
    assert "--no-login" not in text


def test_systemd_finds_nothing_wrong(analyze):
    found = analyze("verify", "--man=no")
    assert (found.returncode, [line for line in found.stderr.splitlines() if UNIT.name in line]) == (0, [])


def test_the_unit_is_hardened(analyze):
    found = analyze("security", "--offline=true")
    level = re.search(r"exposure level for .*?: ([\d.]+)", found.stdout)
    if level is None:
        pytest.skip(f"this systemd-analyze knows no --offline: {found.stderr[:80]}")
    assert float(level[1]) < MOST_EXPOSED
