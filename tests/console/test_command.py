"""``gantrymq console``: who may reach it, its users and tokens, and a real process."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest
from click.testing import CliRunner
from polling import wait_until

from gantrymq.cli import main
from gantrymq.errors import ConfigError
from gantrymq.world.real import RealFiles
from gantrymq_console.access.exposure import Exposure, check, is_loopback, names_of, networks_of
from gantrymq_console.access.users import read_users
from gantrymq_console.commands.users import state_folder
from gantrymq_console.history.keeping import FILE_NAME

PASSWORD = "correct horse"


@pytest.fixture
def console(tmp_path):
    """Return a function that runs ``gantrymq console`` with a folder of its own, and returns click's result."""
    state = tmp_path / "state"

    def run(*words, password=PASSWORD, **options):
        environment = {"GANTRYMQ_CONSOLE_PASSWORD": password}
        return CliRunner().invoke(main, ["console", *words, "--state", str(state)], env=environment, **options)

    run.state = state
    return run


def sentence(result):
    assert result.exit_code != 0, result.output
    return str(result.exception) if isinstance(result.exception, ConfigError) else result.output


# --- who may reach it ---


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["--listen", "0.0.0.0:0"], "gantrymq console user add NAME"),
        (["--listen", "192.0.2.1:0"], "gantrymq console user add NAME"),
        (["--listen", "0.0.0.0:0", "--no-login"], "leave --no-login out"),
        (["--no-login", "--trusted-proxy", "127.0.0.1"], "leave --no-login out"),
        (["--trusted-proxy", "127.0.0.1"], "gantrymq console user add NAME"),
        (["--user-header", "X-User"], "add --trusted-proxy"),
        (["--no-login", "--user-header", "X-User", "--trusted-proxy", "::1"], "leave one of them out"),
        (["--user-role", "viewer"], "add --user-header"),
        (["--trusted-proxy", "proxy.example"], "neither an IP address nor a network"),
        (["--trusted-proxy", "::/0"], "trusts every address"),
        (["--host-name", "https://console.example/"], "such as console.example.com"),
        (["--listen", "8088"], "such as 127.0.0.1:8088"),
        (["--tls-key", __file__], "add --tls-cert"),
        (["--tls-cert", __file__], "no certificate with its key in PEM"),
        (["--tls-cert", ""], "the path is empty"),
        (["--user-role", "root"], "'root' is not one of"),
        (["--history-hours", "0"], "0 is not in the range"),
        (["--history-days", "1000"], "1000 is not in the range"),
        (["--history-bytes", "1000"], "1000 is not in the range"),
        (["--history-bytes", "100MB"], "'100MB' is not a valid integer"),
        (["--no-history", "--history-days", "5"], "--history-days is about a history, and --no-history keeps none"),
        (["--history-hours", "24", "--no-history"], "--history-hours is about a history"),
        (["--history-bytes", "104857600", "--no-history"], "leave one of them out"),
        (["--webhook-late", "300"], "--webhook-late is about alerts: add --webhook URL"),
        (["--webhook-disk", "80"], "add --webhook URL"),
    ],
)
def test_a_wrong_option_is_one_sentence_that_says_what_to_do(console, words, advice):
    found = sentence(console(*words))
    assert advice in found
    assert "Traceback" not in found


def test_passwords_do_not_cross_the_network_unencrypted(console):
    assert console("user", "add", "ann", "--role", "admin").exit_code == 0
    found = sentence(console("--listen", "0.0.0.0:0"))
    assert "--tls-cert" in found and "--trusted-proxy" in found


def test_a_user_without_a_password_is_not_enough(console):
    assert console("user", "add", "ann", "--role", "admin", "--no-password").exit_code == 0
    assert "no user who could log in" in sentence(console("--listen", "0.0.0.0:0", "--tls-cert", __file__))


def exposure(host="127.0.0.1", **changed):
    given = {"log_in": True, "users": (), "user_header": False, "tls": False, "names": frozenset(), "proxies": ()}
    return check(host, **{**given, **changed})


def test_what_is_permitted():
    proxies = networks_of(["10.0.0.0/8"])
    assert exposure() == exposure("localhost") == exposure("::1", log_in=False) == Exposure()
    secure = exposure("console.example", users=["ann"], tls=True)
    assert secure.secure and secure.hosts == {"console.example"}
    assert exposure("0.0.0.0", users=["ann"], proxies=proxies).secure
    assert exposure("0.0.0.0", user_header=True, proxies=proxies, names=names_of(["A.example"])).hosts == {"a.example"}


