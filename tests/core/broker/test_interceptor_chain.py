"""An interceptor that names properties sees the messages that carry one of them, from any source."""

from __future__ import annotations

import attrs
import pytest
from broker_desk import records

from gantrymq.broker.counting.stats import Stats
from gantrymq.broker.sending.interceptor_chain import InterceptorChain
from gantrymq.interfaces import MovedMessage, StoreMessage
from gantrymq.model import properties as props


class Noting:
    """Notes bodies."""

    def __init__(self, order, *names, entries=True):
        self.order, self.entries, self.seen = order, entries, []
        if names:
            self.properties = frozenset(names)

    def __call__(self, message):
        self.seen.append(bytes(message.body))
        return message


def text(**own):
    return props.encode(own)


def test_all_see_all_that_name_nothing_and_the_others_what_they_name():
    every, red, blue = Noting(1), Noting(2, "RED", "PINK"), Noting(3, "BLUE")
    them = InterceptorChain((every, red, blue), Stats())
    assert them.names == {"RED", "PINK", "BLUE"}
    for own in ({}, {"PINK": "1"}, {"A": "b", "RED": "1", "BLUE": "1"}, {"XRED": "1"}, {"A": "RED"}):
        message = StoreMessage("T", 0, repr(own).encode(), text(**own))
        assert them.apply_undecoded(message) is message
    assert len(every.seen) == 5
    assert red.seen == [b"{'PINK': '1'}", b"{'A': 'b', 'RED': '1', 'BLUE': '1'}"]
    assert blue.seen == red.seen[1:]


def test_names_are_taken_literally():
    them = InterceptorChain((dotted := Noting(1, "a.c"),), Stats())
    them.apply_undecoded(StoreMessage("T", 0, b"no", text(abc="1")))
    them.apply_undecoded(StoreMessage("T", 0, b"yes", text(**{"a.c": "1"})))
    assert dotted.seen == [b"yes"]


@pytest.mark.parametrize("entries", [True, False])
def test_sends_batches_and_what_plugins_put_obey_the_same_rule(broker, plugins, entries):
    red = Noting(1, "RED", entries=entries)

    class Putting:
        name = "putting"

        async def start(self, broker):
            self.broker = broker

        async def stop(self):
            pass

    putting = Putting()

    async def main(desk):
        await desk.send("T", b"plain")
        await desk.send("T", b"single", properties="RED\x011\x02")
        await desk.send_batch("T", [(b"entry", text(RED="1")), (b"other", b"")])
        put = putting.broker
        await put.messages.put(StoreMessage("T", 0, b"put", text(RED="1")))
        await put.messages.put_all([StoreMessage("T", 0, b"put too", text(RED="1")), StoreMessage("T", 0, b"not", b"")])
        await put.messages.put_all([StoreMessage("T", 0, b"seen before", text(RED="1"))], skip_interceptors=True)
        assert len(records(await desk.pull("T"))) == 8

    broker(main, plugins=attrs.evolve(plugins, interceptors=(red,), services=(putting,)))
    assert red.seen == [b"single", *([b"entry"] if entries else []), b"put", b"put too"]


def test_a_sender_is_told_what_an_interceptor_says_of_the_message_it_moved(broker, plugins):
    class Moving(Noting):
        def __call__(self, message):
            made = MovedMessage("U", 0, message.body, message.properties)
            made.answer_fields = {"recallHandle": "h"}
            return made

    async def main(desk):
        await desk.send("U", b"it makes its topic")
        moved = await desk.send("T", b"x", properties="RED\x011\x02")
        plain = await desk.send("T", b"y")
        assert moved.ext["recallHandle"] == "h"
        assert "recallHandle" not in plain.ext
        assert [len(records(await desk.pull(topic))) for topic in "UT"] == [2, 1]

    broker(main, plugins=attrs.evolve(plugins, interceptors=(Moving(1, "RED"),)))
