"""From append to acknowledgement: the order of events, and the reporting of failures."""

from __future__ import annotations

import asyncio

import pytest
from fake_store import AskedGate, FakeGate, FakeStore, entry, put

from gantrymq.broker.sending.pipeline import SINGLE_SENDS, Pipeline
from gantrymq.errors import (
    FlushDiskTimeout,
    FlushSlaveTimeout,
    ServiceNotAvailable,
    SlaveNotAvailable,
    StoreError,
)
from gantrymq.formats.batch_body import BatchEntry, encode_batch
from gantrymq.interfaces import MessageBatch, PutStatus, StoreMessage
from gantrymq_testing.simulated import simulate


def message(body=b"m", *, wait=True):
    return StoreMessage("T", 0, body, b"", wait_stored=wait)


class Bench:
    """A pipeline with a fake store; `calls` records the events in order."""

    def __init__(self, world, gate=FakeGate, *, gated=True, timeout_s=5.0):
        self.calls = []
        self.clock = world.clock
        self.store = FakeStore(self.calls)
        self.gate = gate(self.calls)
        self.pipeline = Pipeline(self.store, [self.gate] if gated else [], world.clock, timeout_s)
        self.pipeline.on_published(lambda entries: self.calls.append(("heard", len(entries))))

    def submit(self, name, *messages):
        def done(results, error):
            outcome = type(error).__name__ if error is not None else [each.status.name for each in results]
            self.calls.append((name, outcome))

        self.pipeline.submit(list(messages), done)

    async def turns(self):
        """Run everything that needs no time."""
        for _ in range(10):
            await asyncio.sleep(0)

    def names(self):
        return [call[0] for call in self.calls]


@pytest.fixture(params=[FakeGate, AskedGate])
def bench(request):
    """``bench(main)`` runs ``await main(bench)`` on a virtual clock."""

    def run(main, **options):
        async def in_world(world):
            await main(Bench(world, request.param, **options))

        simulate(1, in_world)

    return run


@pytest.mark.parametrize("gated", [True, False])
def test_answers_of_a_batch_may_leave_together_once_all_are_given(bench, gated):
    async def main(bench):
        bench.pipeline.on_answered(lambda: bench.calls.append(("leave",)))
        bench.submit("a", message())
        bench.submit("b", message())
        await bench.turns()
        if gated:
            bench.gate.open()
            await bench.turns()
        assert bench.names()[-3:] == ["a", "b", "leave"]

    bench(main, gated=gated)


def test_the_answer_to_one_that_does_not_wait_leaves_before_the_gate_opens(bench):
    async def main(bench):
        bench.pipeline.on_answered(lambda: bench.calls.append(("leave",)))
        bench.submit("a", message(wait=False))
        await bench.turns()
        assert bench.names() == ["put", "a", "leave", "gate"]

    bench(main)


def test_append_gate_publication_listeners_answer_in_this_order(bench):
    async def main(bench):
        bench.submit("a", message())
        assert bench.calls == []  # nothing before the end of this turn
        await bench.turns()
        assert bench.names() == ["put", "gate"]
        bench.gate.open()
        await bench.turns()
        assert bench.names() == ["put", "gate", "publish", "heard", "a"]

    bench(main)


def test_all_sends_of_one_turn_are_one_append_one_gate_and_one_publication(bench):
    async def main(bench):
        bench.submit("a", message(b"1"), message(b"2"))
        bench.submit("b", message(b"3"))
        await bench.turns()
        bench.gate.open()
        await bench.turns()
        assert bench.calls == [
            ("put", [b"1", b"2", b"3"]),
            ("gate", 300),
            ("publish", 300),
            ("heard", 3),
            ("a", ["OK", "OK"]),
            ("b", ["OK"]),
        ]

    bench(main)


