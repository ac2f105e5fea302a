"""The Compose file: servers have known settings, addresses that fit the published ports, and stores of their own."""

import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from settings_check import check_command, check_settings

COMPOSE = Path(__file__).resolve().parents[2] / "packaging/compose.yaml"
NAMESRV = "namesrv-1:9876;namesrv-2:9876"


def filled(value):
    """*value* with the defaults of its variables."""
    if isinstance(value, dict):
        return {key: filled(each) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each) for each in value]
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) if isinstance(value, str) else value


FILE = filled(yaml.safe_load(COMPOSE.read_text()))
SERVICES = FILE["services"]
NAME_SERVERS = {name: each for name, each in SERVICES.items() if each["command"][0] == "nameserver"}
BROKERS = {name: each for name, each in SERVICES.items() if each["command"][0] == "broker"}


def published(service):
    """The published ports of a service: host port to its own port."""
    return {int(port.split(":")[-2]): int(port.split(":")[-1]) for port in service["ports"]}


def listens(settings):
    """The ports of a server's listeners by name."""
    return {name: int(port) for name, port in re.findall(r"([\w-]+)=\w+://[^,]*:(\d+)", settings["listeners"])}


def test_there_are_two_name_servers_two_masters_with_a_slave_each_and_a_console():
    assert len(NAME_SERVERS) == 2
    roles = Counter((each["environment"]["brokerName"], each["environment"]["brokerRole"]) for each in BROKERS.values())
    assert roles == {(name, role): 1 for name in ("broker-a", "broker-b") for role in ("SYNC_MASTER", "SLAVE")}
    assert set(SERVICES) - NAME_SERVERS.keys() - BROKERS.keys() == {"console"}


@pytest.mark.parametrize("name", BROKERS)
def test_a_broker_has_known_settings_and_is_reached_from_outside_where_it_says(name, tmp_path):
    given = BROKERS[name]["environment"]
    assert all(isinstance(value, str) for value in given.values())
    settings = check_settings("broker", given, tmp_path)
    assert (settings["brokerIP1"], settings["namesrvAddr"]) == (name, NAMESRV)
    ports = {own: host for host, own in published(BROKERS[name]).items()}
    outside = {each: port for each, port in listens(given).items() if each.endswith("outside")}
    assert set(outside.values()) == set(ports)
    assert given["advertisedAddresses"] == ",".join(f"{each}=127.0.0.1:{ports[own]}" for each, own in outside.items())
    is_slave = given["brokerRole"] == "SLAVE"
    assert (int(given.get("brokerId", 0)) > 0) == is_slave
    assert ("sdk" in listens(given)) != is_slave, "slaves serve no gRPC clients"


def test_a_file_of_the_operator_gives_brokers_access_control():
    assert all(each["env_file"] == ["/dev/null"] for each in BROKERS.values())
    assert "${GANTRYMQ_ACCESS:-/dev/null}" in COMPOSE.read_text()


@pytest.mark.parametrize("name", NAME_SERVERS)
def test_a_name_server_has_known_settings_and_publishes_its_outer_listener(name, tmp_path):
    given = NAME_SERVERS[name]["environment"]
    check_settings("nameserver", given, tmp_path)
    assert set(published(NAME_SERVERS[name]).values()) == set(listens(given).values())
    assert f"{name}:9876" in NAMESRV.split(";")


def test_ports_and_volumes_do_not_clash():
    ports = Counter(port for each in SERVICES.values() for port in published(each))
    volumes = Counter(volume.split(":")[0] for each in SERVICES.values() for volume in each["volumes"])
    assert set(ports.values()) == set(volumes.values()) == {1}
    assert {volume for volume in volumes if not volume.startswith(".")} == set(FILE["volumes"])


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_a_command_a_time_to_stop_and_is_checked(name):
    service = SERVICES[name]
    check_command(service["command"])
    assert service["stop_grace_period"] == "60s"
    assert "healthcheck" in service or name in BROKERS  # the image checks a broker
    assert set(service.get("depends_on", {})) <= set(SERVICES)
