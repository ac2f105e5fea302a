"""The systemd unit of the console agrees with the command."""

import re
from pathlib import Path

from gantrymq_console.commands.console import console

UNIT = Path(__file__).resolve().parents[2] / "packaging/systemd/gantrymq-console.service"


def test_the_unit_uses_options_of_the_command():
    text = UNIT.read_text()
    known = {option for each in console.params for option in each.opts}
    assert {*re.findall(r"(?<!-)--[a-z-]+", text)} - {"--role"} <= known
    assert "StateDirectory=gantrymq-console\n" in text and "--state /var/lib/gantrymq-console\n" in text
    assert "--no-login" not in text