@pytest.mark.parametrize("gated", [False, True])
def test_a_batch_is_appended_by_itself_and_its_failure_fails_no_other_send(bench, gated):
    body = encode_batch([BatchEntry(0, b"1", b""), BatchEntry(0, b"2", b"")])

    def batch():
        return MessageBatch(2, "T", 0, body, b"", None, 0, 0, bytes(8), bytes(8), 0, True)

    async def main(b):
        appended, put = [], b.store.put

        def put_or_fail(messages):
            appended.append((type(messages), len(messages)))
            if len(appended) == 3:
                raise OSError("no")
            return put(messages)

        b.store.put = put_or_fail
        results = {}
        for name, messages in zip("abcde", ([message()], [message()], batch(), batch(), [message()]), strict=True):
            b.pipeline.submit(messages, lambda found, error, name=name: results.update({name: (len(found), error)}))
        await b.turns()
        if gated:
            b.gate.open()
            await b.turns()
        assert appended == [(list, 2), (MessageBatch, 2), (MessageBatch, 2), (list, 1)]
        assert {name: count for name, (count, _) in results.items()} == {"a": 1, "b": 1, "c": 2, "d": 0, "e": 1}
        assert [name for name, (_, error) in results.items() if error is not None] == ["d"]

    bench(main, gated=gated)


def test_what_comes_while_a_gate_is_shut_shares_the_next_one(bench):
    async def main(bench):
        for name in "abc":
            bench.submit(name, message())
            await bench.turns()
        assert [call for call in bench.calls if call[0] == "gate"] == [("gate", 100)]
        bench.gate.open()
        await bench.turns()
        assert bench.calls[-2:] == [("a", ["OK"]), ("gate", 300)]
        bench.gate.open()
        await bench.turns()
        assert bench.names()[-4:] == ["publish", "heard", "b", "c"]

    bench(main)


def test_a_send_that_comes_as_the_last_answer_leaves_meets_a_gate_of_its_own(bench):
    async def main(bench):
        bench.pipeline.submit([message()], lambda results, error: bench.submit("b", message()))
        await bench.turns()
        bench.gate.open()
        await bench.turns()
        assert bench.names()[-1] == "gate"
        bench.gate.open()
        await bench.turns()
        assert bench.calls[-1] == ("b", ["OK"])

    bench(main)


@pytest.mark.parametrize("problem", [StoreError("no room for queue entries"), OSError(5, "EIO"), MemoryError()])
def test_without_gates_a_publication_that_fails_is_told_to_the_senders(bench, problem):
    """For example a full disk under the queues: the store publishes the messages later."""

    async def main(bench):
        def full(up_to):
            raise problem

        bench.store.publish = full
        bench.submit("a", message())
        bench.submit("b", message(b"bad"), message())
        await bench.turns()
        assert bench.calls[1:] == [("a", "StoreError"), ("b", "StoreError")]

    bench(main, gated=False)


def test_without_gates_an_append_is_published_and_answered_at_once(bench):
    async def main(bench):
        bench.submit("a", message())
        await bench.turns()
        assert bench.names() == ["put", "publish", "heard", "a"]

    bench(main, gated=False)


def test_who_does_not_wait_is_answered_after_the_append_and_visible_with_the_others(bench):
    async def main(bench):
        bench.submit("quick", message(wait=False))
        bench.submit("slow", message())
        await bench.turns()
        assert bench.names() == ["put", "quick", "gate"]
        bench.gate.open()
        await bench.turns()
        assert bench.calls[3:] == [("publish", 200), ("heard", 2), ("slow", ["OK"])]

    bench(main)


def test_a_message_nobody_waits_for_becomes_visible_too(bench):
    async def main(bench):
        bench.submit("quick", message(wait=False))
        await bench.turns()
        bench.gate.open()
        await bench.turns()
        assert bench.names() == ["put", "quick", "gate", "publish", "heard"]

    bench(main)


def test_a_refused_message_leaves_the_others_alone(bench):
    async def main(bench):
        bench.submit("a", message(b"bad"))
        bench.submit("b", message())
        await bench.turns()
        assert ("a", ["MESSAGE_ILLEGAL"]) in bench.calls
        bench.gate.open()
        await bench.turns()
        assert bench.calls[-1] == ("b", ["OK"])

    bench(main)


def test_messages_of_one_sender_wait_for_the_gate_though_the_last_is_refused(bench):
    async def main(bench):
        bench.submit("a", message(), message(b"bad"))
        await bench.turns()
        assert bench.names() == ["put", "gate"]
        bench.gate.open()
        await bench.turns()
        assert bench.calls[-1] == ("a", ["OK", "MESSAGE_ILLEGAL"])

    bench(main)


def test_refused_messages_alone_meet_no_gate(bench):
    async def main(bench):
        bench.submit("a", message(b"bad"))
        await bench.turns()
        assert bench.names() == ["put", "a"]

    bench(main)


