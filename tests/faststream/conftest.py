"""FastStream and our broker for it; a server in a process of its own, where there are the parts of one."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

CLIENT_RIG = Path(__file__).resolve().parents[1] / "client"
if str(CLIENT_RIG) not in sys.path:
    sys.path.insert(0, str(CLIENT_RIG))


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
