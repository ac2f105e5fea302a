"""Each reason why no message arrives, from the state of a group."""

import re
import string

import attrs
import pytest

from gantrymq.model.texts import texts_in
from gantrymq_diagnosis.conflicts import Conflict, Kind
from gantrymq_diagnosis.group_state import GroupState, MemberState, PluginFinding, QueueState, TopicState
from gantrymq_diagnosis.reasons import explain_group, explain_queue

PUSH = MemberState("c1", "10.0.0.1:1", topics=frozenset({"T"}))
PULL = attrs.evolve(PUSH, consume_type="CONSUME_ACTIVELY")
CASTING = attrs.evolve(PUSH, message_model="BROADCASTING")
GROUP = GroupState("CG", (PUSH,))
TOPIC = TopicState("T", read_queues=4)
READ = QueueState(
    TOPIC, 0, max_offset=10, committed=4, begin=4, behind=6, next_pull=6, pulled_ms_ago=100, pulled_by="c1"
)
OUT = {"next_pull": 10, "oldest_ms_ago": 80_000, "moved_ms_ago": 70_000}  # all was handed out and is not committed
SLOW = {**OUT, "moved_ms_ago": 59_000}
END = {"committed": 10, "begin": 10, "behind": 0}
FINDING = PluginFinding(
    "custom-filters-suspended", "T", "filter X of group CG on topic T is suspended; ask: gantrymq plugins"
)
DIFFERENT = Conflict(Kind.SUBSCRIPTIONS, {}, "T")


MENDS = ("gantrymq ", "request 353", "let it pull", "wait for it to pull again")
BY_ITSELF = (
    "reading",
    "up-to-date",
    "popped",
    "lite-unsubscribed",
    "lock-of-a-dead-client",
    "reset-pending",
    "owner-left",
    "broadcasting",
    "slow",
)  # no trouble


def group(**more):
    return attrs.evolve(GROUP, **more)


def topic(**more):
    return attrs.evolve(READ, topic=attrs.evolve(TOPIC, **more))


def queue(**more):
    return attrs.evolve(READ, **more)