def test_a_store_that_raises_is_told_to_the_senders_and_the_next_send_goes_on(bench):
    async def main(bench):
        put = bench.store.put
        bench.store.put = lambda messages: 1 / 0
        bench.submit("a", message())
        await bench.turns()
        assert bench.calls == [("a", "StoreError")]
        bench.store.put = put
        bench.submit("b", message())
        await bench.turns()
        bench.gate.open()
        await bench.turns()
        assert bench.calls[-1] == ("b", ["OK"])

    bench(main)


@pytest.mark.parametrize("error", [StoreError("sync failed"), ZeroDivisionError("a bug")])
def test_a_gate_that_fails_refuses_what_waits_and_shows_nothing(bench, error):
    async def main(bench):
        bench.submit("a", message())
        await bench.turns()
        bench.submit("b", message())
        await bench.turns()
        bench.gate.open(error)
        await bench.turns()
        assert "publish" not in bench.names()
        assert bench.calls[-2:] == [("a", "StoreError"), ("b", "StoreError")]

    bench(main)


def test_a_slow_gate_is_answered_with_flush_timeout_and_published_later(bench):
    async def main(bench):
        bench.submit("a", message())
        await bench.turns()
        await bench.clock.sleep(4.9)
        bench.submit("b", message())
        await bench.clock.sleep(0.2)
        assert bench.calls[-1] == ("a", "FlushDiskTimeout")
        await bench.clock.sleep(5)
        assert bench.calls[-1] == ("b", "FlushDiskTimeout")
        bench.gate.open()
        await bench.turns()
        bench.gate.open()
        await bench.turns()
        assert bench.names().count("a") == bench.names().count("b") == 1
        assert bench.names()[-2:] == ["publish", "heard"]

    bench(main)


def test_flush_timeout_is_rocketmq_s_code_10():
    assert FlushDiskTimeout("late").response_code == 10


def test_listeners_hear_of_each_append_before_its_gates(bench):
    async def main(bench):
        remove = bench.pipeline.on_appended(lambda end: bench.calls.append(("appended", end)))
        bench.submit("a", message())
        await bench.turns()
        assert bench.names() == ["put", "appended", "gate"]
        bench.pipeline.appended_raw(bench.calls[1][1] + 100)
        assert bench.calls[-1] == ("appended", bench.calls[1][1] + 100)
        remove()
        bench.submit("b", message())
        await bench.turns()
        assert bench.names().count("appended") == 2

    bench(main)


class Replicas:
    """A gate that waits for replicas, which are late or too few."""

    name = "replicas"
    late_error = FlushSlaveTimeout

    def __init__(self, clock):
        self.clock = clock
        self.too_few = False

    async def passed(self, log_offset):
        if self.too_few:
            raise SlaveNotAvailable("1 of 2 replicas are in sync")
        await self.clock.sleep(60)


def test_a_gate_may_be_late_sooner_than_the_disk(bench):
    async def main(bench):
        answered, replicas = [], Replicas(bench.clock)
        replicas.late_s = 3.0
        bench.pipeline = Pipeline(bench.store, [bench.gate, replicas], bench.clock, 5.0)

        def submit():
            began = bench.clock.monotonic()
            bench.pipeline.submit(
                [message()],
                lambda results, error: answered.append((error.response_code, bench.clock.monotonic() - began)),
            )

        submit()
        await bench.turns()
        bench.gate.open()
        await bench.clock.sleep(1)
        submit()  # waits behind the first one, and has a time limit of its own
        await bench.clock.sleep(5)
        assert answered == [(12, pytest.approx(3, abs=0.01))] * 2
        await bench.clock.sleep(60)
        submit()  # the disk has its usual time
        await bench.clock.sleep(4.9)
        assert len(answered) == 2
        await bench.clock.sleep(0.2)
        assert answered[2] == (10, pytest.approx(5, abs=0.01))

    bench(main)


