"""Hooks, traces and contexts of the client for threads."""

import threading
from contextvars import ContextVar

import pytest

from gantrymq.client import ConsumeOutcome
from gantrymq.client.sync import Client, Message
from gantrymq.errors import ClientError

current = ContextVar("current", default="none")


class Following:
    """Carries a variable of the context on, as tracers do."""

    def __init__(self):
        self.sent, self.outcomes = [], []

    def before_send(self, context):
        self.sent.append((context.topic, current.get()))
        context.messages[0].properties["traceparent"] = current.get()

    def after_send(self, context):
        assert context.result is not None

    def before_consume(self, context):
        if context.in_task:
            context.notes[self] = current.set("in " + context.messages[0].properties["traceparent"])

    def after_consume(self, context):
        if context.in_task:
            current.reset(context.notes[self])
        self.outcomes.append(context.outcome)


def test_the_context_of_a_thread_goes_with_its_calls_and_comes_to_its_handlers(servers):
    hook, seen = Following(), []
    with Client(servers.namesrv, hooks=[hook], trace=True) as client:
        producer = client.producer("shop")
        current.set("order")
        producer.send(Message("Orders", b"1"))
        consumer = client.consumer("billing", "Orders", consume_from="first")

        def handle(message):
            seen.append(current.get())
            producer.send(Message("Bills", b"1"))
            consumer.close()

        consumer.run(handle, concurrency=1)
    assert seen == ["in order"] and current.get() == "order"
    assert hook.sent == [("Orders", "order"), ("Bills", "in order")]
    assert hook.outcomes == [ConsumeOutcome.SUCCESS]


def test_a_loop_of_a_thread_is_told_of_message_by_message(servers):
    hook = Following()
    with Client(servers.namesrv, hooks=[hook]) as client:
        producer = client.producer("shop")
        for number in range(5):
            producer.send(Message("Orders", b"%d" % number))
        taken = []
        for message in client.consumer("billing", "Orders", consume_from="first"):
            taken.append(message.message_id)
            if len(taken) == 5:
                break
            assert not current.get().startswith("in ")
    assert hook.outcomes == [ConsumeOutcome.SUCCESS] * 4 + [ConsumeOutcome.GIVEN_BACK]


def test_batches_of_a_thread_are_told_of(servers):
    hook = Following()
    with Client(servers.namesrv, hooks=[hook]) as client:
        client.producer("shop").send_batch([Message("Orders", b"%d" % number) for number in range(5)])
        for _ in client.consumer("billing", "Orders", consume_from="first").batches(5):
            break
    assert hook.outcomes == [ConsumeOutcome.GIVEN_BACK]


class Processed(Following):
    """Records the thread in which hooks are called for the processing of messages."""

    def __init__(self):
        super().__init__()
        self.told = []

    def begin_processing(self, contexts):
        self.told.append(("begin", threading.current_thread(), len(contexts)))

    def end_processing(self, contexts):
        self.told.append(("end", threading.current_thread(), len(contexts)))


def test_messages_in_the_hand_of_a_thread_are_processed_in_its_context(servers):
    hook, here = Processed(), threading.current_thread()
    with Client(servers.namesrv, hooks=[hook]) as client:
        client.producer("shop").send(Message("Orders", b"1"))
        consumer = client.consumer("billing", "Orders", consume_from="first", auto_ack=False)
        for message in consumer:
            with consumer.processing(message):
                assert hook.told == [("begin", here, 1)]
                assert consumer.ack(message)
            break
        assert hook.told == [("begin", here, 1), ("end", here, 1)]
        by_itself = client.consumer("audit", "Orders")
        with pytest.raises(ClientError, match="acknowledges automatically"):
            by_itself.processing(message)
