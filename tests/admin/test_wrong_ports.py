"""Commands that are given a broker's address for a name server's, or the reverse, say what listens there."""

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq_testing.running_broker import RunningBroker

for each in ("schedule", "transaction", "diagnosis"):
    pytest.importorskip(f"gantrymq_{each}")

OF_NAME_SERVERS = (
    "status",
    "cluster",
    "topic list",
    "topic create New",
    "topic delete T",
    "topic route T",
    "topic status T",
    "group list",
    "group create CG",
    "group delete CG",
    "group clients CG",
    "group progress CG",
    "group explain CG",
    "group reset CG -t T --to earliest",
    "group clone CG Copy",
    "group dlq list CG",
    "group dlq show CG 0",
    "group dlq resend CG 0",
    "message send -t T --body b",
    "message pull -t T",
    "message tail -t T",
    "message query -t T --key k",
    "message view -t T 7F0000010001ABCDEF0123456789ABCD",
    "message pending",
    "transactions list",
    "transactions show 7F0000010001ABCDEF0123456789ABCD",
    "transactions resume 7F0000010001ABCDEF0123456789ABCD",
    "broker config get",
    "broker config set fileReservedTime=72",
    "broker clean log",
    "broker write-perm wipe broker-a",
    "broker write-perm add broker-a",
    "nameserver config get",
    "nameserver config set deleteTopicWithBrokerRegistration=true",
    "bench produce --count 1",
    "bench consume --count 2",
    "mqadmin topicList",
    "mqadmin clusterList",
    "mqadmin topicRoute -t T",
)
OF_BROKERS = (
    "topic create New",
    "group list",
    "group create CG",
    "group delete CG",
    "group clients CG",
    "group progress CG",
    "group explain CG",
    "message pending",
    "transactions list",
    "broker config get",
    "broker config set fileReservedTime=72",
    "broker clean log",
)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    running = RunningBroker(tmp_path_factory.mktemp("broker"), {"brokerName": "broker-a"})
    running.start()
    running.create_topic("T", 1)
    yield running
    running.stop()


@pytest.mark.parametrize("words", OF_NAME_SERVERS)
def test_a_broker_that_is_given_for_a_name_server_is_named(running, words):
    done = CliRunner().invoke(main, [*words.split(), "-n", running.broker_address])
    assert done.exit_code == 1, done.output
    assert f"a broker listens at {running.broker_address}, not a name server" in done.stderr
    assert "-n names the name server" in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize("words", OF_BROKERS)
def test_a_name_server_that_is_given_for_a_broker_is_named(running, words):
    done = CliRunner().invoke(main, [*words.split(), "-n", running.namesrv, "-b", running.namesrv])
    assert done.exit_code == 1, done.output
    assert f"a name server listens at {running.namesrv}, not a broker" in done.stderr
    assert "-b names a broker" in done.stderr
