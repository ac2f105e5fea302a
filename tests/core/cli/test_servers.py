"""``gantrymq start``, ``nameserver``, ``broker`` and ``quickstart`` as processes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).parent / "gantrymq"
DEADLINE_S = 300  # only for what hangs: on a busy machine a server needs a minute to start and to stop

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
needs_store = pytest.mark.skipif(find_spec("gantrymq_storage_memory") is None, reason="needs gantrymq-storage-memory")
needs_default_plugins = pytest.mark.skipif(
    find_spec("gantrymq_storage_mmap") is None or find_spec("gantrymq_filter_tag") is None,
    reason="needs gantrymq-storage-mmap and gantrymq-filter-tag",
)


class Server:
    """A server process; killed when it outlives the deadline."""

    def __init__(self, *words, home, **environ):
        clean = {key: value for key, value in os.environ.items() if key != "NAMESRV_ADDR"}
        self.process = subprocess.Popen(
            [PROGRAM, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**clean, "HOME": str(home), **environ},
        )
        self.timer = threading.Timer(DEADLINE_S, self.process.kill)
        self.timer.start()

    def first_line(self):
        return self.process.stdout.readline()

    def ready(self):
        line = self.first_line()
        assert line, self.process.communicate()[1]
        return json.loads(line)

    def stop(self, number=signal.SIGTERM):
        """Exit code and everything on stderr."""
        self.process.send_signal(number)
        return self.end()

    def end(self):
        _, errors = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, errors

    def close(self):
        self.timer.cancel()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def run(tmp_path):
    servers = []

    def begin(*words, **environ):
        servers.append(Server(*words, home=tmp_path, **environ))
        return servers[-1]

    yield begin
    for server in servers:
        server.close()


def start(run, folder, *words, **environ):
    ports = ("--namesrv-port", 0, "--broker-port", 0)
    return run("start", *ports, "--store", folder, "--set", "store=memory", "--output", "json", *words, **environ)


def accepts(address):
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10):
        return True


@needs_store
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_start_prints_one_ready_line_and_stops_gracefully(run, tmp_path, number):
    server = start(run, tmp_path / "store")
    ready = server.ready()
    assert set(ready) == {"ready", "namesrv", "broker", "store", "flush", "start_ms"}
    assert ready["ready"] is True
    assert ready["store"] == str(tmp_path / "store")
    assert ready["flush"] == "SYNC_FLUSH"
    assert 0 < ready["start_ms"] < DEADLINE_S * 1000
    assert accepts(ready["namesrv"])
    assert accepts(ready["broker"])
    code, errors = server.stop(number)
    assert code == 0, errors
    assert "Traceback" not in errors


@needs_store
@pytest.mark.parametrize("strategy", ["stateless", "stateful"])
def test_the_ready_line_names_access_control(run, tmp_path, strategy):
    pytest.importorskip("gantrymq_access")
    user = '{"username": "root", "password": "root-secret"}'
    strategies = (f"authenticationStrategy={strategy}", f"authorizationStrategy={strategy}")
    settings = ("authorizer=acl", f"initAuthenticationUser={user}", *strategies)
    pairs = [word for pair in settings for word in ("--set", pair)]
    ready = start(run, tmp_path / "store", *pairs).ready()
    assert ready["access"] == {"authorizer": "acl", "strategy": strategy}


@needs_store
def test_start_without_a_file_listens_on_loopback_alone(run, tmp_path):
    ready = start(run, tmp_path / "store").ready()
    assert ready["broker"].startswith("127.0.0.1:")
    assert ready["namesrv"].startswith("127.0.0.1:")


@needs_store
def test_a_ready_broker_is_registered(run, tmp_path):
    ready = start(run, tmp_path / "store").ready()
    code = (
        "import asyncio, sys\n"
        "from gantrymq.client import Client\n"
        "async def ask():\n"
        "    async with Client(sys.argv[1]) as client:\n"
        "        print(*await client.admin.masters())\n"
        "asyncio.run(ask())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, ready["namesrv"]], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.stdout.split() == [ready["broker"]], done.stderr


@needs_store
def test_name_server_and_broker_in_two_processes(run, tmp_path):
    (tmp_path / "namesrv.conf").write_text("bindAddress=127.0.0.1\nclientRequestThreadPoolNums=8\n")
    names = run("nameserver", "-c", tmp_path / "namesrv.conf", "--port", 0, "--output", "json")
    first = names.ready()
    assert set(first) == {"ready", "namesrv", "start_ms"}
    (tmp_path / "broker.conf").write_text(
        f"namesrvAddr={first['namesrv']}\nbindAddress=127.0.0.1\nlistenPort=0\nstore=memory\n"
        f"storePathRootDir={tmp_path}/store\nflushDiskType=ASYNC_FLUSH\n"
    )
    broker = run("broker", "-c", tmp_path / "broker.conf", "--output", "json")
    second = broker.ready()
    assert set(second) == {"ready", "broker", "store", "flush", "start_ms"}
    assert second["flush"] == "ASYNC_FLUSH"
    assert broker.stop()[0] == 0
    assert names.stop()[0] == 0


@needs_store
def test_a_broker_that_finds_no_name_server_is_not_ready_and_still_stops(run, tmp_path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        words = ("--port", 0, "--set", "bindAddress=127.0.0.1", "--set", "store=memory", "--output", "json")
        broker = run("broker", "-n", address, "--store", tmp_path / "store", *words)
        for line in broker.process.stderr:
            if "not registered with name server" in line:
                break
        broker.process.send_signal(signal.SIGTERM)
        out, _ = broker.process.communicate(timeout=DEADLINE_S)
    assert broker.process.returncode == 0
    assert out == ""


@needs_store
@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:9876;nowhere", "host:99999"])
def test_a_name_server_that_is_no_address_is_one_sentence(run, tmp_path, address):
    broker = run("broker", "-n", address, "--store", tmp_path / "store", "--port", 0, "--set", "store=memory")
    code, errors = broker.end()
    assert code == 2
    assert errors.startswith("gantrymq: --namesrv: namesrvAddr: ")
    assert errors.endswith("write host:port, several separated by ;\n")


@needs_store
def test_text_output_says_it_in_a_sentence(run, tmp_path):
    server = run(
        *("start", "--namesrv-port", 0, "--broker-port", 0, "--store", tmp_path / "store", "--set", "store=memory")
    )
    assert re.match(
        r"GantryMQ is ready after \d+ ms: name server 127.0.0.1:\d+, broker 127.0.0.1:\d+, store .*, SYNC_FLUSH\n",
        server.first_line(),
    )


@needs_store
def test_logs_go_to_the_file_asked_for(run, tmp_path):
    server = start(run, tmp_path / "store", "--log-file", tmp_path / "broker.log", "--log-level", "info")
    server.ready()
    assert server.stop() == (0, "")
    assert "name server listens on" in (tmp_path / "broker.log").read_text()


@needs_store
def test_unknown_settings_are_warned_about_on_stderr(run, tmp_path):
    server = start(run, tmp_path / "store", "--set", "listenPrt=1", "--set", "sendMessageThreadPoolNums=4")
    server.ready()
    _, errors = server.stop()
    assert "warning: --set listenPrt: there is no setting listenPrt; it is ignored (did you mean listenPort?)" in errors
    assert "warning: these settings of RocketMQ have no effect here: sendMessageThreadPoolNums" in errors


@needs_store
def test_an_advertised_loopback_address_beside_a_public_bind_is_warned_about(run, tmp_path):
    server = start(run, tmp_path / "store", "--set", "bindAddress=0.0.0.0", "--set", "brokerIP1=127.0.0.1")
    server.ready()
    _, errors = server.stop()
    assert "listens on 0.0.0.0 but advertises 127.0.0.1" in errors
    assert "set brokerIP1" in errors


@needs_store
def test_servers_that_others_reach_are_warned_about_once(run, tmp_path):
    server = start(run, tmp_path / "store", "--set", "bindAddress=0.0.0.0")
    server.ready()
    _, errors = server.stop()
    (warning,) = [line for line in errors.splitlines() if "without access control" in line]
    assert warning.startswith("warning: the name server and the broker listen on 0.0.0.0")
    assert "bindAddress" in warning


@needs_store
def test_servers_of_this_machine_alone_are_not_warned_about(run, tmp_path):
    server = start(run, tmp_path / "store")
    server.ready()
    _, errors = server.stop()
    assert "access control" not in errors


@needs_store
def test_a_setting_may_come_from_the_environment(run, tmp_path):
    server = start(run, tmp_path / "store", flushDiskType="ASYNC_FLUSH")
    assert server.ready()["flush"] == "ASYNC_FLUSH"


@needs_store
def test_a_port_that_is_taken_is_one_sentence_and_exit_code_1(run, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = run(
            "start", "--namesrv-port", port, "--broker-port", 0, "--store", tmp_path / "store", "--output", "json"
        )
        code, errors = server.end()
    assert code == 1
    assert "Traceback" not in errors
    assert f"127.0.0.1:{port}" in errors


def test_a_setting_that_is_not_built_stops_the_start(run, tmp_path):
    code, errors = start(run, tmp_path / "store", "--set", "enableDLegerCommitLog=true").end()
    assert code == 2
    assert "DLedger is not implemented" in errors
    assert "Traceback" not in errors


def test_without_a_store_plugin_the_sentence_says_which_command_installs_one(run, tmp_path):
    words = ("--set", "plugins=filter_tag") if find_spec("gantrymq_filter_tag") else ()
    server = run("start", "--store", tmp_path / "store", "--namesrv-port", 0, "--broker-port", 0, *words)
    code, errors = server.end()
    assert code == 1
    assert "pip install ./libs/store_files ./plugins/storage_mmap" in errors
    assert "Traceback" not in errors


def test_a_missing_settings_file_is_one_sentence(run, tmp_path):
    code, errors = run("nameserver", "-c", tmp_path / "no.conf").end()
    assert code == 1
    assert errors == f"gantrymq: cannot read the settings file {tmp_path}/no.conf: No such file or directory\n"


@needs_default_plugins
def test_quickstart_shows_what_it_does_and_leaves(run):
    server = run("quickstart", "--exit")
    out, errors = server.process.communicate(timeout=DEADLINE_S)
    assert server.process.returncode == 0, errors
    assert "created the topic QuickstartTopic" in out
    assert "consumed with a subscription to TagA: 3 of 6 messages" in out
    assert "log files of 4 MiB, not 1 GiB" in out
    store = Path(re.search(r"store +(\S+)", out)[1])
    assert not store.exists()
    if find_spec("gantrymq_grpc"):
        assert re.search(r"gRPC +127\.0\.0\.1:\d+ \(endpoint of the 5\.x SDKs\)", out)


@needs_default_plugins
def test_quickstart_for_scripts_keeps_the_store_it_is_given(run, tmp_path):
    server = run("quickstart", "--exit", "--store", tmp_path / "kept", "--output", "json")
    assert server.ready()["store"] == str(tmp_path / "kept")
    shown = json.loads(server.first_line())
    assert shown["received"] == ["message 0", "message 2", "message 4"]
    assert shown["not_wanted"] == 3
    assert server.end()[0] == 0
    logs = list((tmp_path / "kept" / "commitlog").iterdir())
    assert [log.stat().st_size for log in logs][:1] == [4 * 1024 * 1024]
    assert not (tmp_path / "kept" / "abort").exists()


@needs_default_plugins
def test_quickstart_listens_on_its_own_ports_alone(run):
    server = run(
        "quickstart", "--exit", "--output", "json", listeners="a=remoting://0.0.0.0:0", advertisedAddresses="b="
    )
    ready = server.ready()
    assert ready.keys() - {"pages", "listeners"} == {"ready", "namesrv", "broker", "store", "flush", "start_ms"}
    assert all(each.startswith("127.0.0.1:") for each in ready.get("listeners", {}).values())
    assert ready.get("listeners", {}).keys() <= {"sdk"}
    server.first_line()
    assert server.end()[0] == 0


@needs_default_plugins
def test_quickstart_stays_up_until_a_signal(run):
    server = run("quickstart", "--output", "json")
    ready = server.ready()
    server.first_line()
    assert accepts(ready["broker"])
    code, errors = server.stop(signal.SIGINT)
    assert (code, errors) == (0, "")


@needs_default_plugins
def test_a_second_broker_on_one_store_is_refused_with_a_sentence(run, tmp_path):
    words = ("start", "--namesrv-port", 0, "--broker-port", 0, "--store", tmp_path / "store", "--output", "json")
    words += ("--set", "mappedFileSizeCommitLog=4194304")
    run(*words).ready()
    began = time.monotonic()
    code, errors = run(*words).end()
    assert code == 1, errors
    assert str(tmp_path / "store") in errors
    assert "Traceback" not in errors
    assert time.monotonic() - began < DEADLINE_S


@needs_store
def test_further_listeners_are_open_and_in_the_ready_line(run, tmp_path):
    """Also if the environment sets those of the broker, which would be the name server's otherwise."""
    server = start(
        run,
        tmp_path / "store",
        *("--namesrv-listeners", "external=remoting://127.0.0.1:0"),
        *("--set", "advertisedAddresses=b=broker.example:1"),
        listeners="external=remoting://127.0.0.1:0,b=remoting://127.0.0.1:0",
    )
    ready = server.ready()
    assert ready["listeners"]["b"] == "broker.example:1"
    addresses = [ready["listeners"]["external"], ready["namesrv_listeners"]["external"]]
    assert len({*addresses, ready["broker"], ready["namesrv"]}) == 4
    assert all(map(accepts, addresses))
    code, errors = server.stop()
    assert code == 0
    assert "advertises" not in errors


