"""A broker with the transaction plugin in a simulated world, and a producer that talks to it frame by frame."""

from __future__ import annotations

import attrs
from broker_desk import records, run_broker

from gantrymq.loose_json import dumps
from gantrymq.plugins import Plugins
from gantrymq_transaction.service import RocketTransactions
from gantrymq_transaction.settings import SCHEMA

HALF = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01{id}\x02TAGS\x01red\x02"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0


def with_plugin(plugins, service=None):
    """*plugins* and the service; a new one for each start."""
    return attrs.evolve(
        plugins, transactions={"rocketmq": (lambda: service) if service else RocketTransactions}, config=SCHEMA
    )


def run_with_plugin(main, plugins=None, service=None, **values):
    """``await main(desk, service)`` against a broker with the memory store."""
    from gantrymq_storage_memory.store import MemoryStore

    service = service or RocketTransactions()
    given = with_plugin(plugins or Plugins(stores={"memory": MemoryStore}), service)
    return run_broker(given, lambda desk: main(desk, service), **values)


async def join(peer, group="PG", client_id="p1"):
    """Register *peer* as a producer of *group*."""
    await peer.ask(34, None, dumps({"clientID": client_id, "producerDataSet": [{"groupName": group}]}))
    return peer


async def half(desk, number=1, topic="T", more="", body=None, born_ms=None):
    """Send a half message; return the fields with which its producer ends it."""
    identity = f"ID{number}"
    fields = {} if born_ms is None else {"born_timestamp": born_ms}
    born = {"born_timestamp": desk.clock.now_ms(), **fields}
    answer = await desk.send(
        topic, body or b"body%d" % number, properties=HALF.format(id=identity) + more, sys_flag=4, **born
    )
    assert answer.code == 0, answer.remark
    return {
        "producerGroup": "PG",
        "tranStateTableOffset": answer.ext["queueOffset"],
        "commitLogOffset": str(int(answer.ext["msgId"][16:], 16)),
        "msgId": identity,
        "transactionId": identity,
    }


async def end(peer, fields, decision, **more):
    """Send the end of a transaction and wait for the answer."""
    return await peer.ask(37, {**fields, "commitOrRollback": str(decision), **more})


def answer_to(asked):
    """The fields that answer a check."""
    return {
        "producerGroup": "PG",
        "tranStateTableOffset": asked.ext["tranStateTableOffset"],
        "commitLogOffset": asked.ext["commitLogOffset"],
        "msgId": asked.ext["msgId"],
        "transactionId": asked.ext["transactionId"],
        "fromTransactionCheck": "true",
    }


async def bodies(desk, topic="T"):
    """Return the messages that a consumer of queue 0 receives."""
    seen, offset = [], 0
    while True:
        found = records(await desk.pull(topic, offset))
        if not found:
            return seen
        seen += [bytes(record.body) for record in found]
        offset = found[-1].queue_offset + 1
