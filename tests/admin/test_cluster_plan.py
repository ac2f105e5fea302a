"""``cluster plan``: from a description to settings files, and what it refuses."""

import json
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.errors import ConfigError
from gantrymq.settings_file import parse_properties
from gantrymq_admin.planning.checking import notes, problems
from gantrymq_admin.planning.description import EXAMPLE, parse
from gantrymq_admin.planning.placing import place

THREE = '[machines]\nm1 = "192.0.2.1"\nm2 = "192.0.2.2"\nm3 = "m3.example"\n'


def placed(text):
    """The settings of each server by machine and name."""
    return {(server.machine, server.name): server.values for server in place(parse(text, "c.toml"))}


def wrong(text):
    description = parse(text, "c.toml")
    return list(problems(description, place(description)))


def unwise(text):
    description = parse(text, "c.toml")
    return list(notes(description, place(description)))


def test_numbers_place_servers_on_machines_in_turn():
    found = placed("masters = 4\nslaves = 1\n" + THREE)
    assert list(found) == [
        *(("m1", "namesrv"), ("m2", "namesrv"), ("m3", "namesrv")),
        *(("m1", "broker-a"), ("m2", "broker-b"), ("m3", "broker-c"), ("m1", "broker-d")),
        *(("m2", "broker-a-s1"), ("m3", "broker-b-s1"), ("m1", "broker-c-s1"), ("m2", "broker-d-s1")),
    ]
    slave = found["m2", "broker-a-s1"]
    assert (slave["brokerName"], slave["brokerId"], slave["brokerRole"]) == ("broker-a", "1", "SLAVE")
    assert "brokerRole" not in found["m1", "broker-a"]


def test_brokers_of_a_machine_have_ports_and_folders_of_their_own():
    found = placed("masters = 4\nslaves = 1\n[settings]\nlistenPort = 12000\n" + THREE)
    of_m1 = [found["m1", name] for name in ("broker-a", "broker-d", "broker-c-s1")]
    assert [values["listenPort"] for values in of_m1] == ["12000", "12010", "12020"]
    assert [values["haListenPort"] for values in of_m1] == ["12001", "12011", "12021"]
    assert [values.get("metricsPromExporterPort") for values in of_m1] == [None, "5567", "5577"]
    assert [values["storePathRootDir"] for values in of_m1] == [
        f"/var/lib/gantrymq/{name}" for name in ("broker-a", "broker-d", "broker-c-s1")
    ]
    assert wrong("masters = 4\nslaves = 1\n[settings]\nlistenPort = 12000\n" + THREE) == []


def test_name_servers_know_of_acting_masters():
    found = placed("masters = 2\nslaves = 1\n[settings]\nenableSlaveActingMaster = true\n" + THREE)
    assert [found["m1", "namesrv"][key] for key in ("supportActingMaster", "notifyMinBrokerIdChanged")] == ["true"] * 2
    assert "supportActingMaster" not in placed("masters = 2\nslaves = 1\n" + THREE)["m1", "namesrv"]


def test_addresses_are_those_of_the_machines():
    found = placed("masters = 3\nname_servers = 2\n" + THREE)
    servers = "192.0.2.1:9876;192.0.2.2:9876"
    assert {values["namesrvAddr"] for (_, name), values in found.items() if name != "namesrv"} == {servers}
    assert [found["m1", "broker-a"][key] for key in ("brokerIP1", "bindAddress")] == ["192.0.2.1"] * 2
    assert [found["m3", "broker-c"][key] for key in ("brokerIP1", "bindAddress")] == ["m3.example", "0.0.0.0"]


def metrics_of(settings):
    """The address of the metrics of each server."""
    return [
        server.metrics for server in place(parse(f"name_servers = 1\n{ONE_MASTER}[settings]\n{settings}", "c.toml"))
    ]


ONE_MASTER = 'masters = 1\nslaves = { broker-a = ["m3", "m2"] }\n' + THREE