def test_a_gate_has_a_code_of_its_own_when_it_is_late_or_does_not_confirm(bench):
    async def main(bench):
        errors, replicas = [], Replicas(bench.clock)
        bench.pipeline = Pipeline(bench.store, [bench.gate, replicas], bench.clock, 5.0)
        bench.pipeline.submit([message()], lambda results, error: errors.append(error))
        await bench.clock.sleep(6)
        assert (errors[0].response_code, str(errors[0])) == (
            10,
            "stored, but the disk did not confirm it in time (syncFlushTimeout)",
        )
        bench.gate.open()
        await bench.clock.sleep(61)
        bench.pipeline.submit([message()], lambda results, error: errors.append(error))
        await bench.turns()
        bench.gate.open()
        await bench.clock.sleep(6)
        assert (errors[1].response_code, str(errors[1])) == (
            12,
            "stored, but replicas did not confirm it in time (syncFlushTimeout)",
        )
        await bench.clock.sleep(61)
        replicas.too_few = True
        bench.pipeline.submit([message()], lambda results, error: errors.append((results[0].status.name, error)))
        await bench.turns()
        bench.gate.open()
        await bench.turns()
        status, error = errors[2]
        assert (status, error.response_code, str(error)) == ("OK", 11, "1 of 2 replicas are in sync")
        assert bench.calls[-1][0] == "publish"  # it is visible all the same

    bench(main)


class Broken:
    """A gate of which one call fails."""

    name = "broken"

    def __init__(self, method, error):
        self.method, self.error = method, error

    def fail(self, method):
        if method == self.method:
            self.method = ""
            raise self.error

    def ask(self, log_offset, answer):
        self.fail("ask")
        answer(None)

    def last_look(self, log_offset):
        self.fail("last_look")

    def answered(self):
        self.fail("answered")


@pytest.mark.parametrize("error", [ValueError("x"), asyncio.CancelledError()], ids=["error", "cancelled"])
@pytest.mark.parametrize("method", ["ask", "last_look"])
def test_a_gate_that_fails_fails_one_message_and_no_later_one(bench, method, error):
    async def main(bench):
        bench.pipeline = Pipeline(bench.store, [Broken(method, error)], bench.clock, 5.0)
        for name in ("a", "b"):
            bench.submit(name, message())
            await bench.turns()
        assert [call for call in bench.calls if call[0] in "ab"] == [("a", "StoreError"), ("b", ["OK"])]

    bench(main)


def test_a_listener_to_answers_that_fails_does_no_harm(bench):
    async def main(bench):
        bench.pipeline.on_answered(Broken("answered", ValueError("x")).answered)
        for name in ("a", "b"):
            bench.submit(name, message())
            await bench.turns()
            bench.gate.open()
            await bench.turns()
        assert [call for call in bench.calls if call[0] in "ab"] == [("a", ["OK"]), ("b", ["OK"])]

    bench(main)


def test_put_returns_when_acknowledged_and_raises_what_struck(bench):
    async def main(bench):
        waiting = asyncio.ensure_future(put(bench.pipeline, [message()]))
        await bench.turns()
        assert not waiting.done()
        bench.gate.open()
        (result,) = await waiting
        assert result.status is PutStatus.OK
        waiting = asyncio.ensure_future(put(bench.pipeline, [message()]))
        await bench.turns()
        bench.gate.open(StoreError("sync failed"))
        with pytest.raises(StoreError, match="sync failed"):
            await waiting

    bench(main)


def test_closing_answers_who_waits_and_refuses_who_comes(bench):
    async def main(bench):
        bench.submit("a", message())
        closing = asyncio.ensure_future(bench.pipeline.close())
        await bench.turns()
        assert not closing.done()
        bench.gate.open()
        await closing
        assert bench.calls[-1] == ("a", ["OK"])
        with pytest.raises(ServiceNotAvailable):
            bench.submit("b", message())
        assert bench.clock.monotonic() == 0  # no timer is left to wait for

    bench(main)


def test_a_listener_hears_of_entries_only_when_there_are_some(bench):
    async def main(bench):
        bench.store.publish = lambda up_to: []
        bench.submit("a", message())
        await bench.turns()
        assert bench.names() == ["put", "a"]

    bench(main, gated=False)


def test_a_listener_that_raises_harms_neither_the_next_one_nor_the_sender(bench, caplog):
    async def main(bench):
        heard = []
        bench.pipeline.on_published(lambda entries: 1 / 0)
        bench.pipeline.on_published(heard.append)
        bench.submit("a", message())
        await bench.turns()
        bench.gate.open()
        await bench.turns()
        assert bench.calls[-1] == ("a", ["OK"])
        assert len(heard) == 1
        assert "a listener failed on 1 new messages" in caplog.text

    bench(main)


class Source:
    """A placeholder for a connection."""


def held(bench, source, name):
    bench.pipeline.hold()
    bench.submit(name, message())
    bench.pipeline.release(source)


