"""From a read of the socket to the handlers, and how a broker turns clients away."""

from __future__ import annotations

import asyncio

import pytest
from broker_desk import pull_ext

from gantrymq.broker.wire.families import FAMILIES
from gantrymq.broker.wire.responses import ok
from gantrymq.broker.wire.router import IN_PLUGINS, NOT_BUILT, RequestRouter
from gantrymq.errors import NoPermission, ServerFault, ServiceNotAvailable, install_command
from gantrymq.remoting.codes import FLAG_ONEWAY, VERSION_5_3_1
from gantrymq.remoting.command import Command
from gantrymq.remoting.sends import SendCommand
from gantrymq.remoting.serving import handlers_of, serve_together


class FakeConnection:
    def __init__(self):
        self.closed = self.full = False
        self.principal = None
        self.answers = []
        self.closing = []

    def reply(self, asked, answer):
        self.answers.append((asked.opaque, answer.code, answer.remark))

    def put_back(self, commands):
        self.left = list(commands)

    def on_close(self, callback):
        self.closing.append(callback)


def asked(code, opaque=1, *, flag=0, version=479):
    return Command(code, opaque=opaque, flag=flag, version=version)


async def later(command, connection):
    await asyncio.sleep(0)
    if command.opaque == 9:
        raise NoPermission("not today")
    return ok(command)


def broken(command, connection):
    raise ZeroDivisionError("a bug")


def refused(command, connection):
    raise NoPermission("not here")


@pytest.fixture
def router():
    router = RequestRouter()
    router.add({1: lambda command, connection: ok(command), 2: refused, 3: broken, 4: later})
    router.add({5: lambda command, connection: None})
    return router


def answers_of(router, *commands):
    async def run():
        connection = FakeConnection()
        router.requests(connection, commands)
        await router.close()
        return connection.answers

    return asyncio.run(run())


def test_requests_of_one_read_are_answered_in_order(router):
    assert [opaque for opaque, _, _ in answers_of(router, *(asked(1, number) for number in range(5)))] == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_an_error_is_an_answer_and_the_next_request_is_served(router):
    assert answers_of(router, asked(2, 1), asked(1, 2)) == [(1, 16, "not here"), (2, 0, None)]


def test_a_bug_is_told_as_system_error_and_logged_with_its_place(router, caplog):
    ((_, code, remark), good) = answers_of(router, asked(3, 1), asked(1, 2))
    assert code == 1
    assert remark == str(ServerFault())
    assert good == (2, 0, None)
    assert "ZeroDivisionError" in caplog.text


def sent(opaque, code=310):
    return SendCommand(asked(code, opaque), b"{}", b"", 0, 0, b"ID")


def test_sends_alike_are_served_together_and_what_is_left_one_by_one(router):
    seen = []

    def together(commands, start, connection):
        behind = next((n for n in range(start, len(commands)) if commands[n].opaque in (3, 5)), len(commands))
        seen.append([command.opaque for command in commands[start:behind]])
        return behind - start

    router.add({310: lambda command, connection: ok(command)})
    router.add_together(together)
    commands = [sent(1), sent(2), sent(3), sent(4), asked(1, 5), sent(6)]
    assert answers_of(router, *commands) == [(3, 0, None), (5, 0, None)]
    assert seen == [[1, 2], [], [4], [6]]


def test_decisions_go_before_the_sends_among_which_they_came_and_these_come_together(router):
    seen = []

    def together(commands, start, connection):
        taken = next(
            (n for n in range(start, len(commands)) if not isinstance(commands[n], SendCommand)), len(commands)
        )
        seen.append([command.opaque for command in commands[start:taken]])
        return taken - start

    router.add({37: lambda command, connection: seen.append(command.opaque)})
    router.add_together(together)
    first, second = (asked(37, number, flag=FLAG_ONEWAY) for number in (2, 5))
    commands = [sent(1), first, sent(3), asked(37, 4), second, sent(6), sent(7), asked(1, 8)]
    assert answers_of(router, *commands) == [(8, 0, None)]
    assert seen == [[1], 2, 5, [3], 4, [6, 7]]


