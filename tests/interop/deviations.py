"""Deliberate differences between GantryMQ and RocketMQ 5.3.3.

`compatibility.py` writes the table into docs/start/compatibility.md. Each row names the test that checks it.
"""

from typing import NamedTuple


class Deviation(NamedTuple):
    """One behaviour that deliberately differs from RocketMQ."""

    what: str
    rocketmq: str
    gantrymq: str
    test: str  # path::function


TABLE = (
    Deviation(
        "unregistration of a broker (104)",
        "the name server compares only broker name and address: a broker that has the address of another one removes "
        "that one from the routes when it stops",
        "cluster, name, id and address must be those of a registered broker; other requests are logged and ignored",
        "tests/nameserver/test_unregistration.py::test_an_unregistration_by_another_broker_is_ignored_and_logged",
    ),
    Deviation(
        "two live brokers with the same name and id",
        "the routes change with each registration, and nothing is logged",
        "the routes change as in RocketMQ; one warning names both addresses",
        "tests/nameserver/test_registration.py::test_two_live_brokers_of_one_name_and_id_are_warned_of_once",
    ),
    Deviation(
        "the address on which servers listen by default",
        "all addresses",
        "127.0.0.1, unless `bindAddress` is set or, for a broker, `brokerIP1` is an address that other hosts can reach",
        "tests/core/cli/test_serving.py::test_a_broker_listens_beyond_loopback_only_if_told_so",
    ),
    Deviation(
        "an additional field `listenerAddrs` in registrations (103), and the address of a broker in routes (105, 106, "
        "304)",
        "one address for all clients",
        "with the setting `listeners`, the one that fits the listener the client came through; without it, frames are "
        "RocketMQ's",
        "tests/nameserver/test_listeners.py::test_a_route_has_the_address_of_the_clients_listener",
    ),
    Deviation(
        "a settings file without a known key, or with a line that is not a setting",
        "any text is accepted, and the defaults apply",
        "the server does not start and says why",
        "tests/core/config/test_settings_load.py::test_a_file_without_a_known_key_is_refused",
    ),
    Deviation(
        "settings of a running name server (318)",
        "all keys are accepted, and the settings file is rewritten with all settings; some act at the next start",
        "unknown keys and keys that are read at the start only are refused (code 1); a change lasts until the name "
        "server stops",
        "tests/nameserver/test_service.py::test_settings_that_may_not_change_change_nothing",
    ),
    Deviation(
        "`fileReservedTime=0` for a running broker (25)",
        "accepted: all messages outside the newest file may be deleted at once",
        "refused (code 1); a settings file may have it",
        "tests/storage_mmap/test_retention_settings.py::"
        "test_no_retention_is_taken_at_the_start_and_not_from_a_running_broker",
    ),
    Deviation(
        "a transaction check that a broker may not have sent before it was killed",
        "is counted",
        "is not counted: producers receive `transactionCheckMax` checks",
        "tests/transaction/test_sent_checks.py::test_a_check_that_a_killed_broker_did_not_send_does_not_count",
    ),
    Deviation(
        "the configuration of a group that does not exist (352)",
        "the group is created with defaults if groups are created automatically",
        "the response code is 26, and no group is created",
        "tests/pop/test_assignment.py::test_modes_of_unknown_groups_and_topics_are_refused",
    ),
    Deviation(
        "properties of a message that a client sends",
        "at most 32,767 bytes, with those that the broker adds on arrival. A message of that size can neither be "
        "retried nor become a dead letter; a half message of that size is rewritten endlessly, and later ones are not "
        "checked",
        "at most 30,867 bytes (code 13): 1,900 are reserved for properties that a retry, a delay, a transaction check "
        "or pop adds later",
        "tests/core/broker/test_sending_back.py::"
        "test_a_message_with_as_many_properties_as_are_accepted_is_retried_and_dead_lettered",
    ),
    Deviation(
        "a message of a batch (320) whose properties, with those of the batch, exceed 32,767 bytes",
        "stored with a wrong length of properties",
        "the whole batch is refused (code 13)",
        "tests/faults/test_bad_input_messages.py::test_a_batch_with_a_message_without_room_is_refused_as_a_whole",
    ),
    Deviation(
        "a half message in a Java broker's store whose properties have no room for the number of checks",
        "rewritten endlessly; later half messages are not checked",
        "checked, and its checks are counted in memory; given up after `transactionCheckMax` checks like any other",
        "tests/transaction/test_room.py::test_one_without_room_for_a_check_is_asked_about_and_committed",
    ),
    Deviation(
        "a timed message in a Java broker's store whose properties have no room for TIMER_ENQUEUE_MS and "
        "TIMER_DEQUEUE_MS",
        "dropped when it is due",
        "delivered without them",
        "tests/schedule/test_timer_service.py::test_what_has_no_room_for_the_times_of_its_delivery_comes_without_them",
    ),
    Deviation(
        "a message of a delay level that waits when the clock is set back by up to 10 s",
        "may be delivered at once, however long its delay",
        "late by the step",
        "tests/schedule/test_levels.py::test_a_small_step_back_does_not_end_a_delay",
    ),
    Deviation(
        "timed messages that are sent after the clock was set back",
        "delivered at once until the clock has reached its former time",
        "delivered at their time",
        "tests/schedule/test_timer_lives.py::"
        "test_after_the_clock_was_set_back_new_messages_come_in_time_and_no_other_again",
    ),
    Deviation(
        "a delayed, timed or retried message whose topic is deleted before the message is due",
        "stored in a queue that no client can read; its files remain until cleanUnusedTopic",
        "dropped and logged, unless the topic was created again; delivered if the topic is unknown for another reason",
        "tests/schedule/test_levels.py::test_a_message_of_a_deleted_topic_is_dropped_unless_the_topic_is_created_again",
    ),
    Deviation(
        "retry topics of a group that is deleted together with its offsets (207)",
        "kept; mqadmin's deleteSubGroup deletes one of them afterwards if it is given a cluster",
        "deleted by the broker if no member is online; dead letters are kept",
        "tests/core/broker/test_wire_groups.py::test_retry_topics_go_with_a_group_that_is_deleted_with_its_offsets",
    ),
    Deviation(
        "filter data and pull or pop mode (401) of a group after the group or the topic is deleted",
        "filter data is kept for a day (filterDataCleanTimeSpan), the mode forever",
        "both are deleted at once",
        "tests/filter_sql92/test_bitmap_table.py::test_the_filters_of_what_was_deleted_are_forgotten_at_once",
    ),
    Deviation(
        "notifications of changed group members (40) to a member that does not read",
        "one for each change, without a limit",
        "none while the previous one is unread",
        "tests/core/broker/test_slow_readers.py::test_a_member_that_reads_nothing_is_told_of_a_change_once",
    ),
    Deviation(
        "a pull (11) at the end of a queue of a slave",
        "code 20 at once, also while there is no master: clients repeat the pull without a pause",
        "held for up to a second, then code 20; our client also waits 0.2 s after such an answer of a Java slave",
        "tests/core/broker/test_slave_reads.py::"
        "test_a_slave_holds_a_pull_at_the_end_for_a_second_and_sends_it_to_the_master",
    ),
    Deviation(
        "an offset that a client commits (15) for a queue that the topic does not have",
        "stored under any queue id",
        "refused with code 29; nothing is committed",
        "tests/core/broker/test_wire_offsets.py::test_commits_to_queues_that_a_topic_does_not_have_are_refused",
    ),
    Deviation(
        "sizes of headers, fields, JSON bodies, lists, heartbeats and batches of a request",
        "limited only by the frame size of 16 MiB",
        "limited (see docs/operations/bad-input.md), so that one request does not delay the others",
        "tests/faults/test_request_codes.py::test_odd_requests_of_every_code_are_answered_with_a_sentence",
    ),
)
