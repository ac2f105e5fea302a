"""The client for threads has the methods of the async one, with the same arguments."""

import inspect
import pydoc
import subprocess
import sys

import pytest

from gantrymq.client import (
    Admin,
    Client,
    Consumer,
    LitePullConsumer,
    PopConsumer,
    Producer,
    Reader,
    TransactionProducer,
    sync,
)
from gantrymq.client.connection.base import BaseClient

OWN = {"closed_by", "chunks", "join"}  # between the parts of the client itself
LEFT_OUT = {
    Producer: {"send_async"},  # Java's callbacks; `send_soon` gives a future
    TransactionProducer: {"send_async"},
}
MAKES = {
    "producer",
    "transaction_producer",
    "consumer",
    "reader",
    "admin",
    "start",
    "close",
    "wait_ready",
    "is_started",
}
PAIRS = [
    (Client, sync.Client),
    (Producer, sync.Producer),
    (TransactionProducer, sync.TransactionProducer),
    (Consumer, sync.Consumer),
    (LitePullConsumer, sync.LitePullConsumer),
    (PopConsumer, sync.PopConsumer),
    (Reader, sync.Reader),
    (Admin, sync.Admin),
]


def public(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize(("there", "here"), PAIRS, ids=[there.__name__ for there, _ in PAIRS])
def test_every_call_has_its_twin_with_the_same_arguments(there, here):
    wanted = public(there) - OWN - LEFT_OUT.get(there, set())
    if there is Client:
        wanted &= MAKES
    assert wanted <= public(here)
    for name in sorted(wanted):
        one, other = inspect.getattr_static(there, name), inspect.getattr_static(here, name)
        assert isinstance(one, property) == isinstance(other, property), name
        if not isinstance(one, property) and name != "run":
            assert arguments(one) == arguments(other), name
        assert not inspect.iscoroutinefunction(other), name
        if (maker := made_by(other)) is not None:
            assert (maker == "from_async") == inspect.iscoroutinefunction(one), name
    assert issubclass(there, BaseClient)


def made_by(member):
    """Return the function that made a method from an async class's, None for one written by hand."""
    name = member.__code__.co_qualname.split(".")[0] if inspect.isfunction(member) else ""
    return name if name in ("from_async", "from_sync", "from_iterator", "from_factory") else None


def arguments(function):
    function = inspect.unwrap(function)
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


def test_run_takes_what_it_takes_there():
    assert [each[0] for each in arguments(Consumer.run)] == [each[0] for each in arguments(sync.Consumer.run)]


def test_a_method_has_the_signature_and_the_documentation_of_the_async_one():
    assert inspect.signature(sync.Reader.pull) == inspect.signature(Reader.pull)
    assert inspect.getdoc(sync.Admin.min_offset) == inspect.getdoc(Admin.min_offset)


@pytest.mark.parametrize("name", ["producer", "consumer", "lite_pull", "pop_consumer", "reader", "set_name_servers"])
def test_a_method_of_the_client_has_the_signature_and_the_documentation_of_the_async_one(name):
    one, other = getattr(Client, name), getattr(sync.Client, name)
    assert inspect.signature(other) == inspect.signature(one)
    assert pydoc.plain(pydoc.render_doc(other)) == pydoc.plain(pydoc.render_doc(one))


def test_a_loop_over_one_queue_shows_what_it_returns():
    shown = inspect.signature(sync.Reader.read)
    assert shown.parameters == inspect.signature(Reader.read).parameters
    assert shown.return_annotation == "MessageStream[ReceivedMessage]"


def test_importing_the_other_client_does_not_load_this_one():
    look = "import sys, gantrymq.client.client; print([n for n in sys.modules if n.startswith('gantrymq.client.sync')])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"
