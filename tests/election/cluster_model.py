"""A seeded model of brokers with elected roles: machines over a model of an engine, logs as lists of values.

Requests and answers are late or lost, connections break in one direction, brokers crash, restart and are suspended, and
their clocks differ in speed. `Checker` compares each acknowledgement with the logs of the engine's set and of all later
masters. A broker's log survives its crash, as with flushDiskType=SYNC_FLUSH.
"""

import heapq
import itertools
import random

from gantrymq_replication.election.epochs import EpochList
from gantrymq_replication.election.machine import (
    Alter,
    BecomeMaster,
    Elect,
    Fencing,
    Follow,
    Machine,
    Renew,
    RoleSettings,
    StandDown,
    Standing,
)
from gantrymq_replication.election.sync_set import SyncSetSettings

TTL = 9.0
TIMEOUT = 3.0


class Checker:
    """What must hold at every acknowledgement and election."""

    def __init__(self):
        self.acked = []  # (position, value)
        self.visible = []  # the longest log that a consumer saw
        self.masters = {}  # by epoch, of those that acknowledged

    def acknowledge(self, world, broker, position):
        engine, epoch = world.engine, broker.machine.epoch
        assert self.masters.setdefault(epoch, broker.id) == broker.id, f"two masters acknowledge in epoch {epoch}"
        if engine.epoch == epoch:
            for member in engine.members:
                assert len(world.brokers[member].log) > position, f"{member} of the set lacks what is acknowledged"
        if engine.leases and broker.fencing is not Fencing.FAILSAFE:
            assert engine.epoch == epoch, f"the master of {epoch} acknowledges after the election of {engine.epoch}"
        self.acked.append((position, broker.log[position]))

    def serve(self, world, broker):
        if world.engine.leases and broker.fencing is not Fencing.FAILSAFE:
            world.engine.tick()
            assert (world.engine.master, world.engine.epoch) == (broker.id, broker.machine.epoch), (
                f"the master of {broker.machine.epoch} serves after its lease"
            )

    def show(self, log, end):
        """A consumer reads a master's log up to *end*."""
        assert self.visible == log[: len(self.visible)][:end] or end < len(self.visible), "a consumer saw another log"
        if end > len(self.visible):
            self.visible = log[:end]

    def elected(self, broker):
        for position, value in self.acked:
            assert broker.log[position : position + 1] == [value], f"{value} was acknowledged and is lost"
        assert broker.log[: len(self.visible)] == self.visible, "a consumer saw what is lost"


class ControllerModel:
    """RocketMQ's controller: elects when a connection breaks or a broker is silent; the new set is the master alone."""

    leases = False

    def __init__(self, world):
        self.world = world
        self.master, self.epoch, self.members, self.set_epoch = None, 0, frozenset(), 0
        self.alive = {}  # by id: (when heard, epoch, end)

    def standing(self, broker):
        """What is told to *broker*."""
        return Standing(self.master, self.epoch, self.members, self.set_epoch)

    def renew(self, broker, progress):
        self.alive[broker] = (self.world.now, *progress)
        return self.standing(broker)

    def elect(self, broker, progress):
        self.renew(broker, progress)
        if not self.epoch:
            self._choose(broker)
        elif self.master not in self.alive:
            self.choose()
        return self.standing(broker)

    def alter(self, broker, epoch, set_epoch, members):
        if (broker, epoch, set_epoch) != (self.master, self.epoch, self.set_epoch) or members == self.members:
            return None
        if not all(member in self.alive for member in members) or broker not in members:
            return None
        self.members, self.set_epoch = members, set_epoch + 1
        return self.members, self.set_epoch

    def choose(self):
        candidates = sorted((self.alive[each][1:], each) for each in self.members if each in self.alive)
        if candidates:
            self._choose(candidates[-1][1])
        elif self.master is not None:
            self.master, self.epoch = None, self.epoch + 1
        self.world.notify()

    def _choose(self, broker):
        self.master, self.epoch, self.members = broker, self.epoch + 1, frozenset({broker})
        self.set_epoch += 1

    def broke(self, broker):
        if self.alive.pop(broker, None) and broker == self.master:
            self.choose()

    def tick(self):
        for broker, (heard, *_) in [*self.alive.items()]:
            if self.world.now - heard > 10:
                self.broke(broker)


