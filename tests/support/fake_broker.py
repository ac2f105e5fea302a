"""A broker that takes part in an election for tests: its log is a number, its slaves are told what to report."""

from typing import Any

from gantrymq.model.hosts import format_address
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.server import RemotingServer
from gantrymq_replication.election.engine import Progress
from gantrymq_replication.election.epochs import EpochList
from gantrymq_replication.election.machine import Fencing, Follow
from gantrymq_replication.election.runner import Election, Mastered, RunnerSettings
from gantrymq_replication.election.sync_set import SyncSetSettings

HOST = "127.0.0.1"


class FakeBroker:
    """One broker. `start` begins its election; `role` is what the last decision made of it."""

    def __init__(self, world, make_engine, fencing=Fencing.STRICT, *, unelectable="", **rules):
        self.world, self._make_engine, self._fencing, self._rules = world, make_engine, fencing, rules
        self._unelectable = unelectable
        self.role: Any = "none"
        self.events: list[Any] = []
        self.end, self.confirmed, self.epochs = 0, 0, EpochList()
        self.unflushed = 0  # bytes after the end that are not on the disk yet
        self.fenced = True
        self.election: Election = None

    async def start(self):
        """Listen as a broker does, so that a controller can tell of changes, and take part."""
        self.server = RemotingServer(self.world, self)
        self.address = format_address(*await self.server.start(HOST, 0))
        self.engine = self._make_engine(self)
        rules = RunnerSettings(
            lambda own_id: SyncSetSettings(
                own_id=own_id, **{"least_copies": 1, "first_s": 0.5, "retry_s": 0.3, **self._rules}
            ),
            self._fencing,
        )
        self.election = Election(self.world, self.engine, self, rules, self._unelectable)
        self.election.start()

    async def stop(self, *, resign=False):
        await self.election.stop(resign=resign)
        await self.server.stop(0.1)

    def requests(self, connection, commands):
        """Requests of controllers."""
        for each in commands:
            if each.code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
                self.events.append("told")
                self.engine.role_changed(each)

    @property
    def machine(self):
        return self.election.machine

    @property
    def now(self):
        return self.world.clock.monotonic()

    @property
    def serving(self):
        return self.machine is not None and self.machine.leased(self.now)

    def append(self, size=100):
        assert self.machine.may_accept(self.now)
        self.end += size
        self.machine.appended(self.end)

    def copies(self, other, acked=None):
        """Let *other* follow this master and report."""
        other.end = self.end if acked is None else acked
        other.epochs = EpochList(self.epochs.entries)
        self.election.do(self.machine.connected(other.machine._rules.own_id, other.end, False, self.now))

    def lose(self, other):
        """End the connection of a slave."""
        self.election.do(self.machine.gone(other.machine._rules.own_id, self.now))

    # --- Host ---------------------------------------------------------------------------------------------------------

    def progress(self):
        return Progress(self.epochs.last_epoch, self.end, self.confirmed)

    def log_end(self):
        return self.end + self.unflushed

    async def become_master(self, epoch):
        self.events.append(f"master {epoch}")
        self.role = "master"
        self.epochs.begin(epoch, self.end)
        return Mastered(self.confirmed, self.end)

    async def follow(self, master: Follow):
        self.events.append(f"follow {master.master} {master.epoch}")
        self.role, self.following = "slave", master

    async def stand_down(self, reason):
        self.events.append("stand down")
        self.role = "none"

    def fence(self, reason):
        self.fenced = True
        self.events.append("fence")

    def unfence(self):
        self.fenced = False

    def moved(self):
        pass
