"""Requests that pages of the web console send to name servers and brokers, without answers kept from before.

    python benchmarks/bench_console_requests.py

Name server, broker and console run in this process. The topic of the message has one group, which is online, has a
retry topic and has not consumed the message; the message has a trace.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import load_client  # noqa: F401  makes the drivers of the tests importable
from console_requests import HOME_LIMIT, MESSAGE_LIMIT, join_group, requests_of, send_traced
from console_visitor import Visitor

from gantrymq_testing import RunningBroker


def main() -> int:
    """Print a row for each page; return 1 if one sends more than its goal."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    over = False
    with (
        tempfile.TemporaryDirectory(prefix="gantrymq-requests-") as folder,
        RunningBroker(Path(folder)) as running,
        Visitor(running) as visitor,
    ):
        message = send_traced(visitor)
        join_group(visitor, 0)
        goals = {"/": HOME_LIMIT, message: MESSAGE_LIMIT}
        others = (
            "/topics",
            "/topics/Orders",
            "/topics/Orders/groups",
            "/groups",
            "/groups/billing",
            "/clients",
            "/brokers",
        )
        print(f"{'page':60}{'requests':>10}{'goal':>6}")
        for path in (*goals, *others):
            count = sum(requests_of(visitor, path)[1].values())
            goal = goals.get(path)
            print(f"{path:60}{count:10}{'' if goal is None else goal:>6}")
            over = over or (goal is not None and count > goal)
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
