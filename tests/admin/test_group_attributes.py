"""``gantrymq group create -a`` against a name server and a broker of this process."""

import json
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


def test_what_is_not_given_stays_as_it_is(gantrymq_broker_factory):
    server = gantrymq_broker_factory({"store": "memory"})
    shown = ("consume_enable", "consume_broadcast_enable", "consume_message_orderly", "retry_queues", "retry_max_times")

    def create(*words):
        done = CliRunner().invoke(
            main, ["group", "create", "-g", "billing", *words, "-n", server.namesrv, "--output", "json"]
        )
        assert done.exit_code == 0, (done.output, done.stderr)
        config, told = server.cluster.server.tables.groups.get("billing"), json.loads(done.stdout)
        assert [told[name] for name in shown] == [getattr(config, name) for name in shown]
        return tuple(getattr(config, name) for name in shown)

    assert create() == (True, True, False, 1, 16)
    assert create("--no-consume", "--no-broadcast", "--orderly", "-q", "2", "-r", "5") == (False, False, True, 2, 5)
    assert create("-a", "+lite.bind.topic=Sessions") == (False, False, True, 2, 5)
    assert create("--consume") == (True, False, True, 2, 5)
    assert create("--broadcast") == (True, True, True, 2, 5)
    assert create("--no-orderly", "-r", "3") == (True, True, False, 2, 3)
    assert server.cluster.server.tables.groups.get("billing").attributes == {"lite.bind.topic": "Sessions"}