@pytest.mark.parametrize(
    ("settings", "addresses"),
    [
        ("", ["127.0.0.1:5557"] * 3),
        ('metricsPromExporterHost = ""', ["192.0.2.1:5557", "m3.example:5557", "192.0.2.2:5557"]),
        ('metricsPromExporterHost = "0.0.0.0"', ["192.0.2.1:5557", "m3.example:5557", "192.0.2.2:5557"]),
        ("metricsPromExporterPort = 9100", ["127.0.0.1:9100"] * 3),
        ("metricsPromExporterPort = 0", [""] * 3),
        ('metricsExporterType = "DISABLE"', [""] * 3),
    ],
)
def test_addresses_of_metrics_are_known(settings, addresses):
    assert metrics_of(settings) == ["", *addresses]


def test_brokers_of_a_machine_have_metrics_of_their_own():
    found = place(parse('masters = 2\n[settings]\nmetricsPromExporterHost = ""\n[machines]\nm = "192.0.2.1"', "c.toml"))
    assert [server.metrics for server in found] == ["", "192.0.2.1:5557", "192.0.2.1:5567"]


SLAVES = "slaves = 1\n" + THREE


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ('brokerRole = "SYNC_MASTER"', ["brokerRole=SYNC_MASTER waits for no slave"]),
        ('brokerRole = "SYNC_MASTER"\ninSyncReplicas = 2', []),
        ('brokerRole = "SYNC_MASTER"\nallAckInSyncStateSet = true', []),
        ('tls.server.mode = "enforcing"', ["does not apply to copies of the log"]),
        ('tls.server.mode = "enforcing"\nhaTlsEnable = true', []),
        (
            'tls.server.mode = "enforcing"\nhaTlsEnable = true\ntls.enable = false',
            ["slaves cannot copy topics, groups and offsets"],
        ),
        ("haTlsEnable = true", ["haTlsEnable=true encrypts copies of the log only"]),
        ("haTlsEnable = true\ntls.enable = true", []),
        ("", []),
    ],
)
def test_what_copies_do_not_get_is_noted(settings, words):
    found = unwise(f"masters = 2\n{SLAVES}[settings]\n{settings}\n")
    found = [each for each in found if not each.startswith("without machine")]
    assert len(found) == len(words), found
    assert all(word in sentence for word, sentence in zip(words, found, strict=True))
    alone = unwise(f"{THREE}[settings]\n{settings}\n")
    assert not any("TLS" in each for each in alone)


def test_places_can_be_named():
    text = (
        'masters = { mail = "m3" }\nslaves = { mail = ["m1", "m2"] }\nname_servers = ["m2"]\n'
        '[settings]\ntraceOn = false\n[brokers.mail]\ntls.server.mode = "disabled"\n' + THREE
    )
    found = placed(text)
    assert list(found) == [("m2", "namesrv"), ("m3", "mail"), ("m1", "mail-s1"), ("m2", "mail-s2")]
    assert all(found[place]["tls.server.mode"] == "disabled" for place in list(found)[1:])
    assert found["m3", "mail"]["traceOn"] == "false"


