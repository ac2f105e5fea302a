"""Extracts the relevant sentence from Spark's error messages, which are pages long."""

from __future__ import annotations

import re

_OURS = re.compile(r"^\s*gantrymq[\w.]*\.\w+: (.+)$", re.MULTILINE)  # the last line of a traceback
_VERSIONS = re.compile(r"Python in worker(?: has)?(?: a)? different version:? \D*(\d[\d.]*)\D+(\d[\d.]*\d)")
_MODULE = re.compile(r"^\s*ModuleNotFoundError: No module named '([\w]+)", re.MULTILINE)
_PYTHONS = re.compile(r"^\s*((?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)(?:: .+)?)$", re.MULTILINE)
_JAVAS = re.compile(r"^: (?:[\w.$]+: )?(.+)$", re.MULTILINE)
_LOST = re.compile(r"most recent failure: Lost task [^:]*: (?:[\w.$]+(?:Exception|Error): )?(.+)")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_SPARKS = re.compile(r"^(?:\[[\w.]+\] )?(.+?)(?:\.? SQLSTATE: \w+.*)?$", re.MULTILINE)
_PAGE = "docs/spark/cluster.md describes its installation"


def sentence_of(text: str) -> str:
    """Return GantryMQ's own sentence if *text* contains one, else the first message of a worker or of Spark."""
    if ours := _OURS.findall(text):
        return str(ours[-1]).strip()
    if versions := _VERSIONS.search(text):
        return f"executors run Python {versions[1]}, the driver {versions[2]}; set PYSPARK_PYTHON to the same version"
    if module := _MODULE.search(text):
        return f"the Python of the executors has no {module[1]}; {_PAGE}"
    if program := _NO_PROGRAM.search(text):
        return f"executors have no {program[1]}; set PYSPARK_PYTHON to an installed Python, {_PAGE}"
    if "Traceback (most recent call last)" in text and (pythons := _PYTHONS.findall(text)):
        return f"a task failed: {pythons[-1].strip()}"
    if lost := _LOST.search(text):
        return f"a task failed: {lost[1].strip()}"
    if javas := _JAVAS.search(text):
        return f"Spark: {javas[1].strip()}"
    first = _SPARKS.search(text.strip())
    return f"Spark: {first[1].strip() if first else 'it failed without a message'}"
