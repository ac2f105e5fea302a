"""``gantrymq pipeline replay``: send messages to a topic again."""

from __future__ import annotations

from datetime import UTC, datetime

import attrs
import click

from gantrymq.errors import ConfigError
from gantrymq.plugin.commands import output_option, print_json, print_table, say
from gantrymq.plugin.real_world import RealClock
from gantrymq_spark.commands.inputs import check_input, input_options
from gantrymq_spark.commands.spark import job_session, spark_options
from gantrymq_spark.jobs.inputs import Input
from gantrymq_spark.jobs.replay_send import Sent, read_speed
from gantrymq_store_tools.findings import counted

_LINE_S = 10.0


@click.command()
@input_options
@click.option("--to-topic", required=True, metavar="NAME", help="The target topic.")
@click.option("--to-namesrv", metavar="ADDR", help="Name servers of the target topic; by default those of --namesrv.")
@click.option("--speed", default="1x", show_default=True, metavar="SPEED", help="1x, 10x, another number, or max.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent without sending it.")
@spark_options
@output_option
def replay(
    given: Input,
    to_topic: str,
    to_namesrv: str | None,
    speed: str,
    dry_run: bool,
    master: str | None,
    conf: dict[str, str],
    output: str,
) -> None:
    """Send messages of live topics, of a store (--store) or of an archive (--archive) to a topic again.

    Messages of one queue go to one queue, in order, with the intervals of their store times divided by the speed. Each
    has a property GANTRYMQ_SINK_ID that names the queue offset it was read from, so repeated messages of several runs
    can be recognized.
    """
    from gantrymq_spark.jobs.replay import plan_replay, rows_to_replay
    from gantrymq_spark.jobs.replay import replay as work

    check_input(given)
    try:
        times = read_speed(speed)
    except ConfigError as problem:
        raise click.BadParameter(str(problem), param_hint="--speed") from None
    namesrv = to_namesrv or given.namesrv
    if namesrv is None:
        raise click.UsageError(
            "the name servers of the target are missing; give --to-namesrv or -n, or set NAMESRV_ADDR"
        )
    if dry_run:
        with job_session("replay", master, conf) as session:
            plan = plan_replay(rows_to_replay(session, given), to_topic, namesrv, times)
        if output == "json":
            print_json({"dryRun": True, "topic": to_topic, **_camel(plan.to_json())})
            return
        lasts = "" if plan.lasts_s is None else f", in {plan.lasts_s:.1f} s"
        click.echo(
            f"{_amount(plan.messages, plan.body_bytes)}, stored {_moment(plan.first_ms)} to {_moment(plan.last_ms)}, "
            f"would be sent to {to_topic}{lasts}"
        )
        if plan.queues:
            print_table(("Broker", "Queue", "Messages"), [(q.broker_name, q.queue_id, n) for q, n in plan.queues])
        return
    sent, told = Sent(), _ProgressLine()
    done = False
    with job_session("replay", master, conf) as session:
        try:
            work(rows_to_replay(session, given), to_topic, namesrv, times, sent, told)
            done = True
        finally:
            if output == "json":
                print_json({"dryRun": False, "topic": to_topic, "complete": done, **_camel(attrs.asdict(sent))})
            if not done:
                _say_stopped(sent, times)
    if output != "json":
        click.echo(
            f"{_amount(sent.messages, sent.body_bytes)}, stored {_moment(sent.first_ms)} to {_moment(sent.last_ms)}, "
            f"{'was' if sent.messages == 1 else 'were'} sent to {to_topic}"
        )


class _ProgressLine:
    """Prints a progress line every `_LINE_S` seconds."""

    def __init__(self) -> None:
        self._next_s = RealClock().monotonic() + _LINE_S

    def __call__(self, sent: Sent) -> None:
        if RealClock().monotonic() >= self._next_s:
            self._next_s = RealClock().monotonic() + _LINE_S
            say(f"{counted(sent.messages, 'message')} sent, stored up to {_moment(sent.last_ms)}")


def _say_stopped(sent: Sent, times: float | None) -> None:
    if times is None:
        say("stopped before the end; the same command sends everything again, with the same ids")
    elif sent.last_ms is None:
        say("stopped; no message is known to have been sent")
    else:
        say(
            f"stopped after {counted(sent.messages, 'message')}, stored up to {_moment(sent.last_ms)}; --since "
            f"{sent.last_ms} continues there, and messages that are sent twice have the same id"
        )


def _amount(messages: int, body_bytes: int) -> str:
    return f"{counted(messages, 'message')} with {counted(body_bytes, 'byte')} of bodies"


def _moment(at_ms: int | None) -> str:
    return "-" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _camel(members: dict[str, object]) -> dict[str, object]:
    def spelled(name: str) -> str:
        first, *rest = name.split("_")
        return first + "".join(word.capitalize() for word in rest)

    return {spelled(name): value for name, value in members.items()}