def test_what_is_written_is_read_back():
    servers = place(parse('[settings]\nregionId = "a=#b \\\\ c"\n' + THREE, "c.toml"))
    text = servers[-1].text("c.toml")
    assert {line.key: line.value for line in parse_properties(text, "x")} == servers[-1].values


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "it needs machines with their addresses"),
        ("=", "c.toml is not TOML"),
        (b"\xff", "c.toml is not text in UTF-8"),
        ("master = 1\n" + THREE, r"there is no key master \(did you mean masters\?\)"),
        ("masters = 0\n" + THREE, r"masters is 0; write a number from 1 to 26, or masters = \{"),
        ("masters = true\n" + THREE, "masters is True; write a number"),
        ("slaves = 4\n" + THREE, "slaves is 4; write a number from 0 to 3"),
        ("name_servers = 4\n" + THREE, "name_servers is 4; write a number from 1 to 3"),
        ('name_servers = ["m1", "m1"]\n' + THREE, "name_servers has a machine twice"),
        ('masters = { a = "m9" }\n' + THREE, "master a: there is no machine m9; the machines are m1, m2, m3"),
        ('masters = { "../a" = "m1" }\n' + THREE, "'../a' is not a name of a broker"),
        ('slaves = { b = "m1" }\n' + THREE, "slaves: there is no master b; the masters are broker-a"),
        ("[brokers.b]\nx = 1\n" + THREE, "brokers: there is no master b"),
        (
            '[machines]\nm1 = "nowhere at all"',
            "the address of machine m1 is 'nowhere at all', which is neither an IP address",
        ),
        ('[machines]\nm1 = "0.0.0.0"', "write the one under which others reach it"),
        ('[machines]\n"a/b" = "192.0.2.1"', "'a/b' is not a name of a machine"),
        ('data = "store"\n' + THREE, "data is 'store'; write the whole path"),
        ("[settings]\nflushDiskType = 1.5\n" + THREE, "settings: flushDiskType is 1.5; write a text"),
        ('[settings]\nbrokerName = "a"\n' + THREE, "settings: brokerName is the name in masters"),
        ('[settings]\nbrokerIP1 = "192.0.2.9"\n' + THREE, "settings: brokerIP1 is the address of the machine"),
    ],
)
def test_a_description_that_is_wrong_is_refused(text, sentence):
    with pytest.raises(ConfigError, match=sentence):
        parse(text, "c.toml")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[machines]\nm1 = "192.0.2.1"\nm2 = "127.0.0.1"', "m2 is 127.0.0.1, which the other machines cannot reach"),
        ('[machines]\nm1 = "192.0.2.1"\nm2 = "192.0.2.1"', "machines m1 and m2 have the same address 192.0.2.1"),
        (
            'slaves = { broker-a = "m1" }\n' + THREE,
            "slave broker-a-s1 is on machine m1, where its master is: one failure would take both",
        ),
        (
            'slaves = { broker-a = ["m2", "m2"] }\n' + THREE,
            "slave broker-a-s2 is on machine m2, where its slave broker-a-s1 is",
        ),
        (
            'masters = { a = "m1", b = "m1" }\n[brokers.b]\nlistenPort = 10911\n' + THREE,
            "on machine m1, listenPort of a and listenPort of b are both 10911",
        ),
        (
            'masters = { a = "m1", b = "m1" }\n[brokers.b]\nlistenPort = 10909\n' + THREE,
            "on machine m1, listenPort - 2, the fast port, of a and listenPort of b are both 10909",
        ),
        ("[settings]\nlistenPort = 9878\n" + THREE, "listenPort of namesrv and listenPort - 2, the fast port,"),
        (
            'masters = { a = "m1", b = "m1" }\n[brokers.b]\nstorePathRootDir = "/var/lib/gantrymq/a/b"\n' + THREE,
            "storePathRootDir of a (/var/lib/gantrymq/a) and storePathRootDir of b (/var/lib/gantrymq/a/b) are not",
        ),
        (
            '[machines]\nm1 = "2001:db8::1"\nm2 = "2001:db8:0::1"',
            "machines m1 and m2 have the same address 2001:db8::1",
        ),
        ('[machines]\nm1 = "m.example"\nm2 = "M.example."', "machines m1 and m2 have the same address m.example"),
        (
            "[settings]\nmetricsPromExporterPort = 10911\n" + THREE,
            "listenPort and metricsPromExporterPort of broker-a are both 10911",
        ),
        (
            'slaves = 1\nmasters = 2\n[settings]\nhaMasterAddress = "192.0.2.1:10912"\n' + THREE,
            "haMasterAddress in [settings] would make the slaves of all masters copy the same one",
        ),
        (
            'slaves = 1\n[settings]\nmetricsPromExporterHost = "192.0.2.1"\n' + THREE,
            "metricsPromExporterHost=192.0.2.1 of broker-a-s1 is the address of machine m1, but it runs on m2",
        ),
        (
            "slaves = 1\n[settings]\ninSyncReplicas = 3\n" + THREE,
            "inSyncReplicas=3 of broker-a is more than its 2 copies",
        ),
    ],
)
def test_a_cluster_that_could_not_work_is_refused(text, sentence):
    assert any(sentence in problem for problem in wrong(text)), wrong(text)