@pytest.mark.parametrize("decision_first", [True, False])
def test_the_decision_of_a_client_that_is_alone_waits_until_its_send_is_answered(router, decision_first):
    seen = []

    def together(commands, start, connection):
        seen.append(commands[start].opaque)
        return 1

    router.add({37: lambda command, connection: seen.append(command.opaque)})
    router.add_together(together)
    router.answer_before_decisions()
    decision = asked(37, 1, flag=FLAG_ONEWAY)
    connection = FakeConnection()
    router.requests(connection, [decision, sent(2)] if decision_first else [sent(2), decision])
    assert (seen, connection.left) == ([2], [decision])
    router.requests(connection, connection.left)
    assert seen == [2, 1]


def test_a_decision_beside_another_request_is_served_at_once(router):
    seen = []
    router.add({37: lambda command, connection: seen.append(command.opaque)})
    router.add_together(lambda commands, start, connection: 0)
    assert answers_of(router, asked(1, 1), asked(37, 2, flag=FLAG_ONEWAY)) == [(1, 0, None)]
    assert seen == [2]


def test_several_of_a_code_are_served_together_until_another_handler_is_added(router):
    seen = []

    def many(commands, start, connection):
        seen.append(len(commands) - start)
        return len(commands) - start

    router.add({5: serve_together(lambda command, connection: ok(command), many)})
    assert answers_of(router, asked(5, 1), asked(5, 2)) == []
    router.add({5: lambda command, connection: ok(command)})
    assert answers_of(router, asked(5, 1), asked(5, 2)) == [(1, 0, None), (2, 0, None)]
    assert seen == [2]


def test_an_error_of_sends_alike_is_told_to_each(router):
    def together(commands, start, connection):
        raise ServiceNotAvailable("the broker is stopping")

    router.add_together(together)
    stopping = "the broker is stopping"
    assert answers_of(router, sent(1), sent(2)) == [(1, 14, stopping), (2, 14, stopping)]


def served_together(handler):
    """A handler of code 5 that first serves together what has an even opaque; and what it served."""
    seen = []

    def together(commands, start, connection):
        taken = next((n for n in range(start, len(commands)) if commands[n].opaque % 2), len(commands))
        seen.append([command.opaque for command in commands[start:taken]])
        return taken - start

    return serve_together(handler, together), seen


def test_requests_of_one_code_are_served_together_and_what_is_left_one_by_one(router):
    handler, seen = served_together(lambda command, connection: ok(command))
    router.add({5: handler})
    assert answers_of(router, asked(5, 2), asked(5, 4), asked(5, 5), asked(5, 6)) == [(5, 0, None)]
    assert seen == [[2, 4], [], [6]]


def test_a_later_handler_of_the_code_serves_them_one_by_one(router):
    handler, seen = served_together(lambda command, connection: None)
    router.add({5: handler})
    router.add({5: lambda command, connection: ok(command)})
    assert answers_of(router, asked(5, 2), asked(5, 4)) == [(2, 0, None), (4, 0, None)]
    assert not seen


def test_requests_of_one_code_are_turned_away_too(router):
    handler, seen = served_together(lambda command, connection: ok(command))
    router.add({5: handler})
    router.turn_away()
    request = asked(5, 2)
    request.version = VERSION_5_3_1 + 1
    assert answers_of(router, request)[0][:2] == (2, 1500)
    assert not seen


@pytest.mark.parametrize("code", [10, 310])
def test_whoever_serves_a_code_of_sends_serves_them_one_by_one(router, code):
    router.add_together(lambda commands, start, connection: pytest.fail("asked"))
    router.add({code: lambda command, connection: ok(command)})
    assert answers_of(router, sent(1, code), sent(2, code)) == [(1, 0, None), (2, 0, None)]


def test_sends_alike_are_turned_away_too(router):
    router.add({310: lambda command, connection: ok(command)})
    router.add_together(lambda commands, start, connection: pytest.fail("asked"))
    router.turn_away()
    send = sent(1)
    send.version = VERSION_5_3_1 + 1
    assert answers_of(router, send)[0][:2] == (1, 1500)