def test_proxies_are_addresses_and_networks():
    found = Exposure(proxies=networks_of(["10.0.0.0/8", "2001:db8::1"]))
    for address, trusted in (("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("2001:db8::1", True), ("11.0.0.1", False)):
        assert found.is_proxy(address) is trusted
    assert not found.is_proxy("nonsense") and not Exposure().is_proxy("127.0.0.1")
    assert is_loopback("127.9.9.9") and not is_loopback("0.0.0.0") and not is_loopback("localhost.example")


# --- users and tokens ---


def test_the_first_password_says_that_no_link_is_printed_any_more(console):
    ends = "first user with a password: restart the console. It prints no link"
    assert ends not in console("user", "add", "proxied", "--role", "viewer", "--no-password").output
    assert ends in console("user", "add", "ann", "--role", "admin").output
    assert ends not in console("user", "add", "bob", "--role", "admin").output
    assert console("user", "remove", "ann").exit_code == console("user", "remove", "bob").exit_code == 0
    assert ends in console("user", "password", "proxied").output


def test_users_are_added_listed_changed_and_removed(console):
    assert console("user", "add", "ann", "--role", "admin").exit_code == 0
    assert console("user", "add", "proxied", "--role", "viewer", "--no-password").exit_code == 0
    before = read_users(RealFiles(), console.state).users["ann"]
    assert "with the password as before" in console("user", "add", "ann", "--role", "reader", password="x").output
    known = read_users(RealFiles(), console.state).users["ann"]
    assert known.role.word == "reader" and known.password == before.password
    assert console("user", "password", "ann", password="another one").exit_code == 0
    assert read_users(RealFiles(), console.state).users["ann"].password != before.password
    assert json.loads(console("user", "list", "--output", "json").stdout) == [
        {"name": "ann", "role": "reader", "password": True},
        {"name": "proxied", "role": "viewer", "password": False},
    ]
    assert console("user", "remove", "ann").exit_code == 0
    assert "there is no user ann" in sentence(console("user", "remove", "ann"))
    assert "there is no user ann" in sentence(console("user", "password", "ann"))


def test_the_file_is_for_its_owner_only(console):
    for _ in range(2):
        console("user", "add", "ann", "--role", "admin")
        assert stat.S_IMODE((console.state / "users.json").stat().st_mode) == 0o600
        assert stat.S_IMODE(console.state.stat().st_mode) == 0o700
        (console.state / "users.json").chmod(0o644)


@pytest.mark.parametrize("name", ["", "a b", "<b>", "x" * 65, "a\n", "ä"])
def test_names_are_plain(console, name):
    assert "is not 1 to 64 letters" in sentence(console("user", "add", name, "--role", "admin"))
    assert not (console.state / "users.json").exists()


def test_a_short_password_is_refused_and_stdin_is_read(console):
    assert "it needs 8 to 1024" in sentence(console("user", "add", "ann", "--role", "admin", password="short"))
    found = CliRunner().invoke(
        main, ["console", "--state", str(console.state), "user", "add", "ann", "--role", "admin"], input=PASSWORD + "\n"
    )
    assert found.exit_code == 0, found.output
    assert read_users(RealFiles(), console.state).users.keys() == {"ann"}, "--state before the subcommand counts"


def test_tokens_are_added_listed_and_removed(console):
    made = json.loads(console("token", "add", "ci", "--role", "viewer", "--days", "1", "--output", "json").stdout)
    assert made["token"].startswith("gmqc_") and made["token"] not in (console.state / "users.json").read_text()
    plain = console("token", "add", "two", "--role", "viewer").stdout.strip()
    assert re.fullmatch(r"gmqc_[\w-]{43}", plain)
    assert "remove it first" in sentence(console("token", "add", "ci", "--role", "admin"))
    rows = json.loads(console("token", "list", "--output", "json").stdout)
    assert [each["name"] for each in rows] == ["ci", "two"] and "token" not in rows[0]
    assert console("token", "remove", "ci").exit_code == 0
    assert "there is no token ci" in sentence(console("token", "remove", "ci"))
    assert sentence(console("token", "add", "x", "--role", "viewer", "--days", "0"))


def test_two_commands_do_not_lose_a_change(console):
    files = RealFiles()
    files.make_dirs(console.state)
    lock = files.lock_folder(console.state)
    assert "another command is changing the users" in sentence(console("user", "add", "ann", "--role", "admin"))
    lock.release()


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 2}', '{"version": 1, "users": {"a": {}}, "tokens": {}}'])
def test_a_damaged_file_is_one_sentence_and_is_kept(console, content):
    console.state.mkdir()
    path = console.state / "users.json"
    path.write_text(content)
    for words in (["user", "add", "ann", "--role", "admin"], ["user", "list"], []):
        assert "is not a file of users" in sentence(console(*words))
    assert path.read_text() == content


# --- a real process ---


def started(tmp_path, *words, namesrv="127.0.0.1:1"):
    program = [sys.executable, "-c", "from gantrymq.cli import main; main()"]
    command = [*program, "console", "-n", namesrv, "--listen", "127.0.0.1:0"]
    options = ["--state", str(tmp_path / "state"), "--output", "json", *words]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def test_a_process_prints_a_link_that_logs_in_once_and_stops_on_a_signal(tmp_path):
    process, ready = started(tmp_path)
    try:
        browser = build_opener(HTTPCookieProcessor(CookieJar()))
        with browser.open(ready["login"]) as page:
            fields = dict(re.findall(r'name="(csrf|to|code)" value="([^"]*)"', page.read().decode()))
        sent = Request(ready["console"] + "login", urlencode({**fields, "to": "/account"}).encode())
        with browser.open(sent) as page:
            assert page.url == ready["console"] + "account"
            assert "administrator" in page.read().decode()
        assert stat.S_IMODE((tmp_path / "state" / "audit.log").stat().st_mode) == 0o640
        second = CliRunner().invoke(main, ["console", "--listen", "127.0.0.1:0", "--state", str(tmp_path / "state")])
        assert "give this one a folder of its own with --state" in sentence(second)
        port = ready["console"].split(":")[2].strip("/")
        second = CliRunner().invoke(main, ["console", "--listen", f"127.0.0.1:{port}", "--state", str(tmp_path)])
        assert "another process has that port" in sentence(second)
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0 and "Traceback" not in errors
    assert fields["code"] not in errors


@pytest.mark.slow
def test_a_killed_process_leaves_its_history_for_the_next_one(tmp_path, gantrymq_broker):
    pytest.importorskip("gantrymq_diagnosis")
    file, seen = tmp_path / "state" / FILE_NAME, list[set[int]]()
    for _ in range(2):
        process, ready = started(tmp_path, "--no-login", namesrv=gantrymq_broker.namesrv)
        try:
            before = seen[-1] if seen else set()
            seen.append(wait_until(lambda: more_known(ready, before), "a new value"))  # noqa: B023
            last = max(seen[-1]) // 10_000
            wait_until(lambda: last in slots(file), "its sample in the file", detail=lambda: str(slots(file)))  # noqa: B023
        finally:
            process.kill()
            process.communicate(timeout=30)
    assert seen[0] < seen[1]


def more_known(ready, before):
    """Return the times of known values of the broker, if there are more of them than *before*."""
    with build_opener().open(f"{ready['console']}api/v1/history?kind=broker&name=broker-a&range=1h") as page:
        found = json.load(page)["data"]
    (values,) = (each["values"] for each in found["curves"] if each["word"] == "in")
    known = {at for at, value in zip(found["times"], values, strict=True) if value is not None}
    return known if len(known) > len(before) else None


def slots(file):
    """Return the times of samples in the file of a history."""
    if not file.exists():
        return []
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        try:
            return [slot for (slot,) in db.execute("SELECT slot FROM samples WHERE level = 0")]
        except sqlite3.OperationalError:  # its tables are not there yet, or it is being written
            return []


def test_no_history_writes_no_file_and_the_pages_say_so(tmp_path, gantrymq_broker):
    process, ready = started(tmp_path, "--no-login", "--no-history", namesrv=gantrymq_broker.namesrv)
    try:
        with build_opener().open(ready["console"]) as page:
            assert "The console was started without a history." in page.read().decode()
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0 and "Traceback" not in errors
    assert not (tmp_path / "state" / FILE_NAME).exists()


def test_without_a_home_folder_the_sentence_names_the_option(monkeypatch):
    def unknown(_):
        raise KeyError

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(ConfigError, match=r"^the folder of users .* \$HOME is not set .*; --state DIR sets it$"):
        state_folder(None)
    assert state_folder("/data/state") == Path("/data/state")
    monkeypatch.setenv("XDG_STATE_HOME", "/data")
    assert state_folder(None) == Path("/data/gantrymq/console")
