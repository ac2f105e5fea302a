"""``gantrymq access check`` at servers without access control."""

import json
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from gantrymq.cli import main

pytestmark = pytest.mark.skipif(
    find_spec("gantrymq_storage_memory") is None, reason="needs gantrymq-storage-memory, the store of these brokers"
)


def check(address, code):
    done = CliRunner().invoke(main, ["access", "check", address, "--output", "json"])
    assert done.exit_code == code, done.output
    return {
        each["what"]: each["answer"] for each in json.loads(done.stdout.splitlines()[0])["findings"]
    }, done.stdout.splitlines()[1]


def listed(broker, what):
    done = CliRunner().invoke(main, [what, "list", "--all", "-n", broker.namesrv, "--output", "json"])
    return json.loads(done.stdout)


def test_an_open_broker(gantrymq_broker):
    before = listed(gantrymq_broker, "topic"), listed(gantrymq_broker, "group")
    found, said = check(gantrymq_broker.broker_address, 1)
    assert found["send messages"] == found["receive messages"] == found["change settings"] == "open"
    assert "is open without an account: send messages, receive messages" in said
    assert (listed(gantrymq_broker, "topic"), listed(gantrymq_broker, "group")) == before


def test_an_open_name_server(gantrymq_broker):
    found, said = check(gantrymq_broker.namesrv, 1)
    assert found["read routes"] == found["register and unregister brokers"] == "open"
    assert "read routes" not in said


def test_a_server_that_is_not_there():
    done = CliRunner().invoke(main, ["access", "check", "127.0.0.1:1"])
    assert (done.exit_code, "127.0.0.1:1" in done.stderr) == (1, True)
