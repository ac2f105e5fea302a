"""A client reads the environment when it starts, not when the first client of the process did."""

import asyncio
import os
import subprocess
import sys

import pytest

from gantrymq.client import Client, OptionUnusable
from gantrymq.client.sync import Client as SyncClient

FIRST, SECOND = "127.0.0.1:1", "127.0.0.1:2"  # nothing listens there; a client starts nevertheless

FORKED = """
import asyncio, os, sys
from gantrymq.client import Client
async def client_id():
    async with Client("127.0.0.1:1", client_ip="127.0.0.1") as client:
        return client._started().client_id
asyncio.run(client_id())
for _ in range(2):
    if os.fork() == 0:
        print(os.getpid(), asyncio.run(client_id()), flush=True)
        os._exit(0)
    os.wait()
"""


def test_the_name_servers_are_those_of_the_moment(monkeypatch):
    async def started(namesrv=None):
        async with Client(namesrv, client_ip="127.0.0.1") as client:
            return client.name_servers

    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    assert asyncio.run(started()) == ("127.0.0.1:9876",)
    monkeypatch.setenv("NAMESRV_ADDR", FIRST)
    assert asyncio.run(started()) == (FIRST,)
    assert asyncio.run(started(SECOND)) == (SECOND,)
    monkeypatch.setenv("NAMESRV_ADDR", SECOND)
    assert asyncio.run(started()) == (SECOND,)


def test_those_of_a_client_for_threads_too(monkeypatch):
    found = []
    for address in (FIRST, SECOND):
        monkeypatch.setenv("NAMESRV_ADDR", address)
        with SyncClient(client_ip="127.0.0.1") as client:
            found.append(client.name_servers)
    assert found == [(FIRST,), (SECOND,)]


def test_a_client_that_starts_again_reads_it_again(monkeypatch):
    client = SyncClient(client_ip="127.0.0.1")
    found = []
    for address in (FIRST, SECOND):
        monkeypatch.setenv("NAMESRV_ADDR", address)
        with client:
            found.append(client.name_servers)
    assert found == [(FIRST,), (SECOND,)]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("GANTRYMQ_ACCESS_KEY", "user", "GANTRYMQ_SECRET_KEY"), ("tls.enable", "perhaps", "tls.enable")],
)
def test_accounts_and_tls_are_those_of_the_moment(monkeypatch, name, value, said):
    """Half of an account, and an invalid setting: a client that reads them does not start."""
    with SyncClient(FIRST, client_ip="127.0.0.1"):
        pass
    monkeypatch.setenv(name, value)
    with pytest.raises(OptionUnusable, match=said), SyncClient(FIRST, client_ip="127.0.0.1"):
        pass
    monkeypatch.delenv(name)
    with SyncClient(FIRST, client_ip="127.0.0.1"):
        pass


def test_clients_of_one_name_and_other_name_servers_share_nothing(simulate):
    async def work(world):
        options = {"world": world, "instance_name": "shop", "client_ip": "127.0.0.1"}
        async with Client(FIRST, **options) as one, Client(SECOND, **options) as other:
            assert (one.name_servers, other.name_servers) == ((FIRST,), (SECOND,))

    simulate(work)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_clients_of_forked_processes_have_names_of_their_own():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=True)
    first, second = (line.split() for line in done.stdout.splitlines())
    assert first[1].startswith(f"127.0.0.1@{first[0]}#")
    assert second[1].startswith(f"127.0.0.1@{second[0]}#")
    assert first[1].rpartition("#")[2] != second[1].rpartition("#")[2]
