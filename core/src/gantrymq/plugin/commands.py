"""Commands of ``gantrymq``: groups, options, output, times, and running coroutines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq.commands.groups import CommandGroup as CommandGroup
    from gantrymq.commands.imported import ImportedCommand as ImportedCommand
    from gantrymq.commands.output import DEFAULT_NAMESRV as DEFAULT_NAMESRV
    from gantrymq.commands.output import Command as Command
    from gantrymq.commands.output import FilledPath as FilledPath
    from gantrymq.commands.output import body_members as body_members
    from gantrymq.commands.output import body_text as body_text
    from gantrymq.commands.output import check_address as check_address
    from gantrymq.commands.output import namesrv_option as namesrv_option
    from gantrymq.commands.output import output_option as output_option
    from gantrymq.commands.output import print_json as print_json
    from gantrymq.commands.output import print_table as print_table
    from gantrymq.commands.output import say as say
    from gantrymq.commands.output import warn as warn
    from gantrymq.commands.repeated_lines import bound_repeated_lines as bound_repeated_lines
    from gantrymq.commands.run import run as run
    from gantrymq.commands.run import stop_requested as stop_requested
    from gantrymq.commands.times import LATER_TIMES as LATER_TIMES
    from gantrymq.commands.times import TIMES as TIMES
    from gantrymq.commands.times import local_time as local_time
    from gantrymq.commands.times import read_duration_ms as read_duration_ms
    from gantrymq.commands.times import read_time_ms as read_time_ms
    from gantrymq.strict_json import dumps as dumps
else:
    from gantrymq.plugin.lazy import lazy_exports

    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "gantrymq.commands.groups": "CommandGroup",
            "gantrymq.commands.imported": "ImportedCommand",
            "gantrymq.commands.output": (
                "Command DEFAULT_NAMESRV FilledPath body_members body_text check_address namesrv_option "
                "output_option print_json print_table say warn"
            ),
            "gantrymq.commands.repeated_lines": "bound_repeated_lines",
            "gantrymq.commands.run": "run stop_requested",
            "gantrymq.commands.times": "LATER_TIMES TIMES local_time read_duration_ms read_time_ms",
            "gantrymq.strict_json": "dumps",
        },
    )
