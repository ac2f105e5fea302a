"""Deliberate differences between GantryMQ and RocketMQ 5.3.3.

`compatibility.py` writes the table into docs/start/compatibility.md. Each row names the test that checks it.
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
        "a transaction check that a killed broker may not have sent",
        "counts",
        "does not count: producers are asked `transactionCheckMax` times",
        "tests/transaction/test_sent_checks.py::test_a_check_that_a_killed_broker_did_not_send_does_not_count",
    ),
    Deviation(
        "the configuration of a group that does not exist (352)",
        "the group is created with defaults where groups are created automatically",
        "answered with 26: reading creates nothing",
        "tests/pop/test_assignment.py::test_modes_of_what_there_is_not_are_refused",
    ),
    Deviation(
        "properties of a message that a client sends",
        "32,767 bytes with those that the broker adds at once; one that fills them can be neither retried nor become a "
        "dead letter, and a half message is put back without end, and those after it are not checked",
        "30,720 bytes (13): the other 2,047 are kept for what a retry, a delay, a transaction check or pop adds later",
        "tests/core/broker/test_sending_back.py::"
        "test_a_message_with_as_many_properties_as_are_accepted_is_retried_and_dead_lettered",
    ),
    Deviation(
        "a message of a batch (320) whose properties are longer than 32,767 bytes with those of the batch",
        "stored, with a length that is not that of its properties",
        "refused with the whole batch (13)",
        "tests/faults/test_bad_input_messages.py::test_a_batch_with_a_message_without_room_is_refused_as_a_whole",
    ),
    Deviation(
        "a half message of a Java broker's store without room for the count of its checks",
        "put back without end; those after it are not checked",
        "checked, its checks counted in memory; given up after `transactionCheckMax` as any other",
        "tests/transaction/test_room.py::test_one_without_room_for_a_check_is_asked_about_and_committed",
    ),
    Deviation(
        "a timed message of a Java broker's store without room for TIMER_ENQUEUE_MS and TIMER_DEQUEUE_MS",
        "dropped when it is due",
        "delivered without them",
        "tests/schedule/test_timer_service.py::test_what_has_no_room_for_the_times_of_its_delivery_comes_without_them",
    ),
    Deviation(
        "a delayed, timed or retried message whose topic was deleted after it was stored and before it is due",
        "stored into a queue that nobody can read, whose files stay until cleanUnusedTopic",
        "left out, with a line in the log, unless the topic was made again; a topic that is unknown for another reason "
        "gets it",
        "tests/schedule/test_levels.py::test_a_message_goes_with_its_topic_unless_that_is_made_again_in_time",
    ),
    Deviation(
        "retry topics of a group that is deleted together with its offsets (207)",
        "they stay; mqadmin's deleteSubGroup deletes one of them afterwards when it is given a cluster",
        "the broker deletes them if no member is online; dead letters stay",
        "tests/core/broker/test_wire_groups.py::test_retry_topics_go_with_a_group_that_is_deleted_with_its_offsets",
    ),
    Deviation(
        "what a filter knows of a group, and how it reads a topic (401), when the group or the topic is deleted",
        "filters stay for a day (filterDataCleanTimeSpan), modes for good",
        "both are forgotten at once",
        "tests/filter_sql92/test_bitmap_table.py::test_the_filters_of_what_was_deleted_are_forgotten_at_once",
    ),
    Deviation(
        "notices that the members of a group changed (40) to a member that reads nothing",
        "one for each change, without a bound",
        "none while the last one is unread",
        "tests/core/broker/test_slow_readers.py::test_a_member_that_reads_nothing_is_told_of_a_change_once",
    ),
    Deviation(
        "an offset that a client commits (15) for a queue that the topic does not have",
        "stored, under any queue id",
        "refused with 29; nothing is committed",
        "tests/core/broker/test_wire_offsets.py::test_commits_to_queues_that_a_topic_does_not_have_are_refused",
    ),
    Deviation(
        "sizes of headers, fields, JSON bodies, lists, heartbeats and batches of a request",
        "limited by the frame's 16 MiB alone",
        "limited, see docs/operations/bad-input.md: one request never stalls the others",
        "tests/faults/test_request_codes.py::test_odd_requests_of_every_code_are_answered_with_a_sentence",
    ),
)