@pytest.mark.parametrize(
    ("of_group", "of_queue", "word", "part"),
    [
        (GROUP, READ, "reading", "6 messages are before the group"),
        (group(slave_of="m:1"), READ, "slave-not-readable", "master: gantrymq group explain CG -b m:1"),
        (group(slave_of=""), READ, "slave-not-readable", "ask its master: gantrymq group explain CG -b MASTER"),
        (group(slave_of="m:1", slave_reads=True), READ, "reading", "6 messages are before the group"),
        (group(slave_of="m:1", slave_reads=True), queue(pulled_ms_ago=None, next_pull=-1), "read-at-master", "-b m:1"),
        (group(slave_of="m:1", slave_reads=True), queue(pulled_ms_ago=61_000), "read-at-master", "-b m:1"),
        (group(slave_reads=True), queue(pulled_ms_ago=61_000), "paused", "it reads old messages at a slave, or it is"),
        (group(broker="b:1", broker_readable=False), READ, "broker-not-readable", "set brokerPermission=6 -b b:1"),
        (group(consume_enable=False), READ, "group-disabled", "--consume"),
        (GROUP, topic(exists=False), "topic-missing", "does not exist"),
        (GROUP, topic(readable=False), "topic-not-readable", "may not be read"),
        (
            GROUP,
            queue(queue_id=4),
            "queue-not-read",
            "readQueueNums=4); have it read with: gantrymq topic create -t T -r 5",
        ),
        (GROUP, attrs.evolve(topic(queues=8), queue_id=4), "queue-not-read", "create -t T -r 8"),
        (GROUP, topic(allowed=False), "group-forbidden", "forbidden to read topic T"),
        (group(members=()), READ, "nobody-online", "6 messages wait"),
        (group(members=(CASTING,), consume_broadcast_enable=False), READ, "broadcast-disabled", "may not broadcast"),
        (
            GROUP,
            topic(refused="code 23: SQL92 expression"),
            "filter-refused",
            "the subscription, with code 23",
        ),
        (GROUP, topic(expression=None), "not-subscribed", "no member subscribes to topic T"),
        (
            GROUP,
            queue(locked_by="c9", holder_online=False),
            "lock-of-a-dead-client",
            "locked for ordered reading by c9",
        ),
        (group(plugin_findings=(FINDING,)), queue(next_pull=-1), "custom-filters-suspended", "filter X of group CG"),
        (group(plugin_findings=(FINDING._replace(topic="Other"),)), READ, "reading", "6 messages are before the group"),
        (GROUP, queue(reset=3), "reset-pending", "reset to 3"),
        (group(conflicts=(DIFFERENT,)), READ, "different-subscriptions", "the broker applies '*'"),
        (
            GROUP,
            attrs.evolve(topic(expression="TagA"), checked=9),
            "nothing-matches",
            "'TagA' matched none of 9 messages",
        ),
        (GROUP, attrs.evolve(topic(popped=True), next_pull=-1), "popped", "6 messages are before it"),
        (GROUP, attrs.evolve(topic(popped=True), next_pull=-1, **END), "up-to-date", "pops and has popped all"),
        (GROUP, attrs.evolve(topic(popped=True), reset=3), "reset-pending", "which the next pop receives"),
        (GROUP, topic(popped=True, lite_subscribed=False), "lite-unsubscribed", "6 messages wait for the next subscr"),
        (GROUP, attrs.evolve(topic(popped=True, lite_subscribed=False), **END), "up-to-date", "has popped all"),
        (GROUP, topic(popped=True, lite_subscribed=True), "popped", "6 messages are before it"),
        (GROUP, queue(next_pull=-1), "not-owned", "broker's start (members online: 1)"),
        (GROUP, queue(next_pull=-1, moved_ms_ago=59_000), "slow", "a member goes on with what it holds: the commi"),
        (GROUP, queue(next_pull=-1, moved_ms_ago=60_000), "not-owned", "broker's start (members online: 1)"),
        (group(members=(PULL,)), queue(next_pull=-1), "not-pulled", "itself, and not this one; let it pull all"),
        (GROUP, queue(pulled_by="c9", puller_online=False), "owner-left", "c9 pulled it last, 100 ms ago, and is gone"),
        (GROUP, queue(pulled_ms_ago=60_000), "paused", "c1 last pulled 60 s ago: it is suspended"),
        (group(members=(PULL,)), queue(pulled_ms_ago=7_200_000), "paused", "c1 pulls itself, and last asked 2 h ago"),
        (GROUP, queue(**END), "up-to-date", "at the end (10): nothing new has come"),
        (GROUP, queue(held_by=("c1",), **OUT), "not-committed", "are with c1"),
        (GROUP, queue(held_by=("c1",), **OUT), "not-committed", "which has committed nothing for 70 s: its handler"),
        (GROUP, queue(held_by=("c1",), next_pull=10), "not-committed", "are with c1"),
        (GROUP, queue(held_by=("c1",), **SLOW), "slow", "are with c1, which committed, or began to pull, 59 s ago"),
        (GROUP, queue(locked_by="c1", **SLOW), "slow", "it goes on, slowly"),
        (GROUP, queue(pulled_ms_ago=90_000, moved_ms_ago=9_000), "slow", "c1 holds as many messages as it may, and"),
        (group(members=(PULL,)), queue(pulled_ms_ago=90_000, moved_ms_ago=9_000), "paused", "c1 pulls itself, and"),
        (group(slave_of="", slave_reads=True), queue(held_by=("c1",), **OUT), "not-committed", "are with c1"),
        (GROUP, queue(held_by=("c1",), locked_by="c1", **OUT), "order-stuck", "keeps failing at offset 4"),
        (GROUP, queue(locked_by="c1", **OUT), "order-stuck", "which was stored 80 s ago; 6 messages wait"),
        (group(members=(CASTING,)), queue(behind=None), "broadcasting", "c1 pulled it last, 100 ms ago, up to 6"),
        (group(members=(CASTING,)), queue(behind=None, held_by=("c1",)), "broadcasting", "c1 waits for messages at 6"),
        (
            group(members=(CASTING,)),
            queue(behind=None, next_pull=-1, pulled_ms_ago=None),
            "broadcasting",
            "none has pulled it since the broker's start",
        ),
    ],
)
def test_each_reason_has_its_word_and_its_sentence(of_group, of_queue, word, part):
    found = explain_queue(of_group, of_queue)
    assert found.word == word
    assert part in found.sentence
    assert word in BY_ITSELF or any(each in found.sentence for each in MENDS)


def test_what_stops_everything_is_told_before_what_would_follow_from_it():
    assert explain_queue(group(consume_enable=False, members=()), queue(next_pull=-1)).word == "group-disabled"
    assert explain_queue(group(members=()), topic(exists=False)).word == "topic-missing"


