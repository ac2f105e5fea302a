"""The Helm chart: its values and, where helm is installed, what it renders."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from settings_check import check_command, check_settings

CHART = Path(__file__).resolve().parents[2] / "packaging/helm/gantrymq"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
EVERYTHING = (
    "console.enabled=true",
    "console.tlsSecret=tls",
    "console.hostName=mq.example",
    "serviceMonitor.enabled=true",
)


def render(*values):
    """Return what the chart renders with *values*."""
    helm = shutil.which("helm") or pytest.skip("helm is not here")
    words = [word for value in values for word in ("--set", value)]
    done = subprocess.run([helm, "template", "orders", CHART, *words], capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(objects, kind):
    return [each for each in objects if each["kind"] == kind]


def container(each):
    (found,) = each["spec"]["template"]["spec"]["containers"]
    return found


def settings(each):
    """The settings that the container of a set gets in variables."""
    return {pair["name"]: pair["value"] for pair in container(each).get("env", ())}


def brokers(objects):
    return [each for each in of_kind(objects, "StatefulSet") if container(each)["name"] == "broker"]


def test_templates_use_values_that_exist():
    used = set()
    for template in (CHART / "templates").iterdir():
        used |= set(re.findall(r"\.Values\.([\w.]+)", template.read_text()))
    for path in used:
        place = VALUES
        for key in path.split("."):
            if place in (VALUES["brokers"]["masterSettings"], VALUES["brokers"]["settings"]):
                break
            assert key in place, path
            place = place[key]


def test_settings_in_the_values_are_known(tmp_path):
    of_brokers = VALUES["brokers"]
    check_settings("broker", of_brokers["settings"] | of_brokers["masterSettings"], tmp_path)
    assert VALUES["nameServers"]["settings"] == {}


def test_brokers_are_masters_with_slaves_and_have_known_settings(tmp_path):
    found = brokers(render())
    roles = [(settings(each)["brokerName"], settings(each).get("brokerId", "0")) for each in found]
    assert roles == [(name, copy) for name in ("broker-0", "broker-1") for copy in ("0", "1")]
    for each in found:
        given = check_settings("broker", settings(each), tmp_path)
        assert given["brokerRole"] == ("SLAVE" if settings(each).get("brokerId") else "SYNC_MASTER")
        assert given["brokerIP1"] == f"{each['metadata']['name']}-0.orders-broker.default.svc"
        assert given["namesrvAddr"].split(";") == [f"orders-namesrv-{i}.orders-namesrv:9876" for i in range(2)]


def test_a_secret_gives_brokers_access_control():
    sources = {pair["name"]: pair for pair in container(brokers(render("access.secret=users"))[0])["env"]}
    assert sources["authenticationEnabled"]["value"] == sources["authorizationEnabled"]["value"] == "true"
    assert sources["accessMode"]["value"] == "enforce"
    for key in ("initAuthenticationUser", "innerClientAuthenticationCredentials"):
        assert sources[key]["valueFrom"]["secretKeyRef"] == {"name": "users", "key": key}
    assert "authenticationEnabled" not in settings(brokers(render())[0])


def test_every_pod_is_selected_limited_probed_and_may_write_its_store_only():
    objects = render(*EVERYTHING)
    services = {each["metadata"]["name"]: each["spec"]["selector"].items() for each in of_kind(objects, "Service")}
    sets = of_kind(objects, "StatefulSet")
    assert len(sets) == 6
    for each in sets:
        spec, labels = each["spec"], each["spec"]["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert services[spec["serviceName"]] <= labels.items()
        pod, its = spec["template"]["spec"], container(each)
        check_command(its["args"])
        assert (pod["securityContext"]["runAsUser"], pod["enableServiceLinks"]) == (10911, False)
        assert its["securityContext"]["readOnlyRootFilesystem"] is True
        assert "memory" in its["resources"]["limits"]
        ports = {port["name"] for port in its["ports"]}
        for probe in ("readinessProbe", "livenessProbe"):
            assert its[probe].get("tcpSocket", its[probe].get("httpGet"))["port"] in ports
        assert [claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]] == ["store"]


def test_evictions_networks_and_scrapes_are_limited_to_what_is_there():
    objects = render(*EVERYTHING)
    components = [each["spec"]["selector"]["matchLabels"] for each in of_kind(objects, "PodDisruptionBudget")]
    assert [each["app.kubernetes.io/component"] for each in components] == ["broker", "namesrv"]
    (policy,) = of_kind(objects, "NetworkPolicy")
    open_ports = [{port["port"] for port in rule.get("ports", ())} for rule in policy["spec"]["ingress"]]
    assert open_ports == [set(), {9876, 10911, 8081, 8088}, {5557}]
    (monitor,) = of_kind(objects, "ServiceMonitor")
    named = {port["name"] for each in of_kind(objects, "Service") for port in each["spec"]["ports"]}
    assert {each["port"] for each in monitor["spec"]["endpoints"]} <= named


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("brokers.slavesPerMaster=0", "no send would be acknowledged"),
        ("console.enabled=true", "is required"),
    ],
)
def test_values_that_cannot_work_are_refused(value, sentence):
    assert sentence in render(value)


def test_helm_finds_nothing_wrong():
    helm = shutil.which("helm") or pytest.skip("helm is not here")
    done = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


ELECTED = (
    "brokers.masters=1",
    "brokers.slavesPerMaster=2",
    "brokers.settings.enableControllerMode=true",
    "brokers.settings.electionEngine=etcd",
    "brokers.settings.etcdEndpoints=etcd-0.etcd:2379;etcd-1.etcd:2379;etcd-2.etcd:2379",
    "brokers.settings.minInSyncReplicas=2",
    "brokers.settings.slaveTimeout=1000",
)


def test_brokers_with_elected_roles_differ_by_addresses(tmp_path):
    found = brokers(render(*ELECTED))
    assert [each["metadata"]["name"] for each in found] == [
        "orders-broker-0",
        "orders-broker-0-s1",
        "orders-broker-0-s2",
    ]
    for each in found:
        given = settings(each)
        assert not {"brokerRole", "brokerId", "inSyncReplicas"} & given.keys()
        read = check_settings("broker", given, tmp_path)
        assert (read["brokerName"], read["enableControllerMode"], read["minInSyncReplicas"]) == ("broker-0", True, 2)