def test_unwise_choices_are_told():
    assert unwise("masters = 3\n" + THREE) == []
    assert unwise("name_servers = 1\nmasters = 2\n" + THREE) == [
        "there is one name server: without it, clients that start find no broker; two or three are usual",
        "machine m3 has no server",
    ]
    assert unwise('slaves = 1\n[machines]\nm = "127.0.0.1"') == [
        "all copies are on one machine: they do not help if that is lost"
    ]
    assert unwise('masters = 2\nslaves = { broker-a = "m2" }\n' + THREE) == [
        "broker-b has no slave, unlike other masters"
    ]
    for setting in ("inSyncReplicas = 2", "allAckInSyncStateSet = true"):
        (note,) = unwise(f"masters = 3\nslaves = 1\n[brokers.broker-b]\n{setting}\n" + THREE)
        assert "of broker-b has no effect: set brokerRole=SYNC_MASTER" in note


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(text, *words):
        (tmp_path / "c.toml").write_text(text)
        return CliRunner().invoke(main, ["cluster", "plan", "c.toml", *words])

    return run


def test_a_folder_for_each_machine_is_written(run, tmp_path):
    done = run(EXAMPLE, "--output", "json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["namesrv"] == "192.0.2.11:9876;192.0.2.12:9876"
    assert [server["kind"] for server in document["servers"]] == ["name_server"] * 2 + ["master"] * 2
    assert [server["metrics"] for server in document["servers"]] == [None, None] + ["127.0.0.1:5557"] * 2
    assert document["servers"][3]["command"] == "gantrymq broker -c /etc/gantrymq/broker-b.conf"
    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("plan/*/*"))
    assert written == sorted(
        [*(server["file"] for server in document["servers"]), "plan/m1/commands.txt", "plan/m2/commands.txt"]
    )
    assert (tmp_path / "plan/m1/commands.txt").read_text().splitlines() == [
        "gantrymq nameserver -c /etc/gantrymq/namesrv.conf",
        "gantrymq broker -c /etc/gantrymq/broker-a.conf",
    ]
    if find_spec("gantrymq_storage_mmap") is not None:  # its settings have no effect without it, which is a note
        assert document["notes"] == []


def test_an_empty_address_of_metrics_is_read_as_that_of_the_machine(run, tmp_path):
    done = run('[settings]\nmetricsPromExporterHost = ""\n' + THREE)
    assert done.exit_code == 0, done.stderr
    assert "192.0.2.1:5557" in done.stdout
    (line,) = [
        each
        for each in parse_properties((tmp_path / "plan/m1/broker-a.conf").read_text(), "x")
        if each.key == "metricsPromExporterHost"
    ]
    assert line.value == ""


def test_text_says_what_to_do(run):
    done = run(EXAMPLE)
    assert "Copy each machine's folder to its /etc/gantrymq, then start in this order:" in done.stdout
    assert "  m2: gantrymq broker -c /etc/gantrymq/broker-b.conf" in done.stdout
    assert done.stdout.endswith("Clients: NAMESRV_ADDR='192.0.2.11:9876;192.0.2.12:9876'\n")


def test_the_example_is_printed():
    done = CliRunner().invoke(main, ["cluster", "plan", "--example"])
    assert (done.exit_code, done.stdout) == (0, EXAMPLE)


