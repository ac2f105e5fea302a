"""Settings, plugins and addresses that a server cannot start with: one sentence on stderr and exit code 1."""

import json
import signal
import socket

import pytest
from accounts import AccountsPlugin
from click.testing import CliRunner
from faulty_broker import DEADLINE_S, start_broker

from gantrymq.broker.name_server_access import NameServerAccess
from gantrymq.cli import main
from gantrymq.config import Settings
from gantrymq.errors import ConfigError, install_command
from gantrymq.plugins import find_candidates, load_plugins
from gantrymq.world.real import real_world


@pytest.fixture
def refuses(program, row):
    """Start the program; it ends with the row's sentence only."""

    def check(*words, environ=(), **values):
        row.check(*program.refusal(*words, **dict(environ)), **values)

    return check


@pytest.fixture
def conf(tmp_path):
    """Write a settings file."""

    def write(text):
        path = tmp_path / "broker.conf"
        path.write_text(f"bindAddress=127.0.0.1\n{text}\n")
        return path

    return write


@pytest.fixture
def starts(program, row):
    """Start the program, stop it, and return its stderr."""

    def check(*words):
        process = program.begin(*words)
        assert json.loads(process.stdout.readline())["ready"] is True
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0
        return errors.splitlines()

    return check


@pytest.fixture
def noted(conf):
    """Read a settings file with one more line, and return the file and the warning about it."""

    def check(line):
        file = conf(line)
        done = CliRunner().invoke(main, ["config", "-c", str(file)])
        assert done.exit_code == 0
        (warning,) = done.stderr.splitlines()
        return file, warning

    return check


def test_bi59_a_settings_file_that_is_not_there(refuses, tmp_path):
    refuses("-c", tmp_path / "no.conf", file=tmp_path / "no.conf", why="No such file or directory")


def test_bi60_a_settings_file_that_cannot_be_read(refuses, tmp_path):
    (tmp_path / "loop.conf").symlink_to("loop.conf")
    refuses("-c", tmp_path / "loop.conf", file=tmp_path / "loop.conf", why="Too many levels of symbolic links")


def test_bi61_a_settings_file_with_a_broken_escape(refuses, conf):
    file = conf("brokerName=\\u12zz")
    refuses("-c", file, file=file, line=2, escape="\\u12zz")


def test_bi62_a_slave_with_the_id_of_the_master(refuses):
    pytest.importorskip("gantrymq_replication")
    refuses("--set", "brokerRole=SLAVE", "--set", "metricsExporterType=DISABLE")


def test_bi63_dledger(refuses, conf):
    file = conf("enableDLegerCommitLog=true")
    refuses("-c", file, where=f"{file} line 2")


def test_bi64_the_rocksdb_store(refuses):
    refuses("--set", "storeType=defaultRocksDB", where="--set storeType", value="defaultRocksDB")


@pytest.mark.parametrize(
    ("key", "distribution"),
    [
        ("aclEnable", "gantrymq-access-plain"),
        ("authenticationEnabled", "gantrymq-access"),
        ("authorizationEnabled", "gantrymq-access"),
    ],
)
def test_bi65_access_control_without_its_plugin(refuses, key, distribution):
    command = install_command(distribution)
    chosen = ("--set", "plugins=nameserver,storage_mmap", "--set", f"{key}=true")
    refuses(*chosen, where=f"--set {key}", key=key, command=command)


def test_bi66_tls(refuses, conf):
    file = conf("tlsMode=enforcing")
    refuses("-c", file, where=f"{file} line 2", key="tlsMode", value="enforcing")


def test_bi67_a_text_where_a_number_belongs(refuses):
    environ = {"flushConsumerOffsetInterval": "soon"}
    key = "flushConsumerOffsetInterval"
    refuses(environ=environ, where=f"environment variable {key}", key=key, value="soon")


def test_bi68_a_flag_that_is_neither_true_nor_false(refuses, conf):
    file = conf("autoCreateTopicEnable=yes")
    refuses("-c", file, where=f"{file} line 2", key="autoCreateTopicEnable", value="yes")


def test_bi69_a_number_out_of_bounds(refuses):
    refuses("--set", "maxMessageSize=1", where="--set maxMessageSize", key="maxMessageSize", value=1, least=1024)