@pytest.mark.parametrize(
    "fine",
    [
        attrs.evolve(topic(expression="TagA"), checked=9, matched=1),
        queue(checked=9),  # of an expression that is no longer in force
        queue(pulled_ms_ago=59_999),
        queue(locked_by="c1"),
        queue(held_by=("c1",), pulled_ms_ago=600_000),
        queue(held_by=("c1",), next_pull=10, oldest_ms_ago=59_000, moved_ms_ago=600_000),  # it was idle before
        queue(held_by=("c1",), locked_by="c1", next_pull=10, oldest_ms_ago=59_000),
        queue(held_by=("c1",), moved_ms_ago=1_000, oldest_ms_ago=90_000),
    ],
)
def test_no_reason_is_made_up(fine):
    assert explain_queue(GROUP, fine).word == "reading"


def test_a_slave_does_not_judge_commits_which_its_master_gets():
    reading = group(slave_of="m:1", slave_reads=True)
    assert explain_queue(reading, queue(held_by=("c1",), **OUT)).word == "reading"
    assert explain_queue(reading, queue(held_by=("c1",), **SLOW)).word == "reading"


def words(of_group, *topics):
    return [each.word for each in explain_group(of_group, topics or (TOPIC,), 1000)]


def test_what_plugins_say_is_told_of_the_group_whatever_topic_it_is_about():
    of_group = group(plugin_findings=(FINDING, FINDING._replace(topic="%RETRY%CG"), FINDING._replace(topic="")))
    assert [each.word for each in explain_group(of_group, (TOPIC,), 0)] == ["custom-filters-suspended"] * 3


def test_a_group_that_is_well_has_nothing_said_of_it():
    assert words(GROUP) == []


def test_members_that_own_no_queue_are_named():
    idle = [MemberState(f"c{number}", "x:1") for number in range(2, 10)]
    (found,) = explain_group(group(members=(PUSH, *idle)), (TOPIC,), 0)
    assert found.word == "too-few-queues"
    assert "4 queues for 9 members" in found.sentence
    assert found.sentence.endswith("add queues with: gantrymq topic create -t T -r 9 -w 9")
    assert "c2, c3, c4, c5, c6 and 3 more" in found.sentence
    assert words(group(members=(CASTING, *idle))) == []
    assert words(group(members=(PUSH, *idle)), attrs.evolve(TOPIC, popped=True)) == []


def test_retries_and_dead_letters():
    found = list(
        explain_group(
            group(
                retry_waiting=3,
                retry_waiting_more=True,
                retry_due_ms=6000,
                retry_behind=1,
                dead_letters=2,
                deleted=11,
            ),
            (),
            1000,
        )
    )
    assert [each.word for each in found] == ["retry-waiting", "retry-behind", "deleted-unread", "dead-letters"]
    assert found.pop(2).sentence.startswith("11 messages were deleted before the group read them: ")
    assert found[0].sentence == "at least 3 messages wait for another try of the group, the next is due in 5 s"
    assert found[1].sentence.startswith("1 message is to be tried again now, on the retry topics of CG")
    assert found[2].sentence.startswith("2 messages are on %DLQ%CG")
    assert "gantrymq group progress CG" in found[1].sentence
    assert "gantrymq group dlq list CG" in found[2].sentence


def test_a_slave_names_its_master():
    (found,) = explain_group(group(slave_of="m:1"), (), 0)
    assert found.word == "on-a-slave"
    assert "offsets and retries here are copies" in found.sentence
    assert "gantrymq group explain CG -b m:1" in found.sentence


def test_an_offline_disabled_group_with_a_conflict():
    of_group = group(members=(), consume_enable=False, conflicts=(DIFFERENT,))
    assert words(of_group) == ["nobody-online", "group-disabled", "conflict-subscriptions"]
    assert "gantrymq group clients CG" in next(explain_group(of_group, (), 0)).sentence


def test_the_owner_is_the_waiting_member_then_the_lock_holder_then_the_last_puller():
    assert queue(held_by=("c2",), locked_by="c3").owner == "c2"
    assert queue(locked_by="c3").owner == "c3"
    assert queue(locked_by="c3", holder_online=False).owner == "c1"
    assert queue(puller_online=False).owner is None


def test_a_queue_without_messages_asks_for_no_member():
    found = explain_queue(group(members=()), queue(**END))
    assert (found.word, found.sentence) == ("nobody-online", "no member is online, and the group is at the end (10)")


