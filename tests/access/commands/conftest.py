"""Commands of users, at brokers of this process with access control."""

import json

import attrs
import pytest
from click.testing import CliRunner

from gantrymq.cli import main

NEEDED = ("gantrymq_admin", "gantrymq_storage_memory", "gantrymq_filter_tag")


@attrs.frozen
class Done:
    """The result of a command."""

    code: int
    documents: list
    error: str

    @property
    def results(self):
        return [each["result"] for each in self.documents[0]["brokers"]]


class Operator:
    """Runs commands as one user of a broker."""

    def __init__(self, server, user):
        self.server, self.user = server, user

    def text(self, *words, code=0, **given):
        account = self.server.credentials(self.user)
        environ = {"GANTRYMQ_ACCESS_KEY": account.access_key, "GANTRYMQ_SECRET_KEY": account.secret_key, **given}
        done = CliRunner().invoke(main, [*words, "-n", self.server.namesrv], env=environ)
        assert done.exit_code == code, done.output
        return done

    def __call__(self, *words, code=0, **given):
        done = self.text(*words, "--output", "json", code=code, **given)
        documents = [json.loads(line) for line in done.stdout.splitlines()]
        return Done(done.exit_code, documents, documents.pop()["message"] if code else "")


@pytest.fixture
def operator(gantrymq_broker_factory):
    """``operator(user, users=...)``: commands of a user at a new broker; the user ``root`` is Super."""
    for name in NEEDED:
        pytest.importorskip(name)

    def start(user="root", users=None, **settings):
        server = gantrymq_broker_factory({"store": "memory", **settings}, users={"root": "Super", **(users or {})})
        return Operator(server, user)

    return start
