"""A dispatcher that writes its position for a batch before it has handled the batch."""

import json

from gantrymq_testing import DispatcherContract


class Ahead:
    name = "ahead"

    def __init__(self, context):
        self.files = context.world.files
        self.path = context.root / "ahead.json"
        self.seen = []
        self.end = 0
        if self.files.stat(self.path) is not None:
            self.end, self.seen = json.loads(self.files.read(self.path))

    def position(self):
        return self.end

    def dispatch(self, entries):
        new = [entry for entry in entries if entry.log_offset >= self.end]
        if new:
            self.write(new[-1].log_offset + new[-1].size)
            self.seen += [entry.log_offset for entry in new]

    def truncate(self, log_offset):
        if self.end > log_offset:
            self.seen = [each for each in self.seen if each < log_offset]
            self.write(log_offset)

    def flush(self):
        self.write(self.end)

    def write(self, end):
        self.files.replace(self.path, json.dumps([end, self.seen]).encode())
        self.end = end


class TestAhead(DispatcherContract):
    def make_dispatcher(self, context):
        return Ahead(context)

    def outcome(self, dispatcher):
        return dispatcher.seen
