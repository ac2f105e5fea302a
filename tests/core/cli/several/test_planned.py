"""Settings of several brokers on one machine."""

import attrs
import pytest

from gantrymq.cli.server_settings import ServerArguments
from gantrymq.cli.several.planned import check_brokers, left_out, plan_brokers
from gantrymq.errors import ConfigError
from gantrymq.world.real import real_world


@pytest.fixture
def plan(tmp_path):
    world = attrs.evolve(real_world(), environ={})

    def plan(count, *pairs, own=(), file="", environ=None):
        files = []
        for number, text in enumerate(own):
            files.append(tmp_path / f"{number}.conf")
            files[-1].write_text(text)
        common = None
        if file:
            common = tmp_path / "common.conf"
            common.write_text(file)
        pairs = (f"storePathRootDir={tmp_path / 'store'}", *pairs)
        arguments = ServerArguments("gantrymq start", common, pairs)
        planned = plan_brokers(attrs.evolve(world, environ=environ or {}), arguments, count, files)
        check_brokers(planned)
        return planned

    return plan


def values(planned, key):
    return [each.settings.as_dict()[key] for each in planned]


def test_each_has_a_name_a_folder_and_ports_of_its_own(plan, tmp_path):
    planned = plan(3)
    assert [each.name for each in planned] == ["broker-0", "broker-1", "broker-2"]
    assert values(planned, "listenPort") == [10911, 10921, 10931]
    assert values(planned, "storePathRootDir") == [str(tmp_path / "store" / f"broker-{n}") for n in range(3)]
    assert all(each.forced["listenPort"][0] == str(each.settings.number("listenPort")) for each in planned)


def test_a_common_name_and_port_are_the_base(plan):
    planned = plan(2, environ={"brokerName": "mail", "listenPort": "20000"})
    assert [each.name for each in planned] == ["mail-0", "mail-1"]
    assert values(planned, "listenPort") == [20000, 20010]


def test_a_free_port_stays_a_free_one(plan):
    assert values(plan(2, "listenPort=0"), "listenPort") == [0, 0]


def test_ports_of_plugins_differ_too(plan):
    pytest.importorskip("gantrymq_metrics")
    assert values(plan(2), "metricsPromExporterPort") == [5557, 5567]


def test_the_console_is_served_by_the_first(plan):
    pytest.importorskip("gantrymq_console")
    assert values(plan(2, "consoleListen=127.0.0.1:8088"), "consoleListen") == ["127.0.0.1:8088", ""]


def test_a_file_of_its_own_overrides_what_is_common(plan, tmp_path):
    own = [f"brokerName=a\nlistenPort=1000\nstorePathRootDir={tmp_path}/elsewhere\ntraceOn=false\n", ""]
    planned = plan(2, "traceOn=true", own=own, environ={"listenPort": "2000"})
    assert [each.name for each in planned] == ["a", "broker-1"]
    assert values(planned, "listenPort") == [1000, 2010]
    assert values(planned, "traceOn") == [False, True]
    assert values(planned, "storePathRootDir") == [f"{tmp_path}/elsewhere", f"{tmp_path}/store/broker-1"]


def test_a_file_of_its_own_may_have_listeners(plan):
    own = [f"listeners=external=remoting://127.0.0.1:{port}\n" for port in (1000, 1001)]
    assert len(set(values(plan(2, own=own), "listeners"))) == 2


def test_common_listeners_have_ports_of_each_broker(plan):
    common = "sdk=grpc://0.0.0.0:8081,tls=remoting+tls://[::1]:9000,free=grpc+tls://127.0.0.1:0"
    first, second, third = plan(3, f"listeners={common}", own=("", "", "listeners=sdk=grpc://0.0.0.0:99\n"))
    assert first.settings.text("listeners") == common
    stepped = "sdk=grpc://0.0.0.0:8091,tls=remoting+tls://[::1]:9010,free=grpc+tls://127.0.0.1:0"
    assert second.settings.text("listeners") == second.forced["listeners"][0] == stepped
    assert third.settings.text("listeners") == "sdk=grpc://0.0.0.0:99"
    with pytest.raises(ConfigError, match="sdk does not start with a name"):
        plan(2, "listeners=sdk")
    with pytest.raises(ConfigError, match="broker 1: listeners: '0.0.0.0:65540' is not host:port"):
        plan(2, "listeners=sdk=grpc://0.0.0.0:65530")


