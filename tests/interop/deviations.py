"""Where GantryMQ deliberately does not do what RocketMQ 5.3.3 does.

`compatibility.py` writes the table into docs/compatibility.md. Each row is held to by the test it names.
"""

from typing import NamedTuple


class Deviation(NamedTuple):
    """One thing that GantryMQ does otherwise on purpose."""

    what: str
    rocketmq: str
    gantrymq: str
    test: str  # path::function


TABLE = (
    Deviation(
        "unregistration of a broker (104)",
        "the name server compares broker name and address: a broker that was given another one's address takes it out "
        "of the routes when it stops",
        "cluster, name, id and address have to be those of a registered broker; any other is logged and ignored",
        "tests/nameserver/test_unregistration.py::test_an_unregistration_by_another_broker_is_ignored_and_logged",
    ),
    Deviation(
        "two live brokers with the same name and id",
        "the name server's routes change with each registration, without a word",
        "the routes are RocketMQ's; one warning names both addresses",
        "tests/nameserver/test_registration.py::test_two_live_brokers_of_one_name_and_id_are_warned_of_once",
    ),
    Deviation(
        "where servers listen if nothing is set",
        "on every address",
        "the commands listen on 127.0.0.1, unless `bindAddress` is set or, for a broker, `brokerIP1` names an address "
        "that others reach",
        "tests/core/cli/test_serving.py::test_a_broker_listens_beyond_loopback_only_if_told_so",
    ),
    Deviation(
        "a settings file without a known key, or with a line that is no setting",
        "every text is taken, and defaults are in force",
        "the start is refused with a sentence",
        "tests/core/config/test_settings_load.py::test_a_file_without_a_known_key_is_refused",
    ),
    Deviation(
        "the configuration of a group that does not exist (352)",
        "the group is created with defaults where groups are created automatically",
        "answered with 26: reading creates nothing",
        "tests/pop/test_assignment.py::test_modes_of_what_there_is_not_are_refused",
    ),
)
