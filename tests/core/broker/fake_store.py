"""A store controlled by tests."""

from __future__ import annotations

import asyncio

from gantrymq.interfaces import Bounds, CleanReport, DispatchEntry, PutResult, PutStatus, StoreState
from gantrymq.world.workers import resolve_future


def entry(topic="T", queue_id=0, queue_offset=0, *, tags_code=0, log_offset=0, size=100):
    return DispatchEntry(topic, queue_id, queue_offset, log_offset, size, tags_code, 0, 0, 0, b"")


class FakeStore:
    """Appends 100 bytes per message; a body ``b"bad"`` is refused. `calls` records the calls in order."""

    def __init__(self, calls=None):
        self.calls = calls if calls is not None else []
        self.end = 0
        self.published = 0
        self.unpublished = []
        self.records = {}  # log offset to the result of `read`
        self.log = []  # entries that `scan` yields
        self.max_offset = 0

    def put(self, messages):
        self.calls.append(("put", [bytes(each.body) for each in messages]))
        results = []
        for message in messages:
            if bytes(message.body) == b"bad":
                results.append(PutResult(PutStatus.MESSAGE_ILLEGAL, -1, -1, 0, 0, "too bad"))
                continue
            results.append(PutResult(PutStatus.OK, self.end // 100, self.end, 100, 0))
            self.unpublished.append(entry(message.topic, message.queue_id, self.end // 100, log_offset=self.end))
            self.end += 100
        return results

    def publish(self, up_to):
        self.calls.append(("publish", up_to))
        shown = [each for each in self.unpublished if each.log_offset + each.size <= up_to]
        self.unpublished = self.unpublished[len(shown) :]
        return shown

    def read(self, log_offset):
        return self.records.get(log_offset)

    def bounds(self, queue):
        return Bounds(0, self.max_offset)

    def scan(self, start, end):
        self.calls.append(("scan", start, end))
        return (each for each in self.log if start <= each.log_offset < end)

    async def clean(self, what):
        self.calls.append(("clean", what))
        return CleanReport()

    def state(self):
        return StoreState(0, self.end, self.end, self.end)


class FakeGate:
    """Opens when told to."""

    name = "fake"

    def __init__(self, calls):
        self.calls = calls
        self.waiting = []

    async def passed(self, log_offset):
        self.calls.append(("gate", log_offset))
        opened = asyncio.get_running_loop().create_future()
        self.waiting.append(opened)
        await opened

    def open(self, error=None):
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            if error is None:
                each.set_result(None)
            else:
                each.set_exception(error)


class AskedGate(FakeGate):
    """The same, asked without a task."""

    def ask(self, log_offset, answer):
        self.calls.append(("gate", log_offset))
        self.waiting.append(answer)

    def open(self, error=None):
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each(error)


async def put(pipeline, messages):
    """Submit *messages* and wait until they are acknowledged."""
    future = asyncio.get_running_loop().create_future()
    pipeline.submit(messages, resolve_future(future))
    return await future