def test_messages_of_a_lone_source_are_appended_when_they_are_released(bench):
    async def main(bench):
        one = Source()
        held(bench, one, "first")
        assert bench.names() == []  # other callbacks may run in this turn
        await bench.turns()
        held(bench, one, "second")
        assert bench.names().count("put") == 2
        assert bench.names()[-1] == "second"

    bench(main, gated=False)


def test_messages_of_sources_that_take_turns_are_appended_together(bench):
    async def main(bench):
        one, other = Source(), Source()
        for _ in range(3):
            held(bench, one, "one")
            held(bench, other, "other")
            await bench.turns()
        assert [call[0] for call in bench.calls if call[0] in ("put", "one", "other")] == ["put", "one", "other"] * 3

    bench(main, gated=False)


def test_what_others_submit_meanwhile_is_not_forgotten(bench):
    async def main(bench):
        one = Source()
        held(bench, one, "first")
        await bench.turns()
        bench.submit("of a plugin", message())
        held(bench, one, "second")
        assert bench.names().count("put") == 1
        await bench.turns()
        assert [name for name in bench.names() if name in ("of a plugin", "second")] == ["of a plugin", "second"]
        bench.pipeline.hold()
        bench.submit("last", message())
        await bench.pipeline.close()
        assert bench.names()[-1] == "last"

    bench(main, gated=False)


@pytest.mark.parametrize("gated", [True, False])
def test_a_sender_that_cannot_be_answered_costs_no_other_its_answer(bench, gated):
    def done(results, error):
        raise ZeroDivisionError("a bug")

    async def main(bench):
        bench.pipeline.submit([message()], done)
        bench.submit("other", message())
        await bench.turns()
        if gated:
            bench.gate.open()
            await bench.turns()
        assert bench.calls[-1] == ("other", ["OK"])

    bench(main, gated=gated)


def test_a_gate_that_never_opens_does_not_hold_up_the_stop_for_ever(bench):
    async def main(bench):
        bench.submit("a", message())
        await bench.clock.sleep(2)
        began = bench.clock.monotonic()
        await bench.pipeline.close()
        assert bench.clock.monotonic() - began <= 5
        assert ("a", "FlushDiskTimeout") in bench.calls
        assert bench.names().count("a") == 1
        await bench.turns()
        assert ("heard", 1) not in bench.calls

    bench(main, timeout_s=5.0)


def test_a_gate_that_opens_during_the_stop_has_its_senders_answered(bench):
    async def main(bench):
        bench.submit("a", message())
        await bench.turns()
        closing = asyncio.ensure_future(bench.pipeline.close())
        await bench.clock.sleep(1)
        bench.gate.open()
        await closing
        assert ("a", ["OK"]) in bench.calls

    bench(main, timeout_s=5.0)


# --- changes of the raw log -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gated", [True, False])
def test_copied_records_pass_the_gates_and_are_published(bench, gated):
    async def main(bench):
        bench.store.put([message(), message()])  # stands for `append_raw`
        bench.pipeline.appended_raw(200)
        await bench.turns()
        if gated:
            assert bench.names() == ["put", "gate"]
            bench.gate.open()
            await bench.turns()
        assert bench.calls[-2:] == [("publish", 200), ("heard", 2)]

    bench(main, gated=gated)


def test_copied_records_are_published_together_after_the_step_that_appends_them(bench):
    async def main(bench):
        for end in (100, 200, 300):
            bench.store.put([message()])
            bench.pipeline.appended_raw(end)
        assert bench.names() == ["put"] * 3
        await bench.turns()
        assert bench.calls[3:] == [("publish", 300), ("heard", 3)]

    bench(main, gated=False)


@pytest.mark.parametrize("wait", ["all_published", "close"])
def test_copied_records_are_not_left_unpublished_at_the_end(bench, wait):
    async def main(bench):
        bench.store.put([message()])
        bench.pipeline.appended_raw(100)
        await getattr(bench.pipeline, wait)()
        assert bench.calls[1:] == [("publish", 100), ("heard", 1)]
        await bench.turns()
        assert bench.names().count("publish") == 1

    bench(main, gated=False)


def test_what_a_limit_held_back_is_published_when_it_moves(bench):
    async def main(bench):
        bench.submit("a", message())
        await bench.turns()
        bench.gate.open()
        await bench.turns()
        bench.store.unpublished = bench.store.unpublished or [entry(log_offset=0)]
        bench.pipeline.limit_moved()
        assert bench.calls[-2:] == [("publish", 100), ("heard", 1)]

    bench(main)


