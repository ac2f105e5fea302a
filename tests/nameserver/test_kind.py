"""The registered name server kind; its modules are imported when it is built."""

import subprocess
import sys

from gantrymq.config import Settings
from gantrymq.plugins import load_plugins
from gantrymq.world.real import real_world
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings


def test_the_plugin_offers_one_name_server():
    loaded = load_plugins(only_distribution="gantrymq-nameserver")
    (kind,) = loaded.name_servers.values()
    assert [setting.key for setting in kind.settings()] == [setting.key for setting in name_server_settings()]
    assert isinstance(kind.build(real_world(), Settings(kind.settings()), beside_broker=False), NameServer)


def test_a_broker_that_loads_the_plugin_imports_no_name_server():
    code = "import sys, gantrymq_nameserver.plugin; print(*sorted(m for m in sys.modules if 'nameserver' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["gantrymq_nameserver", "gantrymq_nameserver.plugin"]