@needs_store
def test_start_takes_settings_of_the_name_server_too(run, tmp_path):
    server = start(run, tmp_path / "store", "--set", "enableTopicList=false", "--set", "traceOn=false")
    server.ready()
    assert "no effect" not in server.stop()[1]
    server = start(run, tmp_path / "store", "--set", "waitSecondsForService=-1")
    code, errors = server.end()
    assert code == 2
    assert "waitSecondsForService=-1 is below" in errors


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("nameserver", "--set", "bindAddress=127.0.0.1", "--port"), "--port PORT"),
        (("start", "--namesrv-port"), "--namesrv-port PORT"),
    ],
)
@needs_store
def test_a_taken_port_of_the_name_server_names_the_flag_of_the_command(run, tmp_path, words, flag):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        more = ("--set", "store=memory", "--store", tmp_path / "store") if words[0] == "start" else ()
        code, errors = run(*words, holder.getsockname()[1], *more).end()
    assert code == 1
    assert f"Address already in use; choose another port with {flag} (0 picks a free one)" in errors


@needs_store
@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("broker", "--set", "bindAddress=127.0.0.1", "-n", "127.0.0.1:1", "--port"), "--port PORT"),
        (("start", "--namesrv-port", 0, "--broker-port"), "--broker-port PORT"),
    ],
)
def test_a_taken_port_of_the_broker_names_the_flag_of_the_command(run, tmp_path, words, flag):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        code, errors = run(*words, port, "--set", "store=memory", "--store", tmp_path / "store").end()
    assert code == 1
    assert f"stop it, or choose another port with {flag} (0 picks a free one)" in errors


@needs_store
def test_a_word_of_the_environment_that_has_effect_is_told(run, tmp_path):
    ports = ("--namesrv-port", 0, "--broker-port", 0, "--store", tmp_path / "store", "--output", "json")
    server = run("start", *ports, store="memory")
    server.ready()
    code, errors = server.stop()
    assert code == 0
    assert "warning: environment variable store is in force: store=memory; unset it if" in errors


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("store", "redis", "environment variable store: store=redis: no installed plugin offers a store of that name"),
        ("plugins", "git", "environment variable plugins: plugins=git: no plugin called git is installed"),
    ],
)
@needs_store
def test_an_error_about_a_word_of_the_environment_says_that_it_is_from_there(run, tmp_path, name, value, said):
    ports = ("--namesrv-port", 0, "--broker-port", 0, "--store", tmp_path / "store")
    code, errors = run("start", *ports, **{name: value}).end()
    assert code == 1
    assert said in errors


@needs_store
def test_what_is_said_on_the_command_line_has_no_such_note(run, tmp_path):
    server = start(run, tmp_path / "store", store="mmap")
    server.ready()
    assert "environment" not in server.stop()[1]
