"""Brokers of one name at a Java name server: routes, members and notices are those our name server is compared with.

tests/nameserver/test_broker_groups.py compares ours with the same recorded answers.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_groups import SCRIPTS, SETTINGS, play, recorded
from harness import JavaNameServer

pytestmark = pytest.mark.interop

JAVA = Path(__file__).parents[1] / "nameserver" / "data" / "broker_groups.json.gz"


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with JavaNameServer("5.3.3", tmp_path_factory.mktemp("java"), settings=SETTINGS) as server:
        yield server.address


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_java_name_server_answers_a_group_of_brokers_as_recorded(namesrv: str, script: str) -> None:
    expected = recorded(JAVA)[script]
    for (step, java), (_, known) in zip(play(namesrv, SCRIPTS[script]), expected, strict=True):
        assert java == known, step
