"""The console behind a real nginx with the configuration of the page: below a path, with HTTPS that ends at nginx."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from certificates import make_certificate
from console_door import PASSWORD, Door, make_users
from console_visitor import Page
from polling import wait_until

from gantrymq_console.access.accounts import ProxyUsers
from gantrymq_console.access.exposure import Exposure, networks_of
from gantrymq_console.web.http_server import HttpServer

PAGE = Path(__file__).resolve().parents[2] / "docs/operations/console.md"
EXPOSURE = Exposure(frozenset({"console.example.com"}), secure=True, proxies=networks_of(["127.0.0.1"]))
BASE = "https://console.example.com/gantrymq/"
AROUND = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log; events {{}}
http {{
gzip on; access_log off; client_body_temp_path {folder}/1; proxy_temp_path {folder}/2;
fastcgi_temp_path {folder}/3; uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
{server}
}}
"""


def configuration(folder, port):
    """The one of the page, with a socket of *folder* instead of the port, and the console on *port*."""
    (server,) = re.findall(r"^```nginx\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for shown, own in (
        ("listen 443 ssl", f"listen unix:{folder}/nginx ssl"),
        ("/etc/nginx/fullchain.pem", f"{folder}/nginx.pem"),
        ("/etc/nginx/key.pem", f"{folder}/nginx.key"),
        ("127.0.0.1:8088", f"127.0.0.1:{port}"),
    ):
        assert shown in server
        server = server.replace(shown, own)
    return AROUND.format(folder=folder, server=server)


def accepts(path):
    """Return whether a server accepts connections at the socket *path*, which exists before it does."""
    with socket.socket(socket.AF_UNIX) as browser:
        return browser.connect_ex(str(path)) == 0


@contextmanager
def nginx(port):
    """Yield a browser that sees nginx."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("nginx is not here")
    with tempfile.TemporaryDirectory(prefix="gantrymq-nginx-") as name:  # short, as names of sockets must be
        folder = Path(name)
        make_certificate(folder, "nginx")
        (folder / "conf").write_text(configuration(folder, port))
        with subprocess.Popen([program, "-p", name, "-c", folder / "conf", "-e", folder / "error.log"]) as process:
            try:
                wait_until(lambda: accepts(folder / "nginx"), "nginx", detail=(folder / "error.log").read_text)
                trust = ssl.create_default_context(cafile=str(folder / "nginx.pem"))
                trust.check_hostname = False
                transport = httpx.HTTPTransport(verify=trust, uds=str(folder / "nginx"))
                with httpx.Client(transport=transport, base_url=BASE, follow_redirects=True) as browser:
                    yield browser
            finally:
                process.terminate()


@pytest.fixture
def behind(gantrymq_broker, tmp_path):
    """``behind(**options)`` is a context with the door of a console and a browser that sees it through nginx."""
    make_users(tmp_path)

    @contextmanager
    def run(**options):
        with Door(gantrymq_broker, tmp_path, EXPOSURE, **options) as door:
            server = HttpServer(door.visitor.app, gantrymq_broker.cluster.world)
            _, port = gantrymq_broker.run(server.start("127.0.0.1", 0))
            try:
                with nginx(port) as browser:
                    yield door, browser
            finally:
                gantrymq_broker.run(server.stop())

    return run


def log_in(browser):
    form = Page(browser.get("topics")).form("login")
    given = {**form.fields, "name": "ann", "password": PASSWORD}
    return browser.post(form.action, data=given, headers={"Origin": "https://console.example.com"})


def test_pages_forms_refreshes_and_downloads_below_a_path(behind, gantrymq_broker, unchanged):
    gantrymq_broker.create_topic("%RETRY%readers", 1)
    with behind() as (door, browser):
        found = log_in(browser)
        assert str(found.url) == f"{BASE}topics" and found.status_code == 200
        (cookie,) = found.history[0].headers.get_list("set-cookie")
        assert cookie.startswith("__Host-gantrymq=") and "; Secure" in cookie
        assert [each.address for each in door.visitor.audit.entries] == ["unix:"]  # as nginx calls this visitor
        topic = Page(browser.get("topics/%25RETRY%25readers"))
        assert "%RETRY%readers" in topic.text
        assert topic.link("Messages") == f"{BASE}topics/%25RETRY%25readers/messages"
        assert browser.get(topic.link("Messages")).status_code == 200
        assert browser.get(f"{BASE}api/v1/topics/%25RETRY%25readers").json()["data"]["head"]["kind"] == "retry"
        first = browser.get("topics?part=live")
        assert first.headers["content-encoding"] == "gzip" and first.headers["etag"].startswith('W/"')
        again = browser.get("topics?part=live", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        sending = Page(browser.get("topics/%25RETRY%25readers/send")).form("/send")
        answer = browser.post(sending.action, data={**sending.fields, "body": "x" * 3_000_000})
        assert answer.status_code != 413
        file = browser.get("topics/%25RETRY%25readers/messages/export?format=jsonl")
        assert file.status_code == 200 and "x-accel-buffering" not in file.headers


def test_visitors_do_not_name_themselves(behind):
    with behind(proxy=ProxyUsers("x-forwarded-user")) as (_, browser):
        assert browser.get("topics", headers={"X-Forwarded-User": "ann"}).status_code == 401


def test_what_nginx_needs_of_the_console(visitor, unchanged):
    visitor.running.create_topic("T", 1)
    file = visitor.request("GET", "/topics/T/messages/export?format=jsonl")
    assert file.headers["x-accel-buffering"] == "no", "nginx would write bodies to its disk"
    tag = visitor.request("GET", "/topics?part=live").headers["etag"]
    again = visitor.request("GET", "/topics?part=live", headers={"If-None-Match": f"W/{tag}"})  # nginx compressed it
    assert (again.status_code, again.content) == (304, b"")
