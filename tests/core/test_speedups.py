"""Selection of the compiled or the Python functions, and the report about it."""

from __future__ import annotations

import sys
from types import ModuleType

from gantrymq import speedups


def module(interface):
    made = ModuleType("gantrymq_speedups._compiled")
    made.INTERFACE = interface
    return made


def test_the_environment_leaves_them_out():
    assert speedups.find(" Off ") == (None, "pure Python, GANTRYMQ_SPEEDUPS=off")


def test_a_switch_that_is_neither_on_nor_off_is_named():
    assert speedups.find("maybe")[1].endswith("; GANTRYMQ_SPEEDUPS=maybe is ignored: it is neither on nor off")
    assert speedups.find("maybe")[0] is speedups.find()[0]
    assert speedups.switch_warning("maybe") == "GANTRYMQ_SPEEDUPS=maybe is ignored: it is neither on nor off"
    assert [speedups.switch_warning(switch) for switch in ("", "on", "OFF ")] == ["", "", ""]


def test_a_package_of_another_interface_is_not_used(monkeypatch):
    monkeypatch.setitem(sys.modules, "gantrymq_speedups", ModuleType("gantrymq_speedups"))
    monkeypatch.setitem(sys.modules, "gantrymq_speedups._compiled", module(speedups.INTERFACE + 1))
    found, said = speedups.find()
    assert found is None
    assert "pip install --upgrade gantrymq gantrymq-speedups (in a clone" in said


def test_one_that_fits_is_used(monkeypatch):
    monkeypatch.setitem(sys.modules, "gantrymq_speedups", ModuleType("gantrymq_speedups"))
    fits = module(speedups.INTERFACE)
    monkeypatch.setitem(sys.modules, "gantrymq_speedups._compiled", fits)
    assert speedups.find() == (fits, "compiled functions")


def test_without_the_package_python_runs(monkeypatch):
    monkeypatch.setattr(speedups, "_PACKAGE", "gantrymq_speedups_not_here")
    assert speedups.find() == (
        None,
        "pure Python; compiled functions come with: pip install gantrymq-speedups "
        "(in a clone of GantryMQ: pip install ./libs/speedups)",
    )


def test_without_its_module_python_runs(monkeypatch):
    monkeypatch.setitem(sys.modules, "gantrymq_speedups", ModuleType("gantrymq_speedups"))
    monkeypatch.delitem(sys.modules, "gantrymq_speedups._compiled", raising=False)
    monkeypatch.setattr(sys.modules["gantrymq_speedups"], "__path__", [], raising=False)
    found, said = speedups.find()
    assert found is None
    assert "pip install --force-reinstall --no-cache-dir ./libs/speedups" in said