def test_an_answer_that_takes_time_holds_up_no_other(router):
    assert answers_of(router, asked(4, 1), asked(1, 2), asked(4, 9)) == [
        (2, 0, None),
        (1, 0, None),
        (9, 16, "not today"),
    ]


@pytest.mark.parametrize("code", [1, 2, 3, 4, 9999])
def test_oneway_requests_are_never_answered(router, code):
    assert answers_of(router, asked(code, flag=FLAG_ONEWAY)) == []


def test_a_handler_that_answers_later_by_itself_is_left_to_it(router):
    assert answers_of(router, asked(5)) == []


def test_an_unknown_code_is_told_so(router):
    assert answers_of(router, asked(9999)) == [(1, 3, " request type 9999 not supported")]


def test_a_request_for_a_name_server_is_told_where_that_is(router):
    ((_, code, remark),) = answers_of(router, asked(105))
    assert code == 3
    assert "this port is a broker's; name servers are usually at port 9876" in remark


@pytest.mark.parametrize("code", sorted(NOT_BUILT))
def test_what_is_not_built_is_named(router, code):
    ((_, answered, remark),) = answers_of(router, asked(code))
    assert answered == 3
    assert "not implemented in this version" in remark


def test_core_serves_no_request_that_is_said_to_need_a_plugin():
    served = {code for family in FAMILIES for code in handlers_of(family)}
    assert served.intersection(IN_PLUGINS) == set()


@pytest.mark.parametrize("code", sorted(IN_PLUGINS))
def test_what_a_plugin_serves_is_told_with_the_command_that_brings_it(router, code):
    ((_, answered, remark),) = answers_of(router, asked(code))
    assert answered == 3
    assert install_command(IN_PLUGINS[code]) in remark


def test_what_a_plugin_serves_that_the_settings_leave_out_is_told_with_its_name():
    router = RequestRouter({"gantrymq-diagnosis": "diagnosis"})
    ((_, answered, remark),) = answers_of(router, asked(208))
    assert answered == 3
    assert remark == (
        "request 208 GET_CONSUME_STATS is served by plugin diagnosis, which plugins= leaves out; add it there, and "
        "restart the broker"
    )
    ((_, _, remark),) = answers_of(router, asked(321))
    assert install_command("gantrymq-filter-sql92") in remark


def test_a_later_handler_replaces_an_earlier_one(router):
    router.add({2: lambda command, connection: ok(command)})
    assert answers_of(router, asked(2)) == [(1, 0, None)]


def test_a_lost_connection_is_told_once_to_who_wants_to_know(router):
    lost = []
    router.on_connections(lambda connection: None, lost.append)
    connection = FakeConnection()
    router.requests(connection, [asked(1)])
    router.requests(connection, [asked(1)])
    (callback,) = connection.closing
    callback(connection)
    assert lost == [connection]


def test_a_stopping_broker_turns_away_clients_that_understand_it(router):
    router.turn_away()
    new, old = answers_of(router, asked(1, 1, version=476), asked(1, 2, version=475))
    assert new[1] == 1500
    assert old == (2, 0, None)


# --- a whole broker that stops --------------------------------------------------------------------------------------


def test_a_pull_that_waits_is_answered_when_the_broker_stops(broker):
    async def main(desk):
        await desk.send("T")
        held = desk.later(11, pull_ext("T", 1, wait_s=15))
        await desk.clock.sleep(1)
        before = desk.clock.monotonic()
        await desk.server.stop()
        assert (await held).code == 19
        assert desk.clock.monotonic() - before < 2

    broker(main)


def test_stopping_twice_is_stopping_once(broker):
    async def main(desk):
        await desk.server.stop()
        await desk.server.stop()

    broker(main)


def test_those_around_hear_of_the_end_though_an_answer_cannot_be_written(router):
    heard = []

    class Broken(FakeConnection):
        def reply(self, asked, answer):
            raise ZeroDivisionError("a bug")

    connection = Broken()
    router.around(lambda: heard.append("before"), heard.append)
    with pytest.raises(ZeroDivisionError):
        router.requests(connection, [asked(1, 1)])
    assert heard == ["before", connection]
