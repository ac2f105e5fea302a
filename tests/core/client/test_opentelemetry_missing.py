"""The error without the OpenTelemetry package."""

import importlib
import sys

import pytest


def test_without_the_package_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "gantrymq.client.opentelemetry", raising=False)
    with pytest.raises(ImportError, match="pip install opentelemetry-api"):
        importlib.import_module("gantrymq.client.opentelemetry")
