"""Idempotent consumption with the client for threads, against a broker in a separate process."""

import contextlib
import sqlite3
import threading

from gantrymq.client import ReconsumeLater, SqliteRecords
from gantrymq.client.sync import Client, Message, idempotent

END_S = 60.0


def test_effects_happen_once_though_messages_come_twice(servers, tmp_path):
    database = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(database)) as file:
        file.execute("CREATE TABLE done (number TEXT)")
    given, enough = [], threading.Event()
    with SqliteRecords(database) as store, Client(servers.namesrv) as client:
        once = idempotent(store, "billing")

        @once
        def done(message, connection):
            connection.execute("INSERT INTO done VALUES (?)", (message.body.decode(),))

        def handle(message):
            done(message)
            given.append(message)
            if len(given) == 20:
                enough.set()
            if message.reconsume_times == 0:
                raise ReconsumeLater(1)

        producer = client.producer("shop")
        for number in range(10):
            producer.send(Message("Orders", b"%d" % number))
        consumer = client.consumer("billing", "Orders", consume_from="first")
        running = threading.Thread(target=consumer.run, args=(handle,))
        running.start()
        assert enough.wait(END_S)
        consumer.close()
        running.join(END_S)
        assert (once.consumed, once.duplicates) == (10, 10)
    with contextlib.closing(sqlite3.connect(database)) as file:
        assert sorted(int(row[0]) for row in file.execute("SELECT number FROM done")) == list(range(10))