def test_bi381_a_number_above_its_maximum(refuses):
    key = "sql92BlockFilterValues"
    refuses("--set", f"{key}=1025", where=f"--set {key}", key=key, value=1025, most=1024)


def test_bi70_a_text_that_is_none_of_the_choices(refuses):
    where = "--set flushDiskType"
    refuses("--set", "flushDiskType=LATER", where=where, key="flushDiskType", value="LATER")


def test_bi71_an_unknown_setting(starts, row):
    errors = starts("--set", "listenPrt=1")
    (warning,) = [line for line in errors if "listenPrt" in line]
    row.check(warning, "starts", where="--set listenPrt", key="listenPrt", nearest="listenPort")


def test_bi72_a_setting_of_rocketmq_that_has_no_use_here(starts, row):
    errors = starts("--set", "sendMessageThreadPoolNums=4")
    (warning,) = [line for line in errors if "sendMessageThreadPoolNums" in line]
    row.check(warning, "starts", keys="sendMessageThreadPoolNums")


def test_bi73_a_set_without_an_equals_sign(program, row):
    code, errors = program.ends("--set", "listenPort")
    row.check(errors.splitlines()[-1], code, text="'listenPort'")


def test_bi74_no_store_plugin(refuses):
    others = [candidate.name for candidate in find_candidates()[0] if candidate.name != "filter_tag"]
    refuses("--set", "plugins=filter_tag", where="--set plugins", left_out=", ".join(others))


def test_bi75_a_store_that_no_plugin_offers(refuses):
    refuses("--set", "store=cloud", where="--set store", name="cloud", stores=", ".join(load_plugins().stores))


def test_bi76_a_plugin_that_is_not_installed(refuses):
    refuses(
        "--set",
        "plugins=filter_tga,storage_mmap",
        where="--set plugins",
        name="filter_tga",
        plugins="filter_tga,storage_mmap",
        nearest="filter_tag",
    )


def test_bi77_a_broken_plugin(refuses, tmp_path):
    info = tmp_path / "site" / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[gantrymq]\nbroken = gone_for_good\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    environ = {"PYTHONPATH": str(info.parent)}
    why = "ModuleNotFoundError: No module named 'gone_for_good'"
    refuses(environ=environ, plugin="broken", distribution="broken", version="1.0", why=why)


def test_bi78_a_port_that_is_taken(refuses, tmp_path):
    holder = start_broker(tmp_path / "holder")
    try:
        port = holder.address[1]
        refuses("--broker-port", port, "--store", tmp_path / "store", port=port, host="127.0.0.1")
        assert holder.serves()
        assert not (tmp_path / "store" / "abort").exists()
    finally:
        holder.close()


def test_bi79_the_name_servers_port_is_taken(refuses, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        refuses("--namesrv-port", port, host="127.0.0.1", port=port, why="Address already in use")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("host", "why"), [("192.0.2.1", "Cannot assign requested address"), ("no..host", "this is not a host name")]
)
def test_bi80_an_address_that_is_not_of_this_host(program, row, tmp_path, host, why):
    words = ("--set", f"bindAddress={host}", "--store", tmp_path / "store")
    row.check(*program.refusal(*words, command=("broker", "--port", 0)), host=host, port=0, why=why)
    assert not (tmp_path / "store" / "abort").exists()


@pytest.mark.parametrize("host", ["300.0.0.1", "broker.example:10911"])
def test_bi81_an_advertised_address_that_is_none(refuses, host):
    refuses("--set", f"brokerIP1={host}", host=host)


@pytest.mark.parametrize("entry", ["external=0.0.0.0:10931", "external=HTTP://0.0.0.0:10931"])
def test_bi272_a_listener_without_a_protocol(refuses, entry):
    refuses("--set", f"listeners={entry}", where="--set listeners", entry=entry)


def test_bi396_a_listener_with_an_unknown_protocol(refuses):
    known = ["remoting", *load_plugins().protocols]
    protocols = ", ".join(f"{each}, {each}+tls" for each in known)
    values = {"where": "--set listeners", "name": "web", "protocol": "http", "protocols": protocols}
    refuses("--set", "listeners=web=http://127.0.0.1:0", **values)


