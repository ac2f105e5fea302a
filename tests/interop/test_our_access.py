"""Official clients that sign their requests, at our broker with an authorizer."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from checks import assert_same_messages, wait_for_bodies
from harness import Driver, GantryServer, Process, gantrymq

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]
SECRETS = {"writer": "writer-secret", "reader": "reader-secret", "operator": "operator-secret"}
TOPIC = "Guarded"
PLUGIN = f"""
import base64, hmac
from gantrymq.errors import NoPermission
from gantrymq.hooks import hookimpl
from gantrymq.model.access import Action, Decision, Principal

SECRETS = {SECRETS!r}
ALLOWED = {{"writer": {{Action.PUB}}, "reader": {{Action.SUB, Action.GET}}, "operator": set(Action)}}


class Three:
    def __init__(self, context):
        pass

    def authenticate(self, credentials, client):
        name = credentials.access_key
        if name not in SECRETS:
            raise NoPermission(f"there is no user {{name!r}}")
        digest = hmac.digest(SECRETS[name].encode(), credentials.signed_content(), "sha1")
        if not hmac.compare_digest(credentials.signature.encode(), base64.b64encode(digest)):
            raise NoPermission(f"the signature of {{name}} is wrong")
        return Principal(name)

    def authorize(self, principal, action, resource):
        return Decision(action in ALLOWED[principal.name])


@hookimpl
def gantry_register_authorizers(registry):
    registry.add("three", Three)
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryServer]:
    """Return our servers with a topic; the plugin is found by its entry point."""
    scratch = tmp_path_factory.mktemp("guarded")
    installed = scratch / "installed"
    info = installed / "three-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: three\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gantrymq]\nthree = three\n")
    (installed / "three.py").write_text(PLUGIN)
    environ = {"PYTHONPATH": str(installed)}
    with GantryServer.both(scratch, settings={"authorizer": "three"}, environ=environ) as server:
        account = {"GANTRYMQ_ACCESS_KEY": "operator", "GANTRYMQ_SECRET_KEY": SECRETS["operator"]}
        gantrymq(scratch, "topic", "create", TOPIC, "-n", server.namesrv, environ=account)
        yield server


def java(guarded: GantryServer, scratch: Path, user: str, secret: str = "") -> Driver:
    """Return a Java client with an account."""
    account = {"interop.accessKey": user, "interop.secretKey": secret or SECRETS[user]}
    (scratch / user).mkdir()
    return Driver("5.3.3", scratch / user, guarded.namesrv, properties=account)


def test_java_clients_do_what_their_accounts_may(guarded: GantryServer, tmp_path: Path, running: Running) -> None:
    writer, reader = (java(guarded, tmp_path, user) for user in ("writer", "reader"))
    consumer = running(reader.push(TOPIC, f"{TOPIC}-group"))
    sent = [*writer.produce(TOPIC, 40, "sync"), *writer.produce(TOPIC, 40, "batch", body_prefix="batch")]
    received = wait_for_bodies([consumer], sent)
    assert sorted(e["body"] for e in received) == sorted(e["body"] for e in sent)
    assert_same_messages(sent[:40], [e for e in reader.pull(TOPIC) if not e["body"].startswith("batch")])


@pytest.mark.parametrize(
    ("user", "secret"), [("reader", SECRETS["reader"]), ("writer", "wrong"), ("nobody", "wrong"), ("", "")]
)
def test_a_java_client_is_refused(guarded: GantryServer, tmp_path: Path, user: str, secret: str) -> None:
    """One that may only read, one with a wrong secret, an unknown one, and one without an account."""
    client = java(guarded, tmp_path, user, secret) if user else Driver("5.3.3", tmp_path, guarded.namesrv)
    with pytest.raises(RuntimeError, match='"code":16'):
        client.produce(TOPIC, 1)