class LeaseModel(ControllerModel):
    """etcd: a lease keeps the master; brokers elect themselves when it is gone, and the set stays.

    The lease is one of a process: a restarted broker is not the master before it is elected again.
    """

    leases = True

    def __init__(self, world):
        super().__init__(world)
        self.until, self.life = 0.0, 0

    def mine(self, broker):
        return broker == self.master and self.world.brokers[broker].life == self.life

    def standing(self, broker):
        master = None if broker == self.master and not self.mine(broker) else self.master
        return Standing(master, self.epoch, self.members, self.set_epoch)

    def tick(self):
        if self.master is not None and self.world.now >= self.until:
            self.master = None
            self.world.notify()

    def broke(self, broker):
        """A broken connection means nothing."""

    def renew(self, broker, progress):
        self.tick()
        if self.mine(broker):
            self.until = self.world.now + TTL
        return self.standing(broker)

    def elect(self, broker, progress):
        self.tick()
        if self.master is None and (broker in self.members or not self.epoch):
            self.master, self.epoch, self.set_epoch = broker, self.epoch + 1, self.set_epoch + 1
            self.members |= {broker}
            self.until, self.life = self.world.now + TTL, self.world.brokers[broker].life
        return self.standing(broker)

    def alter(self, broker, epoch, set_epoch, members):
        self.tick()
        if not self.mine(broker) or (broker, epoch, set_epoch) != (self.master, self.epoch, self.set_epoch):
            return None
        self.members, self.set_epoch = members, set_epoch + 1
        return self.members, self.set_epoch


class Connection:
    """A slave's connection to a master; each end may know of its end later."""

    def __init__(self, slave, master):
        self.slave, self.master, self.open = slave, master, True
        self.sent = -1  # position of the next value that the master sends


