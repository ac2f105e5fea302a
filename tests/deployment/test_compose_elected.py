"""The Compose file with an elected master: brokers differ by addresses, and reach etcd as its members listen."""

import re
from pathlib import Path

import pytest
import yaml
from settings_check import check_command, check_settings

COMPOSE = Path(__file__).resolve().parents[2] / "packaging/compose-elected.yaml"
FILE = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", COMPOSE.read_text()))
SERVICES = FILE["services"]
BROKERS = [name for name in SERVICES if name.startswith("broker")]
ETCD = [name for name in SERVICES if name.startswith("etcd")]
OWN = {"brokerIP1", "advertisedAddresses"}


def test_three_brokers_of_one_name_differ_by_addresses():
    assert len(BROKERS) == 3
    (common,) = {
        tuple(sorted((key, value) for key, value in SERVICES[name]["environment"].items() if key not in OWN))
        for name in BROKERS
    }
    assert dict(common)["minInSyncReplicas"] == "2"
    assert len({SERVICES[name]["environment"]["advertisedAddresses"] for name in BROKERS}) == 3


@pytest.mark.parametrize("name", BROKERS)
def test_a_broker_has_known_settings_and_is_reached_from_outside_where_it_says(name, tmp_path):
    given = SERVICES[name]["environment"]
    assert all(isinstance(value, str) for value in given.values())
    settings = check_settings("broker", given, tmp_path)
    assert (settings["brokerIP1"], settings["enableControllerMode"]) == (name, True)
    ports = {own: host for _, host, own in (each.split(":") for each in SERVICES[name]["ports"])}
    listeners = re.findall(r"([\w-]+)=\w+://[^,]*:(\d+)", given["listeners"])
    outside = {each: own for each, own in listeners if each.endswith("outside")}
    assert set(outside.values()) == set(ports)
    assert given["advertisedAddresses"] == ",".join(f"{each}=127.0.0.1:{ports[own]}" for each, own in outside.items())
    check_command(SERVICES[name]["command"])


def test_their_election_settings_are_accepted():
    pytest.importorskip("gantrymq_replication")
    from gantrymq.config import Settings
    from gantrymq_replication.settings import SCHEMA, ElectionSettings, settings_without_effect

    settings = Settings(SCHEMA)
    for key, value in SERVICES[BROKERS[0]]["environment"].items():
        if key in settings.schema:
            settings.set(key, value, COMPOSE.name)
    rules = ElectionSettings.of(settings, Path("/data/store"))
    assert rules.endpoints == tuple(f"{name}:2379" for name in ETCD)
    assert [*settings_without_effect(settings)] == []


def test_members_of_etcd_know_each_other():
    assert len(ETCD) == 3
    members = ",".join(f"{name}=http://{name}:2380" for name in ETCD)
    for name in ETCD:
        options = dict(each.removeprefix("--").split("=", 1) for each in SERVICES[name]["command"])
        assert (options["name"], options["initial-cluster"]) == (name, members)
        assert options["advertise-client-urls"] == f"http://{name}:2379"
        assert options["initial-advertise-peer-urls"] == f"http://{name}:2380"
        assert "ports" not in SERVICES[name]


def test_every_server_has_a_volume_of_its_own_and_time_to_stop():
    volumes = [volume.split(":")[0] for each in SERVICES.values() for volume in each["volumes"]]
    assert sorted(volumes) == sorted(FILE["volumes"])
    for name, service in SERVICES.items():
        assert service["stop_grace_period"] == ("10s" if name in ETCD else "60s")
        assert set(service.get("depends_on", {})) <= set(SERVICES)
