"""Brokers for bad input. After a test each one must still serve, and must have logged no error."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

# These folders have no __init__.py (pytest runs in importlib mode): their helpers are found by path.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

from bad_input_table import Row, read_rows
from faulty_broker import DEADLINE_S, PROGRAM, START, Running, Sentences, start_broker, start_name_server

if find_spec("gantrymq_storage_mmap") is None or find_spec("gantrymq_filter_tag") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def rows() -> dict[str, Row]:
    """The rows of bad_input.toml."""
    return read_rows()


@pytest.fixture
def row(request: pytest.FixtureRequest, rows: dict[str, Row]) -> Row:
    """The row named by a test: ``test_bi07_...`` is about BI-07."""
    number, _, _ = request.function.__name__.removeprefix("test_bi").partition("_")
    return rows[f"BI-{number}"]


@pytest.fixture
def logged() -> Iterator[Sentences]:
    """GantryMQ's log records during a test; an error or a traceback fails it."""
    handler = Sentences()
    loggers = [logging.getLogger(name) for name in ("gantrymq", "gantrymq_nameserver")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
    yield handler
    for logger, level in zip(loggers, levels, strict=True):
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert handler.errors() == []


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The broker that all tests of a module write to."""
    running = start_broker(tmp_path_factory.mktemp("broker") / "store")
    yield running
    running.close()


@pytest.fixture(scope="module")
def one_name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The name server that all tests of a module write to."""
    running = start_name_server(tmp_path_factory.mktemp("name_server"))
    yield running
    running.close()


@pytest.fixture
def broker(one_broker: Running, logged: Sentences) -> Iterator[Running]:
    """A broker with the usual settings."""
    yield one_broker
    assert one_broker.serves()


@pytest.fixture
def name_server(one_name_server: Running, logged: Sentences) -> Iterator[Running]:
    """A name server."""
    yield one_name_server
    assert one_name_server.serves()


@pytest.fixture
def broker_with(tmp_path: Path, logged: Sentences) -> Iterator[Callable[..., Running]]:
    """Start a broker on ``tmp_path / "store"`` with the given settings."""
    started: list[Running] = []

    def begin(**given: Any) -> Running:
        started.append(start_broker(tmp_path / "store", **given))
        return started[-1]

    yield begin
    try:
        for running in started:
            assert running.serves()
    finally:
        for running in started:
            running.close()


class Program:
    """``gantrymq start`` as a process, on free ports of the loopback address."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._running: list[subprocess.Popen[str]] = []

    def begin(self, *words: object, command: Sequence[object] = START, **environ: str) -> subprocess.Popen[str]:
        """Start it with more *words* and leave it running."""
        usual = (*command, "--log-level", "warning", "--output", "json")
        clean = {key: value for key, value in os.environ.items() if key != "NAMESRV_ADDR"}
        small = {"mappedFileSizeCommitLog": "4194304"}
        process = subprocess.Popen(
            [PROGRAM, *map(str, (*usual, *words))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**clean, **small, "HOME": str(self._home), **environ},
            cwd=self._home,
        )
        self._running.append(process)
        return process

    def ends(self, *words: object, **more: Any) -> tuple[str, str]:
        """Return the result of a start with *words*: ``exit <code>`` and everything on stderr."""
        process = self.begin(*words, **more)
        out, errors = process.communicate(timeout=DEADLINE_S)
        if "json" in process.args:  # one document, of the same sentence
            assert f": {json.loads(out)['message']}\n" in errors
        else:
            assert out == ""
        return f"exit {process.returncode}", errors

    def refusal(self, *words: object, **more: Any) -> tuple[str, str]:
        """Like `ends`, for a start that ends with one sentence only: return the sentence first, then the code."""
        code, errors = self.ends(*words, **more)
        assert errors.startswith("gantrymq: "), errors
        assert errors.count("\n") == 1, errors
        return errors.removeprefix("gantrymq: "), code

    def close(self) -> None:
        """Kill processes that are still running."""
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """The command line, with ``tmp_path`` as its home and working folder."""
    program = Program(tmp_path)
    yield program
    program.close()