def test_a_dry_run_writes_nothing(run, tmp_path):
    assert run(EXAMPLE, "--dry-run").exit_code == 0
    assert not (tmp_path / "plan").exists()


def test_files_are_replaced_only_on_request(run):
    assert run(EXAMPLE).exit_code == 0
    done = run(EXAMPLE)
    assert (done.exit_code, done.stderr) == (
        1,
        "gantrymq: plan is not empty; --force writes into it, -o selects another folder\n",
    )
    assert run(EXAMPLE, "--force").exit_code == 0


def test_settings_are_checked_as_a_server_reads_them(run, tmp_path):
    done = run('[settings]\nflushDiskTyp = "ASYNC_FLUSH"\n' + THREE)
    assert done.exit_code == 0
    (warning,) = done.stderr.splitlines()
    assert warning.startswith("warning: plan/m1/broker-a.conf line ")
    assert "there is no setting flushDiskTyp; it is ignored (did you mean flushDiskType?)" in warning
    done = run("[name_server_settings]\nlistenPort = 70000\n" + THREE, "-o", "other")
    assert done.exit_code == 1
    assert "gantrymq: other/m1/namesrv.conf line 2: listenPort=70000 is above the largest" in done.stderr
    assert not (tmp_path / "other").exists()


def test_problems_are_told_together(run, tmp_path):
    text = '[machines]\nm1 = "127.0.0.1"\nm2 = "127.0.0.1"'
    done = run(text)
    assert done.exit_code == 1
    assert "cannot reach; the address of machine m2" in done.stderr
    assert "have the same address" in done.stderr
    assert not (tmp_path / "plan").exists()


@pytest.mark.skipif(find_spec("gantrymq_replication") is not None, reason="needs an installation without replication")
def test_slaves_need_the_plugin(run):
    done = run("slaves = 1\n" + THREE)
    assert (done.exit_code, done.stderr) == (
        1,
        "gantrymq: c.toml: slaves need the plugin gantrymq-replication, which is not installed\n",
    )


def test_a_file_that_is_missing_is_one_sentence(tmp_path):
    done = CliRunner().invoke(main, ["cluster", "plan", str(tmp_path / "no.toml")])
    assert (done.exit_code, done.stderr) == (
        1,
        f"gantrymq: {tmp_path}/no.toml cannot be read: No such file or directory\n",
    )


SYNC = THREE + '[settings]\nbrokerRole = "SYNC_MASTER"\ninSyncReplicas = 2\n'


def test_a_machine_without_which_nothing_is_acknowledged_is_noted():
    assert [each[:18] for each in unwise("masters = 2\nslaves = 1\n" + SYNC)] == ["without machine m2"]
    assert unwise("masters = 2\nslaves = 2\n" + SYNC) == []
    assert unwise("masters = 3\nslaves = 1\n" + SYNC) == []
    (sentence,) = unwise("masters = 2\nslaves = 1\n" + SYNC.replace("inSyncReplicas = 2", ""))
    assert "without machine" not in sentence


def test_a_sync_master_answers_before_clients_give_up():
    masters = {server.name: server for server in place(parse("masters = 2\nslaves = 1\n" + SYNC, "c.toml"))}
    text = masters["broker-a"].text("c.toml")
    assert masters["broker-a"].values["slaveTimeout"] == "1000"
    assert "\n# below the 3 s after which clients give up" in text.partition("slaveTimeout=1000\n")[0]
    assert {line.key: line.value for line in parse_properties(text, "x")} == masters["broker-a"].values
    assert "slaveTimeout" not in masters["broker-a-s1"].values
    own = placed("slaves = 1\n" + SYNC + "slaveTimeout = 2500\n")
    assert own["m1", "broker-a"]["slaveTimeout"] == "2500"
    assert "below the 3 s" not in place(parse("slaves = 1\n" + SYNC + "slaveTimeout = 2500\n", "c.toml"))[-2].text("c")
    assert "slaveTimeout" not in placed("slaves = 1\n" + THREE)["m1", "broker-a"]


