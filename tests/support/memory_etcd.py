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
        self.down = False  # nobody gets an answer
        self.version = "3.4.23"

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

    def read(self, prefixes):
        return {key: value for key, value in self.keys.items() if key.startswith(tuple(prefixes))}

    def commit(self, txn):
        keys = self.keys
        done = (
            not any(key in keys for key in txn.absent)
            and all(key in keys and keys[key].revision == value for key, value in txn.revisions.items())
            and all(key in keys and keys[key].lease == value for key, value in txn.leases.items())
            and all(not lease or lease in self.leases for _, lease in txn.puts.values())
        )
        return self.write(txn.puts, txn.deletes) if done else 0

    def grant(self, ttl_s):
        lease = next(self._ids)
        self.leases[lease] = (ttl_s, self.clock.monotonic() + ttl_s)
        return lease

    def keep_alive(self, lease):
        if lease in self.leases:
            duration, _ = self.leases[lease]
            self.leases[lease] = (duration, self.clock.monotonic() + duration)
        return lease in self.leases

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
        if self.down or self._etcd.down or (rng is not None and rng.random() < 0.05):
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

    async def version(self):
        await self._asked()
        return await self._answer(self._etcd.version)

    async def read(self, prefixes):
        return await self._call(self._etcd.read, prefixes)

    async def commit(self, txn):
        return await self._call(self._etcd.commit, txn)

    async def grant(self, ttl_s):
        return await self._call(self._etcd.grant, ttl_s)

    async def keep_alive(self, lease):
        return await self._call(self._etcd.keep_alive, lease)

    async def revoke(self, lease):
        return await self._call(self._etcd.revoke, lease)

    async def _call(self, call, *args):
        await self._asked()
        return await self._answer(call(*args))

    async def watch(self, keys, changed):
        event = self._etcd.watch(keys)
        while True:
            await changed()
            await event.wait()
            event.clear()
            await self._etcd.clock.sleep(0.005)

    async def close(self):
        self.closed = True
