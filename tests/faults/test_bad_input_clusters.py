"""Several brokers that cannot run together, and plans of clusters that could not work."""

import socket
import tomllib

import pytest
from click.testing import CliRunner

from gantrymq.cli import main

MACHINES = '[machines]\nm1 = "192.0.2.1"\nm2 = "192.0.2.2"\n'


@pytest.fixture
def refuses(program, row, tmp_path):
    """Start several brokers; the start ends with the row's sentence only, and leaves nothing behind."""

    def check(*words, own=(), **values):
        for number, text in enumerate(own):
            file = tmp_path / f"{number}.conf"
            file.write_text(text)
            words = (*words, "--broker-config", file)
        row.check(*program.refusal(*words), **values)
        assert not (tmp_path / "store").exists()

    return check


@pytest.fixture
def plans(row, tmp_path, monkeypatch):
    """Plan a cluster; it is refused with the row's sentence, and nothing is written."""
    pytest.importorskip("gantrymq_admin")
    monkeypatch.chdir(tmp_path)

    def check(text, **values):
        (tmp_path / "c.toml").write_text(text)
        done = CliRunner().invoke(main, ["cluster", "plan", "c.toml"])
        row.check(done.stderr.removeprefix("gantrymq: "), f"exit {done.exit_code}", **values)
        assert [path.name for path in tmp_path.iterdir()] == ["c.toml"]

    return check


def test_bi279_advertised_addresses_that_several_brokers_would_share(refuses):
    refuses("--brokers", 2, "--set", "advertisedAddresses=external=broker.example:10911")


def test_bi280_two_brokers_with_the_same_name(refuses):
    refuses(own=("brokerName=broker-1", ""), name="broker-1")


def test_bi281_two_brokers_with_the_same_port(refuses):
    refuses(own=("listenPort=31001", "listenPort=31001"), one="broker-0", other="broker-1", port=31001)


def test_bi282_two_brokers_with_one_folder(refuses, tmp_path):
    own = (f"storePathRootDir={tmp_path}/store", f"storePathRootDir={tmp_path}/store/x")
    refuses(own=own, one="broker-0", other="broker-1", folder=f"{tmp_path}/store", inside=f"{tmp_path}/store/x")


def test_bi283_a_port_above_the_largest(refuses):
    refuses("--brokers", 2, "--broker-port", 65530, number=1, port=65540)


def test_bi284_a_broker_that_cannot_start(program, row, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        (tmp_path / "0.conf").write_text("")
        (tmp_path / "1.conf").write_text(f"listenPort={port}\nfastPortEnable=false\n")
        files = ("--broker-config", "0.conf", "--broker-config", "1.conf")
        code, errors = program.ends(*files, "--set", "metricsPromExporterPort=0")
    (said,) = [line for line in errors.splitlines() if line.startswith("gantrymq: ")]
    row.check(said.removeprefix("gantrymq: "), code, broker="broker-1", port=port)
    assert not list((tmp_path / "store").glob("*/abort"))


def test_bi285_a_description_that_is_not_toml(plans):
    with pytest.raises(tomllib.TOMLDecodeError) as why:
        tomllib.loads("masters 2")
    plans("masters 2", file="c.toml", why=why.value)


def test_bi286_a_key_that_does_not_exist(plans):
    keys = "cluster, machines, masters, slaves, name_servers, data, config, access, settings, name_server_settings"
    plans("master = 2\n" + MACHINES, file="c.toml", keys=f"{keys}, brokers")


def test_bi287_a_machine_that_does_not_exist(plans):
    plans('masters = { a = "m3" }\n' + MACHINES, file="c.toml", name="a", machine="m3", machines="m1, m2")


def test_bi288_a_name_that_leaves_its_folder(plans):
    plans('[machines]\n"../m1" = "192.0.2.1"\n', file="c.toml", name="../m1")


def test_bi289_a_loopback_address_in_a_cluster_of_several_machines(plans):
    plans(MACHINES + 'm3 = "127.0.0.1"\n', file="c.toml", machine="m3", address="127.0.0.1")


def test_bi290_a_setting_that_a_server_would_refuse(plans):
    text = "[name_server_settings]\nlistenPort = 65536\n" + MACHINES
    plans(text, written="plan/m1/namesrv.conf", line=2, port=65536)
