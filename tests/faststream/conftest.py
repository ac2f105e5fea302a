"""FastStream with our broker; a server in a separate process if its plugins are installed."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
IN_MEMORY = ("test_in_memory.py", "test_both_brokers.py")
CLIENT_RIG = HERE.parent / "client"
if str(CLIENT_RIG) not in sys.path:
    sys.path.insert(0, str(CLIENT_RIG))


def pytest_collection_modifyitems(items):
    """Skip tests that start subscribers if a plugin is missing that those need, with the test broker too."""
    if find_spec("gantrymq_filter_tag"):
        return
    for item in items:
        if item.path.parent == HERE and (item.path.name in IN_MEMORY or item.name == "test_in_memory"):
            item.add_marker(pytest.mark.skip(reason="subscribers need gantrymq-filter-tag"))


@pytest.fixture(scope="session")
def parts_of_a_server():
    """Skip where a broker cannot be started."""
    if not (find_spec("gantrymq_storage_mmap") and find_spec("gantrymq_filter_tag")):
        pytest.skip("a broker needs gantrymq-storage-mmap and gantrymq-filter-tag")


@pytest.fixture
def servers(parts_of_a_server, tmp_path):
    """A name server and a broker, each a process."""
    from client_rig import Servers

    with Servers(tmp_path) as started:
        yield started


@pytest.fixture(scope="module")
def namesrv(parts_of_a_server, tmp_path_factory):
    """The name server of one broker for all tests of a module, which have topics of their own."""
    from client_rig import Servers

    with Servers(tmp_path_factory.mktemp("servers")) as started:
        yield started.namesrv