class ModelBroker:
    """A broker: its log survives crashes, its machine does not."""

    def __init__(self, world, broker_id, fencing, set_rules):
        self.world, self.id, self.fencing, self.set_rules = world, broker_id, fencing, set_rules
        self.log, self.epochs, self.confirmed = [], EpochList(), 0
        self.rate = world.random.uniform(0.99, 1.01)
        self.life = 0
        self.paused_until = 0.0
        self.start()

    @property
    def now(self):
        return self.world.now * self.rate + self.id * 1000

    def start(self):
        self.life += 1
        self.up = True
        self.waiting = []  # positions of values to acknowledge
        self.following = None
        self.slaves = {}
        rules = RoleSettings(
            own_id=self.id, fencing=self.fencing, lease_s=TTL, fences_on_loss=not self.world.engine.leases, renew_s=1.0
        )
        self.machine = Machine(rules, self.set_rules(self.id), self.now, self.epochs.last_epoch)

    def crash(self):
        self.up = False
        self.disconnect()
        self.world.later(0.001, self.world.engine.broke, self.id)

    def disconnect(self):
        for connection in [self.following, *self.slaves.values()]:
            if connection is not None:
                self.world.cut(connection)
        self.following, self.slaves = None, {}

    # --- decisions ----------------------------------------------------------------------------------------------------

    def carry_out(self, decisions):
        for each in decisions:
            if isinstance(each, BecomeMaster):
                self.disconnect()
                self.epochs.begin(each.epoch, len(self.log))
                self.do(self.world.delay(), self.be_ready, each.epoch)
            elif isinstance(each, Follow):
                self.disconnect()
                self.do(self.world.delay(), self.connect, each)
            elif isinstance(each, StandDown):
                self.disconnect()
            elif isinstance(each, Renew | Elect):
                kind = "renew" if isinstance(each, Renew) else "elect"
                self.world.request(self, kind, self.learned, self.failed, (self.epochs.last_epoch, len(self.log)))
            elif isinstance(each, Alter):
                self.alter(each)

    def do(self, delay, call, *args):
        """Call later, if this broker has not crashed until then; later still while it is suspended."""
        self.world.later(delay, self._do, self.life, call, args)

    def _do(self, life, call, args):
        if not self.up or life != self.life:
            return
        if self.world.now < self.paused_until:
            self.do(self.paused_until - self.world.now, call, *args)
        else:
            call(*args)

    def learned(self, standing, asked_at):
        self.carry_out(self.machine.learned(standing, asked_at, self.now))

    def hinted(self):
        self.carry_out(self.machine.hinted(self.now))

    def lost(self):
        self.carry_out(self.machine.lost("the connection broke", self.now))

    def failed(self):
        self.carry_out(self.machine.failed("no answer", self.now))

    def alter(self, alter):
        epoch = self.machine.epoch

        def answered(outcome, _):
            if outcome is None:
                self.carry_out(self.machine.not_altered(epoch, alter.number, True, self.now))
            else:
                self.carry_out(self.machine.altered(epoch, *outcome, self.now))

        def unanswered():
            self.carry_out(self.machine.not_altered(epoch, alter.number, False, self.now))

        self.world.request(self, "alter", answered, unanswered, epoch, alter.set_epoch, alter.members)

    def be_ready(self, epoch):
        self.carry_out(self.machine.ready(epoch, confirmed=self.confirmed, end=len(self.log), now=self.now))
        if self.machine.is_master and self.machine.epoch == epoch:
            self.world.checker.elected(self)

    def tick(self):
        machine = self.machine
        self.carry_out(machine.tick(self.now))
        rng = self.world.random
        if machine.leased(self.now):
            self.world.checker.serve(self.world, self)
        if rng.random() < 0.5 and machine.may_accept(self.now):
            self.waiting.append(len(self.log))
            self.log.append((machine.epoch, rng.random()))
            machine.appended(len(self.log))
            self.send()
        if not machine.is_master:
            self.waiting.clear()
        self.answer()
        self.do(0.2, self.tick)

    def answer(self):
        machine = self.machine
        while self.waiting and machine.may_acknowledge(self.waiting[0] + 1, self.now):
            self.world.checker.acknowledge(self.world, self, self.waiting.pop(0))
        if machine.set is not None and machine.leased(self.now):
            self.confirmed = machine.set.confirmed
            self.world.checker.show(self.log, self.confirmed)

    # --- replication --------------------------------------------------------------------------------------------------

    def connect(self, follow):
        machine = self.machine
        if machine.standing.master != follow.master or machine.epoch != follow.epoch or self.following is not None:
            return
        master = self.world.brokers[follow.master]
        connection = self.following = Connection(self, master)
        self.world.later(8.0, self.again, self.life, connection, follow)
        master.do(self.world.delay(), master.greet, connection)

    def again(self, life, connection, follow):
        """Connect once more if the master has not answered, or the connection is cut."""
        if life == self.life and self.up and self.following in (connection, None):
            if not connection.open or connection.sent < 0:
                self.following = None
                self.do(0, self.connect, follow)
            else:
                self.world.later(8.0, self.again, life, connection, follow)

    def greet(self, connection):
        if self.machine.is_master and connection.open:
            answer = (self.epochs.entries, len(self.log), self.machine.epoch)
            connection.slave.do(self.world.delay(), connection.slave.greeted, connection, *answer)

    def greeted(self, connection, entries, end, epoch):
        if connection is not self.following or epoch < self.machine.epoch:
            return
        point = 0
        if self.epochs.entries:
            found = self.epochs.consistent_point(len(self.log), entries, end)
            assert found is not None and found >= self.confirmed, "a slave would cut what is confirmed"
            point = found
        del self.log[point:]
        self.epochs.cut_from_offset(point)
        connection.master.do(self.world.delay(), connection.master.begin, connection, point)

    def begin(self, connection, point):
        if not (connection.open and self.machine.is_master) or point > len(self.log):
            return
        connection.sent = point
        self.slaves[connection.slave.id] = connection
        self.carry_out(self.machine.connected(connection.slave.id, point, False, self.now))
        self.send()

    def send(self):
        for connection in self.slaves.values():
            if connection.open and (rest := self.log[connection.sent :]):
                values = rest[: self.world.random.randrange(1, 4)]
                at = connection.sent
                connection.sent += len(values)
                entries = [self.epochs.at(position)[0] for position in range(at, connection.sent)]
                slave = connection.slave
                self.world.in_order(connection, slave, slave.receive, connection, at, values, entries, self.confirmed)

    def receive(self, connection, at, values, entries, confirmed):
        if connection is not self.following:
            return
        if at != len(self.log):  # suspensions that end early have changed the order; a real slave closes the connection
            self.world.cut(connection)
            self.following = None
            return
        for value, entry in zip(values, entries, strict=True):
            self.epochs.append(*entry)
            self.log.append(value)
        self.confirmed = max(self.confirmed, min(confirmed, len(self.log)))
        self.world.in_order(connection, connection.master, connection.master.acknowledged, connection, len(self.log))

    def acknowledged(self, connection, end):
        if self.slaves.get(connection.slave.id) is connection:
            self.carry_out(self.machine.reported(connection.slave.id, end, self.now))
            self.answer()
            self.send()

    def slave_gone(self, connection):
        if self.slaves.get(connection.slave.id) is connection:
            del self.slaves[connection.slave.id]
            self.carry_out(self.machine.gone(connection.slave.id, self.now))