# --- elected roles ----------------------------------------------------------------------------------------------------

ETCD = '[settings]\nenableControllerMode = true\nelectionEngine = "etcd"\netcdEndpoints = "e1:2379;e2:2379;e3:2379"\n'
THREE_COPIES = "masters = 1\nslaves = 2\n" + THREE


def test_brokers_with_elected_roles_have_no_fixed_ones():
    found = placed(THREE_COPIES + ETCD + "minInSyncReplicas = 2\n")
    brokers = {name: values for (_, name), values in found.items() if name != "namesrv"}
    assert list(brokers) == ["broker-a", "broker-a-s1", "broker-a-s2"]
    for values in brokers.values():
        assert not {"brokerRole", "brokerId"} & values.keys()
        assert (values["brokerName"], values["haListenPort"], values["slaveTimeout"]) == ("broker-a", "10912", "1000")
    assert wrong(THREE_COPIES + ETCD + "minInSyncReplicas = 2\n") == []
    assert unwise(THREE_COPIES + ETCD + "minInSyncReplicas = 2\n") == []
    assert unwise(THREE_COPIES + ETCD.replace(";", ",") + "minInSyncReplicas = 2\n") == []
    (one, *_) = [each for each in place(parse(THREE_COPIES + ETCD, "c.toml")) if each.broker]
    assert one.text("c.toml").startswith("# broker with an elected role on m1, by gantrymq cluster plan from c.toml\n")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("", "enableControllerMode=true of broker-a with electionEngine=controller needs controllerAddr"),
        ('controllerAddr = "nowhere"', "controllerAddr of broker-a: 'nowhere' is not host:port"),
        (
            'controllerAddr = "127.0.0.1:9878"',
            "controllerAddr of broker-a has 127.0.0.1:9878, which is another process on each machine",
        ),
        (
            'controllerAddr = "c:9878"\nenableSlaveActingMaster = true',
            "enableControllerMode=true and enableSlaveActingMaster=true of broker-a: choose one of them",
        ),
        (
            'controllerAddr = "c:9878"\nbrokerRole = "SYNC_MASTER"',
            "brokerRole of broker-a: leave it out, because its role is elected (enableControllerMode=true)",
        ),
        (
            'controllerAddr = "c:9878"\nminInSyncReplicas = 4',
            "minInSyncReplicas=4 of broker-a is more than its 3 copies: its messages would never be acknowledged",
        ),
    ],
)
def test_settings_of_elections_that_cannot_work_are_refused(settings, sentence):
    assert wrong(f"{THREE_COPIES}[settings]\nenableControllerMode = true\n{settings}\n") == [sentence]


def test_what_is_unwise_with_elections_is_told():
    least = (
        "minInSyncReplicas is 1: while one broker of broker-a is left, a message that it acknowledges is on its disk"
    )
    assert unwise(THREE_COPIES + ETCD) == [f"{least} only; 2 refuses messages then"]
    alone = "broker-a is alone: no other broker can be elected when it is lost; slaves = 1 or more adds some"
    assert unwise("masters = 1\n" + THREE + ETCD) == [alone]
    one = ETCD.replace("e1:2379;e2:2379;e3:2379", "e1:2379") + 'minInSyncReplicas = 2\nfencing = "rocketmq"\n'
    assert unwise("masters = 1\nslaves = 1\n" + THREE + one) == [
        "minInSyncReplicas=2 of broker-a needs all of its 2 brokers: without one of them no message is accepted; "
        "another slave helps",
        "etcdEndpoints of broker-a has 1 of the members of etcd: with three, one may be lost",
        "fencing=rocketmq of broker-a: a master without its engine acknowledges what is lost later",
    ]


# --- access control ---------------------------------------------------------------------------------------------------

ACCOUNT = {"accessKey": "servers", "secretKey": "secret-of-the-servers"}
INNER = "innerClientAuthenticationCredentials"
CONTROLLED = f'access = "account.json"\nslaves = 1\n{THREE}'


