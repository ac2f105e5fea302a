"""The files with a broker's identity."""

import pytest

pytest.importorskip("gantrymq_replication")

from gantrymq.errors import ConfigError, StoreDamaged
from gantrymq.world.real import real_world
from gantrymq_replication.election.broker_id import BrokerId, IdentityFiles


def files(tmp_path, broker="broker-a"):
    return IdentityFiles(real_world().files, tmp_path / "brokerIdentity", "DefaultCluster", broker)


def test_the_files_are_those_of_java(java, tmp_path):
    found = files(tmp_path)
    assert found.granted() is None and found.applied() is None
    found.apply(BrokerId(2, "127.0.0.2:20911;1795624005728"))
    text = (tmp_path / "brokerIdentity-temp").read_text()
    assert text == "DefaultCluster#broker-a#2#127.0.0.2:20911;1795624005728"
    assert found.applied() == BrokerId(2, "127.0.0.2:20911;1795624005728")
    found.grant(2)
    assert (tmp_path / "brokerIdentity").read_text() == java["files"]["autoswitch-b/brokerIdentity"]
    assert found.granted() == BrokerId(2) and found.applied() is None


def test_a_refused_application_is_forgotten(tmp_path):
    files(tmp_path).apply(BrokerId(2, "x"))
    files(tmp_path).refuse()
    assert files(tmp_path).applied() is None


@pytest.mark.parametrize("content", ["", "DefaultCluster#broker-a", "DefaultCluster#broker-a#x", "a#b#1#c"])
def test_a_damaged_file_is_told_in_a_sentence(tmp_path, content):
    (tmp_path / "brokerIdentity").write_text(content)
    with pytest.raises(StoreDamaged, match="brokerIdentity is damaged. Restore it from a backup"):
        files(tmp_path).granted()


def test_a_file_of_another_broker_is_told_in_a_sentence(tmp_path):
    files(tmp_path).grant(1)
    with pytest.raises(
        StoreDamaged, match=r"identity of broker broker-a .* but this is broker broker-b .* another set"
    ):
        files(tmp_path, "broker-b").granted()


def test_a_name_with_the_separator_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="brokerName=a#b: names of brokers with elected roles contain no '#'"):
        files(tmp_path, "a#b")