class World:
    """Virtual time and everything that goes wrong."""

    def __init__(self, seed, leases, *, brokers=3, fencing=Fencing.STRICT, faults=True, slow=False, **rules):
        """With *slow*, answers of the engine take almost as long as they may."""
        self.random, self.now, self.faults, self.slow = random.Random(seed), 0.0, faults, slow
        self._queue, self._numbers = [], itertools.count()
        self.checker = Checker()
        self.cut_off = {}  # by broker: until when it does not reach the engine, and whether answers only are lost
        self.brokers = {}
        self.engine = (LeaseModel if leases else ControllerModel)(self)
        doubt = {} if leases else {"doubt_s": 30.0}

        def set_rules(own_id):
            return SyncSetSettings(own_id=own_id, max_late_s=5.0, **{**doubt, **rules})

        for each in range(1, brokers + 1):
            self.brokers[each] = ModelBroker(self, each, fencing, set_rules)
            self.brokers[each].do(self.random.random(), self.brokers[each].tick)

    def run(self, seconds):
        self.later(1, self.trouble)
        until = self.now + seconds
        while self._queue and self._queue[0][0] <= until:
            self.now, _, call, args = heapq.heappop(self._queue)
            call(*args)

    def later(self, delay, call, *args):
        heapq.heappush(self._queue, (self.now + delay, next(self._numbers), call, args))

    def delay(self):
        slow = self.faults and self.random.random() < 0.05
        return self.random.uniform(0, 5) if slow else self.random.expovariate(1 / 0.02)

    def in_order(self, connection, to, call, *args):
        """Deliver after what was sent on the connection in this direction before."""
        lanes = connection.__dict__.setdefault("lanes", {})
        at = max(self.now + self.delay(), lanes.get(to.id, 0.0) + 1e-6)
        lanes[to.id] = at
        to.do(at - self.now, call, *args)

    def cut(self, connection):
        connection.open = False
        connection.master.do(self.delay(), connection.master.slave_gone, connection)

    def request(self, broker, kind, answered, unanswered, *args):
        """A request to the engine. Its answer, or the end of the time for one, whichever is first, is passed on."""
        asked_at, done, life = broker.now, [], broker.life

        def finish(call, *results):
            if not done and broker.life == life:
                done.append(True)
                call(*results)

        def arrive():
            if self.faults and self.random.random() < 0.05:
                return  # the request is lost
            if self.engine.leases and broker.life != life:
                return  # it names the lease of an earlier process
            outcome = getattr(self.engine, kind)(broker.id, *args)
            if not (self.faults and self.random.random() < 0.05) and not self.isolated(broker):
                delay = self.random.uniform(2, TIMEOUT) if self.slow else self.delay()
                broker.do(delay, finish, answered, outcome, asked_at)

        if not self.isolated(broker, sending=True):
            self.later(self.delay(), arrive)
        broker.do(TIMEOUT, finish, unanswered)

    def isolated(self, broker, sending=False):
        until, both = self.cut_off.get(broker.id, (0.0, True))
        return self.now < until and (both or not sending)

    def notify(self):
        for each in self.brokers.values():
            if self.random.random() < 0.8 and not self.isolated(each):
                if self.engine.leases:
                    each.do(self.delay(), each.learned, self.engine.standing(each.id), None)
                else:
                    each.do(self.delay(), each.hinted)

    def trouble(self):
        """Something happens every second or two, to one broker."""
        self.engine.tick()
        rng, broker = self.random, self.brokers[self.random.choice([*self.brokers])]
        self.later(rng.expovariate(1 / 1.5) if self.faults else 1.0, self.trouble)
        if not self.faults:
            return
        what = rng.random()
        if what < 0.15 and broker.up:
            broker.crash()
            self.later(rng.uniform(0.1, 15), self.restart, broker)
        elif what < 0.3:
            broker.paused_until = self.now + rng.uniform(0.5, 15)
        elif what < 0.45:
            self.cut_off[broker.id] = (self.now + rng.uniform(1, 20), rng.random() < 0.5)
            if rng.random() < 0.5:
                self.engine.broke(broker.id)
        elif what < 0.6 and broker.slaves:
            self.cut(rng.choice([*broker.slaves.values()]))
        elif what < 0.7 and broker.up:
            self.engine.broke(broker.id)
            broker.do(self.delay(), broker.lost)

    def restart(self, broker):
        if not broker.up:
            broker.start()
            broker.do(0, broker.tick)

    def heal(self):
        self.faults = False
        self.cut_off.clear()
        for each in self.brokers.values():
            each.paused_until = 0.0
            self.restart(each)
