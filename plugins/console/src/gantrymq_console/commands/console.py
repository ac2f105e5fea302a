"""``gantrymq console``: the web console in a process of its own."""

from __future__ import annotations

import click

from gantrymq.commands.output import namesrv_option, output_option, print_json, say
from gantrymq.commands.run import run, stop_requested
from gantrymq.errors import ConfigError
from gantrymq.model.hosts import parse_address
from gantrymq.world.real import real_world

__all__ = ["console"]


@click.command()
@click.option("--listen", default="127.0.0.1:8088", show_default=True, metavar="HOST:PORT", help="Where to listen.")
@namesrv_option
@output_option
def console(listen: str, namesrv: str, output: str) -> None:
    """Serve the web console until Ctrl-C."""
    from gantrymq_console.access.audit import MemoryAudit
    from gantrymq_console.access.users import Everyone
    from gantrymq_console.running import RunningConsole
    from gantrymq_console.web.console import Exposure

    host, port = parse_address(listen)

    async def serve() -> None:
        stopped = stop_requested()
        running = RunningConsole(real_world(), namesrv, Everyone(), MemoryAudit(), Exposure())
        try:
            address = await running.start(host, port)
        except OSError as problem:
            raise ConfigError(f"cannot listen on {listen}: {problem.strerror or problem}") from problem
        try:
            if output == "json":
                print_json({"ready": True, "console": address})
            else:
                say(f"console: {address}")
            await stopped.wait()
        finally:
            await running.stop()

    run(serve())
