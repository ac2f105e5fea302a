"""The client for threads if gevent or eventlet has patched them: an error at once that names the alternative."""

import os
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from gantrymq.client import ClientError
from gantrymq.client.sync import Client

NOBODY = "127.0.0.1:1"
DEADLINE_S = 60
SAID = "{0} has replaced threads or selectors in this process, and this client needs real ones: run it in workers "
WAY = "that are threads or processes (gunicorn: --worker-class gthread; Celery: --pool threads or prefork)"

PROGRAM = """
import sys
{0}
from gantrymq.client.sync import Client
client = Client(sys.argv[1])
try:
    client.start()
except Exception as problem:
    print(type(problem).__name__, problem)
else:
    print("started", client.name_servers)
    client.close()
"""


def patched(library, *modules):
    """A stand-in for the library's module that reports *modules* as patched."""
    if library == "gevent":
        return "gevent.monkey", SimpleNamespace(is_module_patched=lambda name: name in modules)
    return "eventlet.patcher", SimpleNamespace(is_monkey_patched=lambda name: name in modules)


@pytest.mark.parametrize(("library", "module"), [("gevent", "threading"), ("gevent", "select"), ("eventlet", "thread")])
def test_a_client_in_a_patched_process_says_what_to_do(library, module, monkeypatch):
    monkeypatch.setitem(sys.modules, *patched(library, module))
    client = Client(NOBODY)
    with pytest.raises(ClientError) as refused:
        client.start()
    assert str(refused.value).startswith(SAID.format(library) + WAY)
    assert not client.is_started


def test_a_process_that_is_patched_later_says_so_instead_of_waiting_for_ever(monkeypatch):
    with Client(NOBODY) as client:
        with monkeypatch.context() as later:
            later.setitem(sys.modules, *patched("gevent", "threading"))
            with pytest.raises(ClientError, match="gevent has replaced threads or selectors"):
                client.producer("shop")
        assert client.producer("shop").is_started


@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_what_the_client_does_not_need_may_be_patched(library, monkeypatch):
    monkeypatch.setitem(sys.modules, *patched(library, "socket", "time"))
    with Client(NOBODY) as client:
        assert client.is_started


@pytest.mark.parametrize(
    ("library", "patch", "works"),
    [
        ("gevent", "from gevent import monkey; monkey.patch_all()", False),
        ("gevent", "from gevent import monkey; monkey.patch_all(thread=False)", False),
        ("gevent", "from gevent import monkey; monkey.patch_all(socket=False, select=False)", False),
        ("gevent", "from gevent import monkey; monkey.patch_all(thread=False, select=False)", True),
        ("gevent", "import gevent", True),
        ("eventlet", "import eventlet; eventlet.monkey_patch()", False),
        ("eventlet", "import eventlet; eventlet.monkey_patch(thread=False)", True),
        ("eventlet", "import eventlet", True),
    ],
)
def test_the_real_libraries(library, patch, works):
    if find_spec(library) is None:
        pytest.skip(f"needs {library}: pip install {library}")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM.format(patch), NOBODY],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env={name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ},
        check=False,
    )
    if works:
        assert done.stdout == f"started ('{NOBODY}',)\n", done.stderr
    else:
        assert done.stdout.startswith(f"ClientError {SAID.format(library)}{WAY}"), done.stderr