def test_sends_that_are_cut_off_fail_and_an_old_gate_confirms_nothing_new(bench):
    async def main(bench):
        bench.submit("kept", message())
        await bench.turns()
        bench.submit("removed", message())
        await bench.turns()
        bench.store.end, bench.store.unpublished = 100, bench.store.unpublished[:1]
        bench.pipeline.truncated(100)
        assert bench.calls[-1] == ("removed", "StoreError")
        bench.submit("new", message())
        await bench.turns()
        bench.gate.open()  # the gate that was asked before the truncation
        await bench.turns()
        assert bench.names()[-2:] == ["put", "gate"]
        bench.gate.open()
        await bench.turns()
        assert bench.names()[-4:] == ["publish", "heard", "kept", "new"]
        assert ("publish", 200) in bench.calls

    bench(main)


def test_a_gate_that_fails_because_of_a_truncation_fails_no_other_send(bench):
    async def main(bench):
        bench.submit("removed", message())
        await bench.turns()
        bench.store.end, bench.store.unpublished = 0, []
        bench.pipeline.truncated(0)
        bench.submit("new", message())
        await bench.turns()
        bench.gate.open(StoreError("the position is gone"))
        await bench.turns()
        bench.gate.open()
        await bench.turns()
        assert [call for call in bench.calls if call[0] in ("removed", "new")] == [
            ("removed", "StoreError"),
            ("new", ["OK"]),
        ]

    bench(main)


class AtOnce:
    """A gate that answers at once, twice; then it fails."""

    name = "at once"
    failing = False

    def ask(self, log_offset, answer):
        if self.failing:
            raise KeyError("asked")
        answer(None)
        answer(StoreError("a second answer counts for nothing"))


def test_a_gate_that_is_asked_passes_in_the_same_step(bench):
    async def main(bench):
        gate = AtOnce()
        bench.pipeline = Pipeline(bench.store, [gate, gate], bench.clock, 5.0)
        bench.submit("a", message())
        bench.pipeline.append_now()
        assert bench.names() == ["put", "publish", "a"]
        gate.failing = True
        bench.submit("b", message())
        bench.pipeline.append_now()
        assert bench.calls[-1] == ("b", "StoreError")
        gate.failing = False
        bench.submit("c", message())
        bench.pipeline.append_now()
        assert bench.calls[-1] == ("c", ["OK"])

    bench(main)


class Immediate(AskedGate):
    """Passes single sends at once, if it may."""

    may = True

    def pass_now(self, log_offset, *, alone):
        self.calls.append(("alone" if alone else "now", log_offset))
        return self.may


class Sends:
    """Sends through an `Immediate` gate."""

    def __init__(self, bench, *others):
        self.bench, self.gate, self.source = bench, Immediate(bench.calls), Source()
        bench.pipeline = Pipeline(bench.store, [self.gate, *others], bench.clock, 5.0)

    async def read(self, *sends, source=None):
        """Serve one read with *sends*, each of some messages, and all that follows; return the events."""
        start = len(self.bench.calls)
        self.start_read(*sends, source=source)
        await self.settle()
        return self.bench.names()[start:]

    def start_read(self, *sends, source=None):
        self.bench.pipeline.hold()
        for messages in sends:
            self.bench.submit("answer", *messages)
        self.bench.pipeline.release(source or self.source)

    async def settle(self):
        for _ in range(3):
            await self.bench.turns()
            self.gate.open()

    async def until_alone(self):
        """Send one message after the other until the source counts as alone; return the number of sends before."""
        for number in range(SINGLE_SENDS + 3):
            if "alone" in await self.read([message()]):
                return number
        return -1


AT_ONCE = ["put", "now", "publish", "answer"]


def test_a_single_send_passes_the_gate_at_once(bench):
    async def main(bench):
        sends = Sends(bench)
        assert await sends.read([message()]) == AT_ONCE
        assert await sends.read([message()], source=Source()) == AT_ONCE
        batch = [StoreMessage("T", 0, b"m", b"", same_file_as_previous=number > 0) for number in range(3)]
        assert await sends.read(batch) == AT_ONCE
        start = len(bench.calls)
        bench.submit("answer", message())  # of a plugin
        await sends.settle()
        assert bench.names()[start:] == AT_ONCE

    bench(main)


