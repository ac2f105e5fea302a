"""``gantrymq group create -a`` against a name server and a broker of this process."""

from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from gantrymq.cli import main

pytestmark = pytest.mark.skipif(find_spec("gantrymq_storage_memory") is None, reason="needs gantrymq-storage-memory")


def test_attributes_of_a_group_are_set_kept_and_taken_away(gantrymq_broker_factory):
    server = gantrymq_broker_factory({"store": "memory"})

    def create(*words, code=0):
        done = CliRunner().invoke(main, ["group", "create", "-g", "agents", *words, "-n", server.namesrv])
        assert done.exit_code == code, (done.output, done.stderr)
        return done.output + done.stderr

    def attributes():
        return server.cluster.server.tables.groups.get("agents").attributes

    create("-a", "+lite.bind.topic=Sessions", "-a", "+lite.sub.model=Exclusive")
    create("--orderly", "-a", "-lite.sub.model")
    assert attributes() == {"lite.bind.topic": "Sessions"}
    assert "is not one of Shared, Exclusive" in create("-a", "+lite.sub.model=Both", code=1)
    assert "is neither +NAME=VALUE nor -NAME" in create("-a", "lite.sub.model=Shared", code=2)
    assert attributes() == {"lite.bind.topic": "Sessions"}
