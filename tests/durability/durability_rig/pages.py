"""The pages that `gantrymq-metrics` serves, as a probe or Prometheus asks for them."""

from __future__ import annotations

import http.client
import re
from importlib.util import find_spec
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

ADDRESS = re.compile(r"metrics are on (http://[^/]+)/metrics")
FREE_PORT = {"metricsPromExporterPort": 0}
TIMEOUT_S = 30.0


class Page(NamedTuple):
    """An answer."""

    status: int
    text: str


class Pages:
    """Asks the metrics port of a broker that was started with FREE_PORT; its log names the port.

    Skips the test without `gantrymq-metrics`.
    """

    def __init__(self, log: str) -> None:
        if find_spec("gantrymq_metrics") is None:
            pytest.skip("needs gantrymq-metrics")
        found = ADDRESS.search(log)
        assert found is not None, log
        self._netloc = urlsplit(found[1]).netloc

    def get(self, path: str) -> Page:
        """GET *path*."""
        connection = http.client.HTTPConnection(self._netloc, timeout=TIMEOUT_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return Page(answer.status, answer.read().decode())
        finally:
            connection.close()

    def value(self, name: str) -> float:
        """The first sample of the metric *name*."""
        found = re.search(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", self.get("/metrics").text, re.MULTILINE)
        assert found is not None, f"no {name}"
        return float(found[1])