def test_advertised_addresses_cannot_be_common(plan):
    with pytest.raises(ConfigError, match="line 1: advertisedAddresses cannot be the same for several brokers"):
        plan(2, file="advertisedAddresses=external=broker.example:1000\n")
    assert len(plan(1, file="advertisedAddresses=external=broker.example:1000\n")) == 1


def test_a_port_above_the_largest_is_refused(plan):
    with pytest.raises(ConfigError, match="gantrymq start, broker 1: listenPort=65540 is above"):
        plan(2, "listenPort=65530")


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ("brokerName=a", "brokerName=a", "two brokers have the name a"),
        ("listenPort=1000", "listenPort=1000", "listenPort of broker-0 and listenPort of broker-1 are both 1000"),
        (
            "listenPort=1000",
            "listenPort=1002",
            "listenPort of broker-0 and listenPort - 2, the fast port, of broker-1 are both 1000",
        ),
        ("storePathRootDir=/s", "storePathRootDir=/s/b", r"broker-0 \(/s\) and storePathRootDir of broker-1 \(/s/b\)"),
    ],
)
def test_what_must_differ_is_checked(plan, one, other, message):
    with pytest.raises(ConfigError, match=message):
        plan(2, own=(one, other))


def test_the_port_for_slaves_is_compared(plan):
    pytest.importorskip("gantrymq_replication")
    with pytest.raises(
        ConfigError, match="listenPort \\+ 1, the port for slaves, of broker-0 and listenPort of broker-1"
    ):
        plan(2, own=("listenPort=1000", "listenPort=1001"))
    assert len(plan(2, own=("listenPort=1000\nhaListenPort=900", "listenPort=1001"))) == 2


def test_one_port_on_two_addresses_is_allowed(plan):
    own = ("listenPort=1000\nbindAddress=127.0.0.1", "listenPort=1000\nbindAddress=127.0.0.2")
    assert len(plan(2, own=own)) == 2
    with pytest.raises(ConfigError, match="are both 1000"):
        plan(2, own=("listenPort=1000\nbindAddress=0.0.0.0", "listenPort=1000\nbindAddress=127.0.0.2"))


def test_a_common_folder_of_the_log_is_refused(plan):
    pytest.importorskip("gantrymq_storage_mmap")
    with pytest.raises(
        ConfigError, match=r"storePathCommitLog of broker-0 \(/log\) and storePathCommitLog of broker-1"
    ):
        plan(2, "storePathCommitLog=/log")


def test_stores_that_no_broker_opens_are_told(plan, tmp_path):
    root = tmp_path / "store"
    files = real_world().files
    assert list(left_out(files, root, plan(2))) == []
    for name in ("broker-0", "broker-2", "."):
        (root / name / "commitlog").mkdir(parents=True)
    (root / "notes.txt").write_text("")
    single, other = left_out(files, root, plan(2))
    assert single.startswith(f"{root} has the store of a single broker, whose messages are not served")
    assert other == f"{root}/broker-2 has the store of a broker that is not started; its messages are not served"


def test_brokers_of_one_elected_set_are_started_one_by_one(plan):
    pytest.importorskip("gantrymq_replication")
    elected = "enableControllerMode=true\ncontrollerAddr=c:9878\n"
    one, other = plan(2, file=elected)
    assert (one.name, other.name) == ("broker-0", "broker-1")
    with pytest.raises(
        ConfigError, match="two brokers have the name a; .*; brokers of one elected set are started one"
    ):
        plan(2, file=elected, own=("brokerName=a", "brokerName=a"))
