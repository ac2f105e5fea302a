"""The bound of repeated log lines."""

import io
import logging

import pytest

from gantrymq.commands.repeated_lines import MOST, WINDOW_S, RepeatedLines


class Log:
    """A logger with the filter, whose records have the time of the test."""

    def __init__(self):
        self.now_s = 1_000_000.0
        self.stream = io.StringIO()
        handler = logging.StreamHandler(self.stream)
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        self.repeated = RepeatedLines(handler)
        handler.addFilter(self._at_now)
        handler.addFilter(self.repeated)
        self.logger = logging.Logger("test", logging.DEBUG)
        self.logger.addHandler(handler)

    def _at_now(self, record):
        record.created = self.now_s
        return True

    def lines(self):
        return self.stream.getvalue().splitlines()


@pytest.fixture
def log():
    return Log()


def flood(log, count, text="disk is %d %% full"):
    for number in range(count):
        log.logger.warning(text, number)


def test_a_call_writes_a_number_of_lines_a_minute_and_then_the_count_of_the_others(log):
    flood(log, 2000)
    assert len(log.lines()) == MOST
    assert log.lines()[-1] == (
        f"WARNING disk is {MOST - 1} % full (further lines like this are counted until 60 s after the first)"
    )
    log.now_s += WINDOW_S
    log.logger.info("something else")
    assert log.lines()[MOST:] == [
        f"WARNING {2000 - MOST} more lines like this, the last: disk is 1999 % full",
        "INFO something else",
    ]
    flood(log, 1)
    assert log.lines()[-1] == "WARNING disk is 0 % full"


def test_calls_do_not_share_their_bound(log):
    flood(log, MOST)
    log.logger.warning("a call of its own")
    assert log.lines()[-1] == "WARNING a call of its own"


def test_levels_below_info_are_not_limited(log):
    for number in range(MOST + 5):
        log.logger.debug("frame %d", number)
    assert len(log.lines()) == MOST + 5


def test_the_end_of_the_process_writes_the_counts(log):
    flood(log, MOST + 3)
    log.repeated.close()
    log.repeated.close()
    assert log.lines()[MOST:] == [f"WARNING 3 more lines like this, the last: disk is {MOST + 2} % full"]


def test_a_clock_that_is_set_back_does_not_prolong_a_window(log):
    flood(log, MOST + 1)
    log.now_s -= 3600
    flood(log, 1)
    assert log.lines()[-1] == "WARNING disk is 0 % full"


def test_a_kind_of_exception_has_one_traceback_in_a_window(log):
    def fail(problem):
        try:
            raise problem
        except Exception:
            log.logger.exception("the step failed")

    for problem in (OSError("a"), OSError("b"), ValueError("c")):
        before = len(log.lines())
        fail(problem)
        traced = any("Traceback" in line for line in log.lines()[before:])
        assert traced == (str(problem) != "b")
    assert "ERROR the step failed: OSError: b" in log.lines()


class Unreadable(Exception):
    def __str__(self):
        raise ValueError


def test_records_that_cannot_be_formatted_do_not_raise_in_the_caller(log, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)  # the handler would print what the filter leaves to it
    for _ in range(MOST + 2):
        log.logger.warning("disk is %d %% full", "not")
    for _ in range(MOST + 2):
        try:
            raise Unreadable
        except Unreadable as error:
            log.logger.warning("broken", exc_info=error)
    log.repeated.close()
    assert "WARNING 2 more lines like this, the last: disk is %d %% full" in log.lines()
    assert "WARNING broken: Unreadable: (its text cannot be read)" in log.lines()
