"""A small store in which faults are planted."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "store_tools"))

from small_store import SmallStore


class Planted:
    """A store with messages of every kind, in which tests plant faults."""

    def __init__(self, root):
        self.store = SmallStore(root)
        self.keys = 0

    def add(self, topic="Orders", queue_id=0, *, key=None, body=b"a body", more=None, **fields):
        """Append a message with a unique key of its own."""
        self.keys += 1
        properties = {"UNIQ_KEY": key or f"U{self.keys:04d}", **(more or {})}
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        return self.store.add(topic, queue_id, body, properties=text.encode(), **fields)

    def orders(self, count=5):
        for _ in range(count):
            self.add()
            self.add("Bills", 1)

    def half(self, key):
        place = self.add("RMQ_SYS_TRANS_HALF_TOPIC", key=key, more={"REAL_TOPIC": "Orders", "REAL_QID": "0"})
        return place, self.store.next["RMQ_SYS_TRANS_HALF_TOPIC", 0] - 1

    def commit(self, key, place):
        self.add(key=key, sys_flag=8, prepared_offset=place)

    def op(self, offset):
        self.store.add("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, f"{offset},".encode(), properties=b"TAGS\x01d\x02")

    def delayed(self, key, level=1):
        """Append a message that is due a second (level 1) after it was stored."""
        self.add("SCHEDULE_TOPIC_XXXX", level - 1, key=key, more={"REAL_TOPIC": "Orders", "REAL_QID": "0"})
        return self.store.last_ms

    def delivered(self, key, due_ms, late_ms=100):
        self.add(key=key, more={"REAL_TOPIC": "Orders", "DELAY": "1"})
        assert self.store.last_ms - due_ms <= late_ms

    def sound(self):
        """Transactions of each outcome, delayed messages, a retry, a batch of one key."""
        self.orders()
        for key in ("T1", "T2"):
            place, offset = self.half(key)
            if key == "T1":
                self.commit(key, place)
            self.op(offset)
        due_ms = self.delayed("D1") + 1000
        self.orders(1)
        self.delivered("D1", due_ms, late_ms=600)
        self.add("%RETRY%group", key="U0001", reconsume_times=1)
        self.add("%RETRY%group", key="U0001", reconsume_times=2)
        for _ in range(4):
            self.add("Batch", key="B1")
        self.orders()
