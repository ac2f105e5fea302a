"""Helpers of connection tests: an event loop per test, encoded requests, and an echo handler."""

import asyncio
import functools

from gantrymq.remoting.command import Command, encode


def in_loop(test):
    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))

    return run


async def turn():
    """Run everything that is due now."""
    for _ in range(3):
        await asyncio.sleep(0)


def asked(code=11, opaque=1, serialize=0, flag=0, body=None):
    return encode(Command(code, opaque=opaque, serialize=serialize, flag=flag, body=body))


def echo(connection, command):
    connection.reply(command, Command(0, ext={"code": str(command.code)}, body=command.body))