def test_numbers_and_their_verbs_agree():
    """No sentence says "1 messages", "1 message wait" or "0 messages wait"."""
    one, end = {"committed": 9, "begin": 9, "behind": 1, "next_pull": 9}, {**END, "next_pull": 10}
    queues = [attrs.evolve(READ, **{**of, **more}) for of in (one, end) for more in MORE]
    queues += [attrs.evolve(each, topic=attrs.evolve(TOPIC, **of)) for each in queues for of in OF_TOPIC]
    groups = [GROUP, group(members=()), group(members=(PULL,)), group(members=(PUSH, PUSH))]
    few = attrs.evolve(TOPIC, read_queues=1)
    of_groups = [
        group(members=members, retry_waiting=1, retry_behind=1, dead_letters=1, deleted=1) for members in MEMBERS
    ]
    said = {explain_queue(each, every).sentence for each in groups for every in queues}
    said |= {each.sentence for every in of_groups for each in explain_group(every, (few,), 1000)}
    assert len(said) > 15
    wrong = re.compile(r"\b1 (messages|members|queues|read queues)\b|\b1 message (wait|are|were)\b|\b0 messages\b")
    assert [each for each in said if wrong.search(each)] == []


MORE = (
    {},
    {"held_by": ("c1",), **OUT},
    {"locked_by": "c1", **OUT},
    {"next_pull": -1},
    {"pulled_ms_ago": 99_000},
    {"checked": 1},
)
OF_TOPIC = ({"popped": True}, {"popped": True, "lite_subscribed": False}, {"expression": "TagA"}, {"read_queues": 1})
MEMBERS = ((), (PUSH,), (PUSH, MemberState("c2", "x:1")))


def test_a_missing_topic_of_members_is_told_with_the_similar_name():
    missing = TopicState("Ordres", exists=False, similar="Orders", read_queues=0)
    (found,) = explain_group(GROUP, [missing], 0)
    assert found.word == "topic-missing"
    assert "members subscribe to topic Ordres, which this broker does not have (did you mean Orders?)" in found.sentence
    assert not [each for each in explain_group(group(members=()), [missing], 0) if each.word == "topic-missing"]


def test_no_text_is_taken_for_a_form_of_the_table_before_it():
    texts = [text for language in ("en", "zh") for text in texts_in("gantrymq_diagnosis", language).values()]
    tables = [text for text in texts if not isinstance(text, str)]
    assert tables
    assert {form for text in tables for form in text} <= {"none", "one", "other"}


def test_every_word_has_a_text_in_both_languages_with_the_same_fields():
    def fields(text):
        forms = [text] if isinstance(text, str) else text.values()
        return {name for form in forms for _, name, _, _ in string.Formatter().parse(form) if name}

    english, chinese = (texts_in("gantrymq_diagnosis", language) for language in ("en", "zh"))
    assert {key: fields(text) for key, text in english.items()} == {key: fields(text) for key, text in chinese.items()}
    assert len(english) > 40 and {f"conflict-{kind.value}" for kind in Kind} < english.keys()


def test_names_in_commands_are_quoted_for_a_shell():
    light = "%LMQ%$P$a b"
    (found,) = explain_group(GROUP, [TopicState(light, exists=False, read_queues=0)], 0)
    assert f"members subscribe to topic {light}, which" in found.sentence
    assert found.sentence.endswith("gantrymq topic create -t '%LMQ%$P$a b'")
    assert explain_queue(GROUP, topic(topic="a|b", expression=None)).sentence.endswith("delete-offsets CG -t 'a|b'")


def test_every_field_of_a_command_is_quoted_and_no_other():
    for language in ("en", "zh"):
        for text in texts_in("gantrymq_diagnosis", language).values():
            for form in [text] if isinstance(text, str) else text.values():
                for command in re.split(r"[;；，。()（）]", form):
                    before, is_command, after = command.partition("gantrymq ")
                    assert ":shell}" not in before, form
                    assert not is_command or after.count("{") == after.count(":shell}"), form


def test_a_reason_is_a_word_and_values_from_which_its_sentence_is_made():
    (found,) = explain_group(group(retry_waiting=3, retry_waiting_more=True, retry_due_ms=6000), (), 1000)
    assert found.as_json() == {
        "reason": "retry-waiting",
        "variant": "more",
        "values": {"count": 3, "due_ms": 5000},
        "sentence": "at least 3 messages wait for another try of the group, the next is due in 5 s",
    }
    (finding,) = explain_group(group(plugin_findings=(PluginFinding("of-a-plugin", "", "filter X is off"),)), (), 0)
    assert (finding.word, finding.sentence) == ("of-a-plugin", "filter X is off")