def test_bi273_two_listeners_with_one_name(refuses):
    entries = "a=remoting://127.0.0.1:0, a=remoting://127.0.0.1:0"
    refuses("--set", f"listeners={entries}", where="--set listeners", name="a")


def test_bi274_an_advertised_address_without_its_listener(refuses):
    pairs = ("--set", "listeners=a=remoting://127.0.0.1:0", "--set", "advertisedAddresses=b=192.0.2.1:10911")
    refuses(*pairs, where="--set advertisedAddresses", name="b", names="default, a")


def test_bi275_a_listener_on_a_port_in_use(refuses, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        why = "Address already in use"
        refuses("--set", f"listeners=a=remoting://{address}", name="a", address=address, why=why)
    assert not (tmp_path / "store" / "abort").exists()


def test_bi276_a_listener_with_tls_and_no_certificate(refuses):
    pairs = ("--set", "listeners=a=remoting+tls://127.0.0.1:0", "--set", "tls.server.mode=disabled")
    refuses(*pairs, name="a")


@pytest.mark.parametrize("text", ["root:x:0:0:root:/root:/bin/sh\n", "root=1\nnobody=2\n"])
def test_bi247_a_file_of_another_kind(refuses, tmp_path, text):
    (tmp_path / "passwd").write_text(text)
    refuses("-c", tmp_path / "passwd", file=tmp_path / "passwd", word="'root'")


def test_bi248_a_line_that_is_no_setting(refuses, conf, tmp_path):
    (tmp_path / "messages.jsonl").write_text('{"body": "a"}\n{"body": "b"}\n')
    file = tmp_path / "messages.jsonl"
    refuses("-c", file, file=file, line=1, word="'{\"body\"'")
    file = conf("listenPort 0\nhello world")
    refuses("-c", file, file=file, line=3, word="'hello'")


def test_bi249_a_file_in_utf_16(refuses, tmp_path):
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=broker-a\n", encoding="utf-16")
    refuses("-c", file, file=file)


def test_bi250_a_comment_behind_a_value(noted, row):
    file, warning = noted("brokerName=broker-a # note")
    row.check(warning, "starts", file=file, line=2, key="brokerName")


def test_bi251_quotes_around_a_value(noted, row):
    file, warning = noted('brokerName="broker-a"')
    row.check(warning, "starts", file=file, line=2, key="brokerName")


def test_bi252_no_address_to_listen_on(starts, row, tmp_path):
    (tmp_path / "broker.conf").write_text("brokerName=broker-a\n")
    (warning,) = [line for line in starts("-c", tmp_path / "broker.conf") if "bindAddress" in line]
    row.check(warning, "starts")


def test_bi98_a_certificate_that_is_not_there(refuses, tmp_path):
    missing = tmp_path / "missing.pem"
    refuses("--set", f"tls.server.certPath={missing}", file=missing, why="No such file or directory")


@pytest.mark.parametrize("text", ["the-secret", '["the-secret"]', '{"accessKey":"inner","password":"the-secret"}'])
def test_bi382_inner_credentials_of_another_form(refuses, text):
    pair = f"innerClientAuthenticationCredentials={text}"
    refuses("--set", pair, where="--set innerClientAuthenticationCredentials")


@pytest.mark.parametrize("mode", [0o604, 0o644])
def test_bi383_a_secret_in_a_file_that_others_can_read(refuses, conf, mode):
    file = conf('innerClientAuthenticationCredentials={"accessKey":"inner","secretKey":"the-secret"}')
    file.chmod(mode)
    refuses("-c", file, file=file, line=2, mode=f"{mode:04o}")


def test_bi385_a_name_server_without_the_folder_of_its_users(row):
    nameserver = pytest.importorskip("gantrymq_nameserver.settings")
    plugins = load_plugins(extra=[("accounts", AccountsPlugin())], installed=False)
    settings = Settings([*nameserver.name_server_settings(), *plugins.config], {"authorizer": "accounts"})
    with pytest.raises(ConfigError) as raised:
        NameServerAccess(real_world(), settings, plugins)
    row.check(str(raised.value), "exit 1", where="given in code", name="accounts")
