"""Modules that a start with default settings and frequent commands must not import: each costs time at every start."""

import json
import os
import signal
import subprocess
import sys

import pytest
from polling import wait_until

PROGRAM = """
import atexit, os, signal, sys

def write(*_):
    with open(sys.argv[0] + ".part", "w") as file:
        file.write(" ".join(sys.modules))
    os.replace(sys.argv[0] + ".part", sys.argv[0])

atexit.register(write)
if hasattr(signal, "SIGUSR1"):
    signal.signal(signal.SIGUSR1, write)
sys.argv.pop(0)
from gantrymq.cli import main
main()
"""

MOST = {"start": 790, "--help": 300, "topic list": 440, "message send": 440}

OF_NOBODY = (  # of what neither a start nor a command needs
    "bitarray",
    "csv",
    "email",
    "importlib.metadata",
    "lark",
    "pickle",
    "pyarrow",
    "pybloom_live",
    "pyspark",
    "tempfile",
    "tomllib",
    "yaml",
    "zipfile",
)
OF_NO_START = (
    *OF_NOBODY,
    "cryptography",
    "difflib",
    "google",
    "gantrymq_access.authorizer",
    "gantrymq_access.records",
    "gantrymq_access.requests",
    "gantrymq_access_plain.accounts",
    "gantrymq_access_plain.authorizer",
    "gantrymq_access_plain.requests",
    "gantrymq_admin.commands",
    "gantrymq_allocate.catalog",
    "gantrymq_console.running",
    "gantrymq_diagnosis.requests",
    "gantrymq_filter_sql92.expression",
    "gantrymq_filter_sql92.grammar",
    "gantrymq_grpc.protocol",
    "gantrymq_spark.commands",
    "gantrymq_storage_faults.files",
    "gantrymq_storage_memory.store",
    "gantrymq_testing",
    "hpack",
    "jinja2",
    "rich",
    "uvicorn",
)
OF_NO_COMMAND = (*OF_NOBODY, "gantrymq.broker", "rich", "gantrymq.world.simulated", "gantrymq_testing")


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """The modules of a running ``gantrymq start``, and the address of its name server."""
    pytest.importorskip("gantrymq_nameserver")
    pytest.importorskip("gantrymq_storage_mmap")
    if not hasattr(signal, "SIGUSR1"):
        pytest.skip("needs SIGUSR1")
    folder = tmp_path_factory.mktemp("start")
    seen = folder / "modules"
    ports = ("--namesrv-port", "0", "--broker-port", "0")
    words = ("start", "--store", folder / "store", *ports, "--output", "json", "--log-level", "warning")
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, seen, *words],
        stdout=subprocess.PIPE,
        env={**os.environ, "HOME": str(folder)},
        text=True,
    )
    try:
        ready = json.loads(child.stdout.readline())
        child.send_signal(signal.SIGUSR1)
        wait_until(seen.exists, "list of modules")
        yield seen.read_text().split(), ready["namesrv"]
    finally:
        child.terminate()
        child.communicate(timeout=60)


def of_command(folder, *words):
    """Return the modules of a command at its end."""
    seen = folder / "modules"
    environ = {**os.environ, "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, seen, *words], env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return seen.read_text().split()


def check(command, modules, forbidden):
    found = [name for name in modules if any(name == each or name.startswith(f"{each}.") for each in forbidden)]
    assert not found, f"{command} imports {', '.join(found)}"
    assert len(modules) <= MOST[command]


def test_a_start_imports_only_what_default_settings_need(started):
    modules, _ = started
    check("start", modules, OF_NO_START)


def test_the_help_imports_nothing_of_a_plugin_but_its_entry_point(tmp_path):
    modules = of_command(tmp_path, "--help")
    check("--help", modules, (*OF_NO_COMMAND, "asyncio", "difflib", "gantrymq.client", "gantrymq.interfaces", "ssl"))
    of_plugins = {name for name in modules if name.startswith("gantrymq_") and "." in name}
    assert {name for name in of_plugins if not name.endswith((".plugin", "._compiled"))} == set()


def test_the_list_of_topics_imports_no_server(tmp_path, started):
    pytest.importorskip("gantrymq_admin")
    modules = of_command(tmp_path, "topic", "list", "-n", started[1])
    check("topic list", modules, OF_NO_COMMAND)


def test_a_send_imports_no_server(tmp_path, started):
    pytest.importorskip("gantrymq_admin")
    words = ("message", "send", "-t", "Imports", "--body", "x", "-n", started[1])
    of_queries = ("gantrymq.client.admin", "gantrymq_admin.commands.message_query", "gantrymq_admin.consumption")
    check("message send", of_command(tmp_path, *words), (*OF_NO_COMMAND, *of_queries))
