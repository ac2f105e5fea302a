"""Users and policies with faults: in files and settings at the start, and in requests."""

import json

import pytest
from faulty_broker import start_broker

from gantrymq.client.calls.credentials import Credentials
from gantrymq.remoting.command import Command
from gantrymq.remoting.signatures import Signer

pytest.importorskip("gantrymq_access")

FIRST = json.dumps({"username": "admin", "password": "12345678"})
TOO_SHORT = "the password has 1 characters, it needs 6 to 1024 of them"
ON = ("--set", "authenticationEnabled=true", "--set", "authorizationEnabled=true")


@pytest.fixture
def users(tmp_path):
    """Write users.json of a store, and return its path."""

    def write(text, mode=0o600):
        path = tmp_path / "store" / "config" / "users.json"
        path.parent.mkdir(parents=True)
        path.write_bytes(text)
        path.chmod(mode)
        return path

    return write


def test_bi389_a_file_of_users_that_others_can_read(program, row, users):
    path = users(b'{"users":[]}', 0o644)
    row.check(*program.refusal("--store", path.parents[1], *ON), file=path, mode="0644")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"\0" * 512, "it holds nothing but zeros or blanks"),
        (b'{"users":[{"username":"a"}', "it is not JSON at line 1, column 27: Expecting ',' delimiter"),
        (b'{"users":[{"username":"a","username":"b"}]}', "an object has the member 'username' twice"),
        (b'{"users":[{"username":"a","password":"x"}]}', f"number 1 of users: user 'a': {TOO_SHORT}"),
    ],
)
def test_bi390_a_damaged_file_of_users(program, row, users, text, problem):
    path = users(text)
    row.check(*program.refusal("--store", path.parents[1], *ON), file=path, problem=problem)


def test_bi391_authorization_without_authentication(program, row):
    sentence, code = program.refusal("--set", "authorizationEnabled=true")
    row.check(sentence, code, where="--set authorizationEnabled")


def test_bi392_a_class_of_others(program, row):
    key, own = "authenticationProvider", "authentication.provider.DefaultAuthenticationProvider"
    sentence, code = program.refusal("--set", f"{key}=com.example.Mine")
    values = {"where": f"--set {key}", "key": key, "own": f"org.apache.rocketmq.auth.{own}"}
    row.check(sentence, code, **values, **{"class": "com.example.Mine"})


@pytest.fixture
def managed(tmp_path, logged):
    """A broker with a Super user, and ``ask(code, fields, body)`` of it; others need no account."""
    settings = {"plugins": "access,filter_tag,storage_mmap", "initAuthenticationUser": FIRST}
    settings |= {"authenticationEnabled": True, "authorizationEnabled": True, "listenerAccess": "default=optional"}
    running = start_broker(tmp_path / "store", **settings)

    def ask(code, fields, body=None):
        command = Command(code, ext=dict(fields), body=None if body is None else json.dumps(body).encode())
        Signer(Credentials("admin", "12345678")).sign(command)
        with running.peer() as peer:
            return peer.ask(code, command.ext, command.body)

    yield ask
    assert running.serves()
    running.close()


@pytest.mark.parametrize("length", [1, 5, 65_536])
def test_bi393_a_secret_of_another_length(managed, row, length):
    answer = managed(3001, {"username": "alice"}, {"password": "x" * length})
    row.check(answer.remark, answer.code, length=length)
    for name in ("", " ", "a\nb", "x" * 256):
        assert managed(3001, {"username": name}, {"password": "secret1"}).code == 29
    assert not managed(3004, {"username": "alice"}).payload


def test_bi394_an_entry_with_an_unknown_action(managed, row):
    entry = {"resource": "Topic:T", "actions": ["Pub", "Publish"], "decision": "Allow"}
    answer = managed(3006, {"subject": "User:admin"}, {"policies": [{"entries": [entry]}]})
    row.check(answer.remark, answer.code, resource="Topic:T", action="Publish")
    entry |= {"actions": ["Pub"], "sourceIps": ["10.0.0.0/33"]}
    answer = managed(3006, {"subject": "User:admin"}, {"policies": [{"entries": [entry]}]})
    assert (answer.code, answer.remark.startswith("The source ip is invalid: '10.0.0.0/33'")) == (16, True)
    assert not managed(3009, {"subject": "User:admin"}).payload


def test_bi395_the_last_super_user(managed, row):
    answer = managed(3003, {"username": "admin"})
    row.check(answer.remark, answer.code, name="admin")
