"""The systemd units of a cluster start what `gantrymq cluster plan` writes."""

from pathlib import Path

import pytest

from gantrymq_admin.planning.description import parse
from gantrymq_admin.planning.placing import place

SYSTEMD = Path(__file__).resolve().parents[2] / "packaging/systemd"
DESCRIPTION = """
slaves = 1
name_servers = 1
machines = { m1 = "192.0.2.11", m2 = "192.0.2.12" }
"""


def unit_of(server):
    """The text of the unit that starts a server, with the name of its instance filled in."""
    if server.broker:
        return (SYSTEMD / "gantrymq-broker@.service").read_text().replace("%i", server.name)
    return (SYSTEMD / "gantrymq-nameserver.service").read_text()


@pytest.mark.parametrize("server", place(parse(DESCRIPTION, "the test")), ids=lambda server: server.name)
def test_a_unit_has_the_planned_command_and_may_write_the_planned_folder(server):
    unit = unit_of(server)
    assert f"\nExecStart=/opt/gantrymq/bin/{server.command}\n" in unit
    assert "\nStateDirectory=gantrymq\nStateDirectoryMode=0750\n" in unit
    folders = [value for key, value in server.values.items() if key in ("storePathRootDir", "kvConfigPath")]
    assert [folder.startswith("/var/lib/gantrymq/") for folder in folders] == [True]
