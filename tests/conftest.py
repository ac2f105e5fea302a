"""Configuration of every run: modules of `support` are importable, one Spark session is shared, and the report names
the compiled or Python functions in use. Hypothesis tries the same examples each time, without deadline or database."""

import asyncio
import gc
import logging
import os
import re
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

# Makes `import polling` and other modules of `support` work in every import mode of pytest.
SUPPORT = Path(__file__).parent / "support"
if str(SUPPORT) not in sys.path:
    sys.path.insert(0, str(SUPPORT))

from earlier_reports import ran_whole  # noqa: E402 (it is found only now)

if find_spec("hypothesis"):  # not every plugin's tests need it
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "repeatable", deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("repeatable")


# Tests of these folders run processes under kills, power cuts or load, simulate them call by call, or try the tools.
SLOW_FOLDERS = [
    Path(__file__).parent / name for name in ("chaos", "crash", "durability", "load", "simulation", "workspace")
]
GROUPS = ("interop", "kit", "long", "slow", "spark")  # marks that few files have
WHOLE_FILE = re.compile(r"^pytestmark = (.*)$", re.MULTILINE)
INHERITED = "Contract"  # gantrymq_testing's tests, of which some are slow

# tox's environments write no bytecode, because tests change source files within a second. Test files do not change:
# without their bytecode, each process of each environment would spend 30 s on rewriting their assertions.
WRITES_NO_BYTECODE = sys.dont_write_bytecode
if "TOX_ENV_NAME" in os.environ:
    sys.dont_write_bytecode = False


def pytest_addoption(parser):
    parser.addoption("--ran-in", help="leave out files that ran whole with core or a plugin alone, by the reports here")


def pytest_ignore_collect(collection_path, config):
    """Leave out files that cannot have a test of the groups asked for: to collect every test takes a process 45 s.

    With ``--ran-in`` leave out files that ran elsewhere, too.
    """
    if config.option.ran_in and collection_path.suffix == ".py":
        module = ".".join(collection_path.relative_to(config.rootpath).with_suffix("").parts)
        if module in ran_whole(config.option.ran_in):
            return True
    terms = config.option.markexpr.split(" and ")
    asked = [mark for mark in terms if mark in GROUPS]
    refused = [mark for mark in GROUPS if f"not {mark}" in terms]
    if not (asked or refused) or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    said = collection_path.read_text()
    of_all_tests = " ".join(WHOLE_FILE.findall(said))
    if is_in_slow_folder(collection_path):
        of_all_tests += " pytest.mark.slow"
    if any(f"pytest.mark.{mark}" in of_all_tests for mark in refused):
        return True
    possible = [mark for mark in GROUPS if mark in said or mark in of_all_tests]
    if INHERITED in said:
        possible.append("slow")
    return None if set(asked) <= set(possible) else True


def is_in_slow_folder(path):
    return any(path.is_relative_to(folder) for folder in SLOW_FOLDERS)


def pytest_itemcollected(item):
    if is_in_slow_folder(item.path):
        item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Hide modules and tests from the garbage collector: a full collection of them would stop every thread for so long
    that a request of a test in this process could miss its deadline.
    """
    sys.dont_write_bytecode = WRITES_NO_BYTECODE
    gc.collect()
    gc.freeze()


def pytest_report_header():
    if find_spec("gantrymq") is None:  # the plugin template's tests install it themselves
        return None
    from gantrymq import speedups

    return f"gantrymq: {speedups.description}"


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    pytest.importorskip("pyspark")
    from spark_session import started

    session = started(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()


@pytest.fixture
def longest_step(monkeypatch):
    """Return a list: the longest step of any event loop, in seconds of its thread's CPU time, and its description.

    There is no full collection of garbage meanwhile, which would be such a step, of the objects of earlier tests too.
    """
    longest, run = [0.0, ""], asyncio.Handle._run

    def measured(handle):
        began = time.thread_time()
        run(handle)
        if (took := time.thread_time() - began) > longest[0]:
            longest[:] = took, repr(handle)

    gc.collect()
    thresholds = gc.get_threshold()
    gc.set_threshold(*thresholds[:2], 10**9)
    monkeypatch.setattr(asyncio.Handle, "_run", measured)
    yield longest
    gc.set_threshold(*thresholds)


@pytest.fixture(autouse=True)
def same_root_logger():
    """Remove what a command in this process adds to the root logger: it would bound the records of other tests."""
    root, last = logging.getLogger(), logging.lastResort
    handlers, level, filters = root.handlers[:], root.level, last.filters[:]
    yield
    for handler in root.handlers[:]:
        if handler not in handlers:
            handler.close()
    root.handlers[:], last.filters[:] = handlers, filters
    root.setLevel(level)
