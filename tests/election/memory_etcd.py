"""etcd in memory, on the clock of a simulated world: keys with revisions, leases, transactions and watches."""

import asyncio
import itertools

from gantrymq_replication.election.engine import EngineUnreachable
from gantrymq_replication.election.etcd_client import KeyValue


class MemoryEtcd:
    """What all clients share."""

    def __init__(self, clock):
        self.clock, self.revision, self.keys = clock, 1, {}
        self.leases = {}  # by id: (duration, end)
        self._ids = itertools.count(100)
        self._watches = []
        self.random = None  # set to lose requests and answers

    def client(self):
        return MemoryClient(self)

    def expire(self):
        """Delete what belongs to leases that have ended."""
        for lease in [each for each, (_, end) in self.leases.items() if self.clock.monotonic() >= end]:
            self.revoke(lease)

    def revoke(self, lease):
        if self.leases.pop(lease, None):
            self.write({}, [key for key, value in self.keys.items() if value.lease == lease])

    def write(self, puts, deletes):
        self.revision += 1
        for key, (value, lease) in puts.items():
            self.keys[key] = KeyValue(value, self.revision, lease)
        for key in deletes:
            self.keys.pop(key, None)
        for keys, event in self._watches:
            if not keys.isdisjoint([*puts, *deletes]):
                event.set()
        return self.revision

    def watch(self, keys):
        self._watches.append((set(keys), event := asyncio.Event()))
        return event


class MemoryClient:
    """`Etcd` of one broker. While `down` nothing is answered; `deaf` loses the answers only."""

    def __init__(self, etcd):
        self._etcd, self.down, self.deaf, self.closed = etcd, False, False, False

    async def _asked(self):
        await self._etcd.clock.sleep(0.002)
        rng = self._etcd.random
        if self.down or (rng is not None and rng.random() < 0.05):
            await self._etcd.clock.sleep(1.5)
            raise EngineUnreachable("etcd does not answer")
        if self.closed:
            raise EngineUnreachable("it is closed")
        self._etcd.expire()

    async def _answer(self, value):
        rng = self._etcd.random
        await self._etcd.clock.sleep(0.002)
        if self.deaf or (rng is not None and rng.random() < 0.05):
            await self._etcd.clock.sleep(1.5)
            raise EngineUnreachable("etcd does not answer")
        return value

    async def read(self, prefixes):
        await self._asked()
        found = {key: value for key, value in self._etcd.keys.items() if key.startswith(tuple(prefixes))}
        return await self._answer(found)

    async def commit(self, txn):
        await self._asked()
        keys = self._etcd.keys
        done = (
            not any(key in keys for key in txn.absent)
            and all(key in keys and keys[key].revision == value for key, value in txn.revisions.items())
            and all(key in keys and keys[key].lease == value for key, value in txn.leases.items())
            and all(not lease or lease in self._etcd.leases for _, lease in txn.puts.values())
        )
        return await self._answer(self._etcd.write(txn.puts, txn.deletes) if done else 0)

    async def grant(self, ttl_s):
        await self._asked()
        lease = next(self._etcd._ids)
        self._etcd.leases[lease] = (ttl_s, self._etcd.clock.monotonic() + ttl_s)
        return await self._answer(lease)

    async def keep_alive(self, lease):
        await self._asked()
        if lease in self._etcd.leases:
            duration, _ = self._etcd.leases[lease]
            self._etcd.leases[lease] = (duration, self._etcd.clock.monotonic() + duration)
        return await self._answer(lease in self._etcd.leases)

    async def revoke(self, lease):
        await self._asked()
        self._etcd.revoke(lease)
        await self._answer(None)

    async def watch(self, keys, changed):
        event = self._etcd.watch(keys)
        while True:
            await changed()
            await event.wait()
            event.clear()
            await self._etcd.clock.sleep(0.005)

    async def close(self):
        self.closed = True
