"""A consumer is killed (kill -9) with a message in flight: its business effect happens once."""

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gantrymq.client import Client, Message

PROGRAM = Path(__file__).with_name("consume_once.py")
COUNT = 40
NEVER = COUNT * 10


def started(servers, database, place, number):
    words = [sys.executable, str(PROGRAM), servers.namesrv, str(database), place, str(number)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def effects(database):
    with contextlib.closing(sqlite3.connect(database)) as file:
        return [row[0] for row in file.execute("SELECT number FROM done ORDER BY number")]


def said_until(child, last):
    """Return the lines before *last*; fail if the process exits earlier."""
    said = []
    while (line := child.stdout.readline()) != last:
        assert line, f"it ended after {said}"
        said.append(line)
    return said


async def send(namesrv):
    async with Client(namesrv) as client:
        producer = client.producer("shop")
        for number in range(COUNT):
            await producer.send(Message("Orders", b"%d" % number))


@pytest.mark.slow
def test_killed_between_the_change_and_the_acknowledgement_and_inside_the_transaction(servers, tmp_path):
    database = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(database)) as file:
        file.execute("CREATE TABLE done (number INTEGER)")
    asyncio.run(send(servers.namesrv))

    again = 0
    for place, number in (("behind", 1), ("inside", 2), ("behind", 5), ("inside", 9)):
        before = len(effects(database))
        with started(servers, database, place, number) as child:
            said = said_until(child, f"{place}\n")
            child.kill()
        assert said.count("new\n") == number - 1
        assert len(effects(database)) == before + number - (place == "inside")
        again += said.count("duplicate\n")
    assert again > 0  # some messages were delivered twice

    with started(servers, database, "behind", NEVER) as child:
        for line in child.stdout:
            if line == "new\n" and len(effects(database)) == COUNT:
                break
        child.kill()
    assert effects(database) == list(range(COUNT))
