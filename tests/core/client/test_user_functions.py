"""Which functions of an application are accepted, and handling of their results and exceptions."""

import asyncio
import concurrent.futures
import functools

import pytest

from gantrymq.client.user_functions import (
    await_result,
    call_function,
    check_function,
    is_async,
    is_failure,
    notify,
    require_plain,
    running_task,
)
from gantrymq.errors import InvalidParameter


async def work(*_):
    return 7


def plain(*_):
    return 7


def generator(*_):
    yield 7


async def async_generator(*_):
    yield 7


class Object:
    async def __call__(self, *_):
        return 7

    async def method(self, *_):
        return 7


class Generating:
    def __call__(self, *_):
        yield 7


ASYNC = {
    "function": work,
    "partial": functools.partial(work, 1),
    "object": Object(),
    "partial of an object": functools.partial(functools.partial(Object(), 1), 2),
    "method": Object().method,
}


@pytest.mark.parametrize("kind", ASYNC)
def test_async_functions_are_known_before_they_are_called(kind):
    check_function(ASYNC[kind], "it")
    assert is_async(ASYNC[kind])
    with pytest.raises(InvalidParameter, match="^it is async; expected a plain function: not here$"):
        check_function(ASYNC[kind], "it", plain="not here")


@pytest.mark.parametrize("function", [plain, functools.partial(plain, 1), print, str, lambda: work()])
def test_plain_functions_are_taken(function):
    check_function(function, "it", plain="not here")
    assert not is_async(function)


@pytest.mark.parametrize(
    "function",
    [generator, async_generator, functools.partial(generator, 1), Generating(), functools.partial(Generating())],
)
def test_generator_functions_are_refused(function):
    with pytest.raises(InvalidParameter, match="^it is a generator function .it has 'yield'."):
        check_function(function, "it")


@pytest.mark.parametrize("function", [None, 5, "handle"])
def test_what_cannot_be_called_is_refused(function):
    with pytest.raises(InvalidParameter, match="^it is .*; expected a function$"):
        check_function(function, "it")


class Awaitable:
    def __await__(self):
        return work().__await__()


def submitted():
    future = concurrent.futures.Future()
    future.set_result(7)
    return future


RETURNED = {
    "coroutine": work,
    "future": lambda: asyncio.ensure_future(work()),
    "awaitable": Awaitable,
    "coroutine of a coroutine": lambda: nested(),
    "future of a pool": submitted,
    "value": plain,
}


async def nested():
    return work()


@pytest.mark.parametrize("kind", RETURNED)
def test_what_is_returned_is_awaited_to_its_end(kind):
    async def main():
        return await await_result(RETURNED[kind](), "it")

    assert asyncio.run(main()) == 7


def test_a_generator_that_is_returned_is_refused():
    for result in (generator(), async_generator()):
        with pytest.raises(InvalidParameter, match="it returned a generator"):
            asyncio.run(await_result(result, "it"))
        with pytest.raises(InvalidParameter, match="it returned a generator"):
            require_plain(result, "it")


def test_where_nothing_is_awaited_an_awaitable_is_refused_without_a_warning():
    with pytest.raises(InvalidParameter, match="it returned coroutine, which is not awaited here"):
        require_plain(work(), "it")
    assert require_plain(7, "it") == 7


@pytest.mark.parametrize("kind", [StopIteration, asyncio.CancelledError, concurrent.futures.CancelledError])
def test_errors_that_would_end_the_caller_unnoticed_are_others_outside_of_the_function(kind):
    def raising():
        raise kind

    with pytest.raises(RuntimeError, match=f"raising raised {kind.__name__}") as raised:
        call_function(raising)
    assert type(raised.value.__cause__) is kind


def test_a_thread_that_raises_stop_iteration_ends_the_wait():
    async def main():
        loop = asyncio.get_running_loop()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            await asyncio.wait_for(loop.run_in_executor(pool, call_function, next, iter(())), 10)

    with pytest.raises(RuntimeError, match="next raised StopIteration"):
        asyncio.run(main())


def test_a_cancellation_of_the_task_is_no_failure_of_the_function():
    async def main(cancel):
        task = running_task()
        if cancel:
            task.cancel()
        try:
            await asyncio.sleep(0)
            raise asyncio.CancelledError
        except asyncio.CancelledError as error:
            return is_failure(error, task)

    assert asyncio.run(main(False)) is True
    assert asyncio.run(main(True)) is False
    assert is_failure(asyncio.CancelledError(), None)


class Odd(BaseException):
    pass


def test_only_what_ends_the_program_is_not_a_failure():
    assert [is_failure(kind(), None) for kind in (Odd, ValueError, GeneratorExit)] == [True] * 3
    assert [is_failure(kind(), None) for kind in (KeyboardInterrupt, SystemExit)] == [False] * 2


def test_a_coroutine_that_is_closed_is_not_kept_from_it():
    async def main():
        task = running_task()
        try:
            await asyncio.Event().wait()
        except BaseException as error:
            found.append(is_failure(error, task))
            raise

    found = []
    loop = asyncio.new_event_loop()
    coroutine = main()
    task = loop.create_task(coroutine)
    loop.call_soon(loop.stop)
    loop.run_forever()
    coroutine.close()
    task.cancel()
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert found == [False]


@pytest.mark.parametrize("kind", [ValueError, asyncio.CancelledError, Odd])
@pytest.mark.parametrize("is_plain", [True, False])
def test_what_a_listener_raises_is_logged_and_ends_nothing(kind, is_plain, caplog):
    def raising(what):
        raise kind(what)

    async def raising_later(what):
        raising(what)

    asyncio.run(notify("a listener", raising if is_plain else raising_later, 5))
    (record,) = caplog.records
    assert record.getMessage() == "a listener raised"
    assert record.exc_info[0] is kind
