"""The page about the console, and the files of others."""

from __future__ import annotations

import hashlib
from importlib.resources import files

import pytest
from console_visitor import Visitor

from gantrymq_console.pages.account import vendored

VENDOR = files("gantrymq_console").joinpath("static", "vendor")


def test_each_file_of_others_is_listed_with_its_digest_and_license():
    listed = {each.name: each for each in vendored()}
    present = {each.name for each in VENDOR.iterdir()}
    assert present == {*listed, *(each.license_file for each in vendored()), "VENDORED.toml"}
    for name, each in listed.items():
        assert hashlib.sha256(VENDOR.joinpath(name).read_bytes()).hexdigest() == each.sha256, name
        assert VENDOR.joinpath(each.license_file).read_text("utf-8").strip()


def test_the_page_tells_versions_licenses_and_what_brokers_serve(visitor):
    page = visitor.get("/about")
    assert "htmx.org 2.0.11" in page.text and "gantrymq-console" in page.text
    assert visitor.request("GET", page.link("MIT")).status_code == 200
    served = visitor.api("/about")["data"]["served"]["broker-a"]
    assert served["explain"] and served["settings"] and served["transactions"]


@pytest.mark.gantrymq(settings={"plugins": "storage_memory,filter_tag,nameserver"})
def test_a_broker_without_the_plugins_serves_none_of_them(gantrymq_broker):
    with Visitor(gantrymq_broker, language="zh") as visitor:
        assert set(visitor.api("/about")["data"]["served"]["broker-a"].values()) == {False}
        assert "不支持" in visitor.get("/about").text