def test_few_sends_that_wait_for_the_disk_are_noticed_until_they_are_published(bench):
    async def main(bench):
        sends = Sends(bench)
        pipeline, sends.gate.may = bench.pipeline, False
        seen = []
        pipeline.on_published(lambda entries: seen.append(pipeline.few_wait_for_disk(2)))
        pipeline.on_passed(lambda: seen.append("passed"))
        sends.start_read([message()], [message(wait=False)])
        await bench.turns()
        assert [pipeline.few_wait_for_disk(most) for most in (0, 1)] == [False, True]
        sends.start_read([message()], [message()])
        await bench.turns()
        assert [pipeline.few_wait_for_disk(most) for most in (2, 3)] == [False, True]
        await sends.settle()
        assert (seen, pipeline.few_wait_for_disk(9)) == ([False, False, "passed"], False)
        sends.start_read([message(wait=False)])
        await bench.turns()
        assert not pipeline.few_wait_for_disk(9)  # nobody waits

    bench(main)


def test_senders_that_wait_for_replicas_too_do_not_wait_for_the_disk_alone(bench):
    async def main(bench):
        sends = Sends(bench, AskedGate([]))
        sends.start_read([message()])
        await bench.turns()
        assert not bench.pipeline.few_wait_for_disk(9)

    bench(main)


def test_several_sends_wait_for_the_gate_together(bench):
    async def main(bench):
        sends = Sends(bench)
        waits = ["put", "gate", "publish"]
        assert await sends.read([message(), message()]) == [*waits, "answer"]  # accepted by one template
        assert await sends.read([message()], [message()]) == [*waits, "answer", "answer"]
        start = len(bench.calls)
        sends.start_read([message()], source=Source())
        sends.start_read([message()], source=Source())
        await sends.settle()
        assert bench.names()[start:] == [*waits, "answer", "answer"]

    bench(main)


def test_a_send_while_another_waits_for_the_gate_waits_too(bench):
    async def main(bench):
        sends = Sends(bench)
        sends.gate.may = False
        sends.start_read([message()])
        await bench.turns()
        assert bench.names() == ["put", "now", "gate"]
        sends.gate.may = True
        sends.start_read([message()])
        await sends.settle()
        assert bench.names()[3:] == ["put", "publish", "answer", "gate", "publish", "answer"]
        bench.pipeline.appended_raw(bench.store.end + 100)  # of a master
        await bench.turns()
        assert bench.names()[-1] == "gate"

    bench(main)


def test_a_single_send_waits_for_a_gate_that_does_not_pass_at_once(bench):
    async def main(bench):
        sends = Sends(bench)
        sends.gate.may = False
        assert await sends.read([message()]) == ["put", "now", "gate", "publish", "answer"]

    bench(main)


def test_a_source_that_sends_one_message_at_a_time_is_alone(bench):
    async def main(bench):
        sends = Sends(bench)
        assert await sends.until_alone() == SINGLE_SENDS  # the first one is no repetition
        for _ in range(3):
            assert await sends.read([message()]) == ["put", "alone", "publish", "answer"]

    bench(main)


def test_no_messages_are_answered_too(bench):
    async def main(bench):
        sends = Sends(bench)
        assert await sends.read([]) == ["put", "answer"]
        assert await sends.read([message()]) == AT_ONCE

    bench(main)


async def of_another_source(sends):
    await sends.read([message()], source=Source())


async def without_a_source(sends):
    sends.bench.submit("of a plugin", message())
    await sends.settle()


async def several_in_one_read(sends):
    await sends.read([message(), message()])


async def before_the_answer(sends):
    sends.gate.may = False
    sends.start_read([message()])
    sends.start_read([message()])
    await sends.settle()
    sends.gate.may = True


async def a_request_without_sends(sends):
    await sends.read(source=Source())


@pytest.mark.parametrize(
    "other", [of_another_source, without_a_source, several_in_one_read, before_the_answer, a_request_without_sends]
)
def test_a_source_is_no_longer_alone_if_something_else_is_asked(bench, other):
    async def main(bench):
        sends = Sends(bench)
        await sends.until_alone()
        await other(sends)
        assert "alone" not in await sends.read([message()])
        assert await sends.until_alone() >= SINGLE_SENDS - 2

    bench(main)


def test_a_gate_among_several_never_passes_at_once(bench):
    async def main(bench):
        sends = Sends(bench, AtOnce())
        assert await sends.until_alone() == -1
        assert "now" not in bench.names()

    bench(main)
