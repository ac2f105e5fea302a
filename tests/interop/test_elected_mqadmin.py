"""mqadmin's commands for controllers print for brokers of ours what they print for RocketMQ's, and do the same."""

import json
import re

import pytest
from click.testing import CliRunner
from harness import GantryServer, MqAdmin, create_topic
from harness.probe import request
from java_controllers import start_controllers
from polling import wait_until

from gantrymq.cli import main

pytestmark = pytest.mark.interop

HEADER = {"producerGroup": "p", "topic": "Orders", "defaultTopic": "TBW102", "defaultTopicQueueNums": "1"}
HEADER |= {"queueId": "0", "sysFlag": "0", "bornTimestamp": "0", "flag": "0", "properties": ""}
SOON_S = 30.0


def election(broker):
    """What a broker of ours tells of its election."""
    return json.loads(request(broker.broker_address, 907, {})[1])["election"]


def wait_for_set(broker, members):
    wait_until(lambda: election(broker)["syncStateSet"] == members, f"set {members}", SOON_S, broker.tail)


def test_mqadmin_shows_and_changes_an_elected_set(running, tmp_path):
    [controller] = start_controllers(running, tmp_path, 1)
    namesrv = running(GantryServer.name_server(tmp_path / "namesrv")).namesrv
    settings = {"enableControllerMode": "true", "controllerAddr": controller.address}
    settings |= {"mappedFileSizeCommitLog": "1048576", "metricsExporterType": "DISABLE"}

    def start(name):
        return running(GantryServer.broker(tmp_path / name, namesrv, settings=settings))

    one = start("one")
    wait_until(lambda: election(one)["problem"] == "", "master", SOON_S, one.tail)
    create_topic(namesrv, "Orders", queues=1)
    two = start("two")
    wait_for_set(one, [1, 2])
    addresses = {1: one.broker_address, 2: two.broker_address}
    at, n, of_set = ("-a", controller.address), ("-n", namesrv), ("-bn", "broker-a", "-c", "DefaultCluster")
    with MqAdmin("5.3.3", tmp_path, namesrv) as tool:

        def run(*words):
            text = "\n".join(each for each in tool.run(*words).splitlines() if "|-" not in each).strip()
            print("$ mqadmin", *words)
            print(text)
            return text

        def refused(*words):
            """The code and the sentence of the server."""
            return re.search(r"CODE: (\d+)  DESC: (.*)", run(*words)).groups()

        def set_of(master, epoch, number, in_sync):
            """What getSyncStateSet printed for brokers of RocketMQ."""
            found = [f"#brokerName\tbroker-a\n#MasterBrokerId\t{master}\n#MasterAddr\t{addresses[master]}"]
            found += [f"#MasterEpoch\t{epoch}\n#SyncStateSetEpoch\t{number}\n#SyncStateSetNums\t{len(in_sync)}"]
            identity = "ReplicaIdentity{{brokerName='broker-a', brokerId={}, brokerAddress='{}', alive=true}}"
            return "\n".join([*found, *(f"\nInSyncReplica:\t{identity.format(x, addresses[x])}" for x in in_sync)])

        def epochs_of(brokers, entries):
            """What getBrokerEpoch printed; *brokers*: their registered ids, and ids in the set."""
            lines = [f"#Epoch: EpochEntry{{epoch={e}, startOffset={s}, endOffset={x}}}" for e, s, x in entries]
            return {
                f"#clusterName\tDefaultCluster\n#brokerName\tbroker-a\n#brokerAddr\t{addresses[own]}\n#brokerId\t{each}\n"
                + "\n".join(lines)
                for each, own in brokers
            }

        def epochs():
            """What getBrokerEpoch prints, the brokers in any order."""
            return set(run("getBrokerEpoch", *n, "-b", "broker-a").split("\n\n"))

        leads = f"#ControllerGroup\tgroup1\n#ControllerLeaderId\tn0\n#ControllerLeaderAddress\t{controller.address}"
        assert run("getControllerMetaData", *at) == f"{leads}\n#Peer:\tn0:{controller.address}"
        assert run("getSyncStateSet", *at, "-b", "broker-a") == set_of(1, 1, 2, (1, 2))
        wait_until(lambda: epochs() == epochs_of([(0, 1), (2, 2)], [(1, 0, 0)]), "epochs of empty logs", 10)
        for _ in range(20):
            assert request(one.broker_address, 10, HEADER, b"body")[0]["code"] == 0
        end = election(one)["confirmed"]
        wait_until(lambda: election(two)["confirmed"] == end, "equal logs")
        assert epochs() == epochs_of([(0, 1), (2, 2)], [(1, 0, end)])
        text = run("haStatus", *n, "-b", addresses[1])
        assert f"#MasterCommitLogMaxOffset\t{end}\n#SlaveNum\t1\n#InSyncSlaveNum\t1\n" in text
        assert re.search(rf"^127\.0\.0\.1:\d+\s+{end}\s+0\s+[\d.]+\s+OK\s+{end}$", text, re.MULTILINE)
        text = run("haStatus", *n, "-b", addresses[2])
        assert re.match(rf"#MasterAddr\t127\.0\.0\.1:\d+\n#CommitLogMaxOffset\t{end}\n#TransferSpeed", text)
        assert re.search(r"#LastReadTime\t20\d\d-.*\n#LastWriteTime\t20\d\d-.*\n#MasterFlushOffset\t0$", text)
        text = run("clusterList", *n)
        assert [line.split()[2:4] + line.split()[-1:] for line in text.splitlines()[1:]] == [
            ["0", addresses[1], "true"],
            ["2", addresses[2], "false"],
        ]

        text = run("updateControllerConfig", *at, "-k", "electMasterMaxRetryCount", "-v", "4")
        assert text == f"update controller config success![{controller.address}]\nelectMasterMaxRetryCount : 4"
        assert refused("electMaster", *at, "-b", "1", *of_set) == (
            "2011",
            "The old master 1 is still alive, not need to elect new master for broker broker-a",
        )
        assert refused("cleanBrokerMetadata", *at, "-b", "2", *of_set) == (
            "2009",
            "Broker [broker-a,  2] is still alive, clean up failure",
        )
        assert run("electMaster", *at, "-b", "2", *of_set) == (
            f"#ClusterName\tDefaultCluster\n#BrokerName\tbroker-a\n#BrokerMasterAddr\t{addresses[2]}\n#MasterEpoch\t2\n"
            "#SyncStateSetEpoch\t3"
        )
        expected = set_of(2, 2, 4, (1, 2))
        wait_until(lambda: run("getSyncStateSet", *at, "-b", "broker-a") == expected, "set of both", SOON_S, two.tail)
        wait_until(lambda: request(two.broker_address, 10, HEADER, b"body")[0]["code"] == 0, "a send")
        last = election(two)["confirmed"]
        wait_until(lambda: election(one)["confirmed"] == last, "equal logs")
        shown = epochs_of([(0, 2), (1, 1)], [(1, 0, end), (2, end, last)])
        wait_until(lambda: epochs() == shown, "epochs of both", 10, lambda: shown)

        one.stop()
        wait_for_set(two, [2])
        text = run("cleanBrokerMetadata", *at, "-b", "1", *of_set)
        assert text == "clear broker broker-a metadata from controller success!"
        assert "brokerId=1" not in run("getSyncStateSet", *at, "-b", "broker-a")
        again = start("one")
        wait_until(lambda: "does not know broker id 1" in election(again)["apart"], "sentence", 10, again.tail)
        wait_until(lambda: "it was cleaned there, or" in again.tail(), "sentence in the log", 10, again.tail)
        said = CliRunner().invoke(main, ["cluster", "explain", "broker-a", "-n", namesrv]).stdout
        assert "Broker id 1 " not in said  # name servers do not get an id before the controller has accepted it
