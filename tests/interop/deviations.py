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
        "an additional field `withDetails` in questions of brokers for routes (105), `listenerAddrs` and `attributes` "
        "in the answer, and `attributes` of a topic that is registered alone (217)",
        "routes have one address for each broker, and no attributes",
        "brokers learn the addresses of all listeners and types of topics, for clients of other protocols; Java name "
        "servers ignore the fields, and other clients get RocketMQ's routes",
        "tests/nameserver/test_listeners.py::"
        "test_a_broker_learns_the_addresses_of_all_listeners_and_the_attributes_of_the_topic",
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
    Deviation(
        "`aclEnable=true` (4.4 to 5.3.2): settings, runtime figures, all topics (21, 26, 28), and other requests about "
        "the whole broker",
        "every account with a right signature",
        "only admins (code 1)",
        "tests/golden/test_access_plain_replay.py::test_verdicts_and_codes_are_those_of_a_java_broker",
    ),
    Deviation(
        "`aclEnable=true`: committed offsets, locks and connections of a group (14, 41, 42, 203); offsets, views and "
        "statistics of a topic (29, 30, 33, 202)",
        "every account with a right signature",
        "SUB on the group; PUB or SUB on the topic",
        "tests/access_plain/test_accounts.py::test_what_a_permission_allows",
    ),
    Deviation(
        "`aclEnable=true`: reading and changing plain_acl.yml (50 to 54)",
        "every account with a right signature; a change may write a file that the next start refuses",
        "only admins; such a change is refused, and nothing is written",
        "tests/access_plain/test_requests.py::test_only_an_admin_may_send_them",
    ),
    Deviation(
        "gRPC: a body that its producer compressed (zlib, LZ4, Zstandard, gzip)",
        "handed out as it is stored, with encoding GZIP, which some SDKs cannot read; gzip bodies of gRPC "
        "producers are stored as gzip, which consumers with remoting cannot read",
        "handed out plain, with the digest of the plain bytes; gzip bodies are stored as zlib",
        "tests/grpc/test_messages.py::test_a_compressed_body_is_handed_out_plain_with_the_digest_of_the_plain_bytes",
    ),
    Deviation(
        "gRPC: a body that its producer calls GZIP, but is not compressed, or damaged",
        "stored as a compressed body, which consumers with remoting cannot read",
        "stored and handed out plain; a damaged gzip or zlib stream is refused",
        "tests/grpc/test_messages.py::test_a_plain_body_that_is_called_gzip_is_stored_and_handed_out_plain",
    ),
    Deviation(
        "gRPC: codes of refusals by the broker",
        "mostly INTERNAL_SERVER_ERROR, after which clients repeat acknowledgements without end",
        "a code for each kind, such as TOPIC_NOT_FOUND, FORBIDDEN and INVALID_RECEIPT_HANDLE",
        "tests/grpc/test_codes.py::test_each_kind_of_error_has_its_code",
    ),
    Deviation(
        "gRPC: texts of refused names of topics and groups, and of messages of a wrong type",
        "RocketMQ's, some with the class of an exception",
        "the text that clients with remoting get, or one with the command that helps",
        "tests/grpc/test_recorded_messages.py::test_sends_are_accepted_or_refused_as_recorded",
    ),
    Deviation(
        "gRPC: a topic `NS%NAME`",
        "received messages have resource namespace NS and name NAME, under which the client does not find its topic",
        "received messages have the name that the client asked for",
        "tests/grpc/test_messages.py::test_a_topic_with_a_percent_sign_comes_back_unsplit",
    ),
    Deviation(
        "gRPC: type and delivery time of received messages with `TIMER_DELAY_MS` or `TIMER_DELAY_SEC`",
        "NORMAL with `TIMER_DELAY_MS`; the delivery time is that of the receive, plus the delay",
        "DELAY; the delivery time is that of the message's birth, plus the delay",
        "tests/grpc/test_messages.py::test_type_and_delivery_time_follow_from_the_properties",
    ),
    Deviation(
        "gRPC: ids, groups, trace contexts and hosts of sent messages with control characters",
        "stored; control characters set further properties",
        "refused",
        "tests/grpc/test_validation.py::test_a_message_out_of_bounds_is_refused_with_its_code",
    ),
    Deviation(
        "topics with `message.type=PRIORITY`, messages with the property `_SYS_MSG_PRIORITY_`, groups with "
        "`priority.factor` (RIP-80)",
        "the attributes are refused, and the property means nothing",
        "as in RocketMQ 5.5.0: the priority is the queue, and pops read the highest queue first",
        "tests/grpc/test_recorded_lite.py::test_lite_topics_and_priorities_are_served_as_recorded",
    ),
    Deviation(
        "gRPC: an acknowledgement of a message of a lite topic (RIP-83) that does not name the lite topic",
        "5.5.0 answers OK and acknowledges nothing, so that the lite topic is blocked until the message comes again",
        "the message is acknowledged: the record that its receipt handle names has the lite topic",
        "tests/grpc/test_lite.py::test_a_request_without_the_lite_topic_finds_it_by_the_handle",
    ),
    Deviation(
        "gRPC: property `BORN_TIMESTAMP` of sent messages, and `RECONSUME_TIME` 0",
        "stored",
        "not stored: the record has the time of birth as a field, and deliveries are counted there",
        "tests/grpc/test_messages.py::test_a_sent_message_has_the_properties_and_flags_of_its_kind",
    ),
    Deviation(
        "gRPC: requests of more than 1,024 messages or acknowledgements, or more than 25,000 fields in all; names, "
        "filters and other requests without messages of more than 128 KiB, or 4 MiB with receipt handles or lite "
        "topics",
        "served, up to 130 MiB",
        "refused with the limit",
        "tests/grpc/test_bad_requests.py::test_a_request_with_too_many_messages_is_refused",
    ),
    Deviation(
        "gRPC: endpoints of more than 2 KiB in a question for a route",
        "sent back with each queue",
        "refused with ILLEGAL_ACCESS_POINT",
        "tests/grpc/test_bad_requests.py::test_endpoints_that_are_sent_back_with_each_queue_are_bounded",
    ),
    Deviation(
        "gRPC: a receive that arrives before the client's settings",
        "INTERNAL_SERVER_ERROR, by a null pointer",
        "served by the fields of the request",
        "tests/grpc/test_recorded_conversation.py::test_the_recorded_conversation_is_answered_as_by_the_proxy",
    ),
    Deviation(
        "gRPC: several messages in one send",
        "one entry in the answer, with an id that the server made",
        "an entry for each message, with the id that the client chose",
        "tests/grpc/test_recorded_conversation.py::test_the_recorded_conversation_is_answered_as_by_the_proxy",
    ),
    Deviation(
        "gRPC: a decision about a transaction that was decided before",
        "INTERNAL_SERVER_ERROR: the proxy has forgotten the half message",
        "OK; nothing changes",
        "tests/grpc/test_recorded_conversation.py::test_the_recorded_conversation_is_answered_as_by_the_proxy",
    ),
    Deviation(
        "a tag expression of more than 65,536 characters",
        "taken",
        "refused with code 23",
        "tests/filter_tag/test_expression.py::test_a_long_expression_is_refused",
    ),
)