def planned(folder, text, *options):
    (folder / "c.toml").write_text(text)
    done = CliRunner().invoke(main, ["cluster", "plan", str(folder / "c.toml"), "-o", str(folder / "plan"), *options])
    files = sorted(each for each in (folder / "plan").glob("*/*.conf")) if (folder / "plan").exists() else []
    return done, {
        each.name: (each.stat().st_mode & 0o777, list(parse_properties(each.read_text(), each.name))) for each in files
    }


def value_of(lines, key):
    return next((line.value for line in lines if line.key == key), None)


def test_servers_get_the_account_in_files_that_only_their_user_can_read(tmp_path):
    pytest.importorskip("gantrymq_replication")  # the plan has slaves
    (tmp_path / "account.json").write_text(json.dumps(ACCOUNT, indent=2))
    (tmp_path / "account.json").chmod(0o600)
    done, files = planned(tmp_path, CONTROLLED)
    assert done.exit_code == 0, done.output
    assert {mode for mode, _ in files.values()} == {0o600} and ACCOUNT["secretKey"] not in done.output
    assert all(json.loads(value_of(lines, INNER)) == ACCOUNT for _, lines in files.values())
    assert [value_of(files[name][1], "authorizer") for name in ("broker-a.conf", "namesrv.conf")] == ["acl", None]


def test_a_missing_account_is_made_once(tmp_path):
    pytest.importorskip("gantrymq_replication")  # the plan has slaves
    _, first = planned(tmp_path, CONTROLLED)
    made = json.loads((tmp_path / "account.json").read_text())
    assert (tmp_path / "account.json").stat().st_mode & 0o777 == 0o600 and len(made["secretKey"]) == 48
    _, again = planned(tmp_path, CONTROLLED, "--force")
    assert json.loads(value_of(again["broker-a.conf"][1], INNER)) == made
    assert value_of(first["broker-a.conf"][1], INNER) == value_of(again["broker-a.conf"][1], INNER)


def test_a_trial_makes_no_account(tmp_path):
    pytest.importorskip("gantrymq_replication")  # the plan has slaves
    done, files = planned(tmp_path, CONTROLLED, "--dry-run")
    assert done.exit_code == 0 and not files and not (tmp_path / "account.json").exists()


@pytest.mark.parametrize("key", ["authorizer", "authenticationEnabled", "aclEnable"])
def test_another_authorizer_of_the_settings_is_kept(key):
    description = parse(f'access = "account.json"\n[settings]\n{key} = "true"\n{THREE}', "c.toml")
    found = {server.name: server.values for server in place(description, json.dumps(ACCOUNT))}
    assert found["broker-a"].get("authorizer") == ("true" if key == "authorizer" else None)


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [("{}", 0o600, "is not of the form"), ("the-secret", 0o600, "is not of the form"), ("{}", 0o644, "run: chmod o=")],
)
def test_a_file_without_an_account_is_refused(tmp_path, content, mode, said):
    (tmp_path / "account.json").write_text(content)
    (tmp_path / "account.json").chmod(mode)
    done, files = planned(tmp_path, CONTROLLED)
    assert done.exit_code == 1 and said in done.output and not files
    assert "the-secret" not in done.output


def test_slaves_without_a_secret_of_their_own_are_unwise():
    assert any("access control does not apply to haListenPort" in each for each in unwise(CONTROLLED))
    assert not any(
        "access control" in each
        for each in unwise('[settings]\nhaSecretPath = "/etc/gantrymq/ha-secret"\n' + CONTROLLED)
    )


def test_the_account_is_not_a_setting_of_the_description():
    for table in ("settings", "name_server_settings"):
        with pytest.raises(ConfigError, match=f"{table}: {INNER} is in the file of the key access"):
            parse(f'[{table}]\n{INNER} = "x"\n{THREE}', "c.toml")
