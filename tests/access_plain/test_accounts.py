"""Reading plain_acl.yml: values, faults with file, line and account, and what YAML may do to a reader."""

import pytest
import yaml

from gantrymq.errors import FormatError
from gantrymq.model.access import Action, Resource, ResourceType
from gantrymq_access_plain import yaml_text as yaml_text_module
from gantrymq_access_plain.accounts import Account, Perm, Rules, read_rule_file, refusal
from gantrymq_access_plain.yaml_text import MOST_BYTES, read_yaml, yaml_text

BOTH = Perm.PUB | Perm.SUB


def read(text):
    return read_rule_file(text.encode() if isinstance(text, str) else text, "acl.yml")


def account(text):
    (found,) = read(f"accounts:\n- accessKey: orders1\n  secretKey: 12345678\n{text}").accounts.values()
    return found


def test_values_are_the_texts_that_the_file_has():
    found = read("accounts:\n- {accessKey: 0123456789, secretKey: 1_000_000, admin: TRUE}").accounts["0123456789"]
    assert (found.secret_key, found.is_admin) == ("1_000_000", True)


def test_permissions_and_defaults():
    found = account(
        "  defaultTopicPerm: PUB\n  defaultGroupPerm: SUB|PUB\n"
        "  topicPerms: [A=PUB, ' B = PUB|SUB ', '%RETRY%g=SUB', C=DENY]\n  groupPerms:\n  - h=DENY\n"
    )
    assert (found.topic_default, found.group_default) == (Perm.PUB, BOTH)
    assert found.topics == {"A": Perm.PUB, "B": BOTH, "C": Perm.DENY}
    assert found.groups == {"g": Perm.SUB, "h": Perm.DENY}


def test_an_account_says_nothing_of_its_secret():
    assert "12345678" not in repr(account(""))


def test_what_has_no_effect_is_a_warning():
    found = read(
        "more: 1\naccounts:\n- accessKey: orders1\n  secretKey: 12345678\n  topicPerms:\n  - A=PUB,SUB\n"
        "  defaultGroupPerm: ALL\n  topicPerm: x\n"
    )
    assert found.warnings == [
        "acl.yml line 1: more is not a key of such a file, and has no effect",
        "acl.yml line 6: account orders1: topicPerms: A=PUB,SUB is none of DENY, PUB, SUB, PUB|SUB, SUB|PUB, so that "
        "it is DENY",
        "acl.yml line 7: account orders1: defaultGroupPerm=ALL is none of DENY, PUB, SUB, PUB|SUB, SUB|PUB, so that "
        "it is DENY",
        "acl.yml line 8: account orders1: topicPerm is not a key of such a file, and has no effect",
    ]


def test_an_account_of_two_files_is_that_of_the_first():
    first = read("accounts: [{accessKey: orders1, secretKey: 12345678}]")
    second = read_rule_file(b"accounts: [{accessKey: orders1, secretKey: abcdefgh, admin: true}]", "more.yml")
    rules = Rules.of([first, second])
    assert rules.accounts["orders1"].secret_key == "12345678"
    assert rules.warnings == ["more.yml: account orders1 has no effect, as acl.yml has it"]


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "accounts:\n", "accounts: []\n", "---\n...\n"])
def test_a_file_without_accounts_is_read(text):
    assert read(text).accounts == {}


HEAD = "accounts:\n- accessKey: orders1\n  secretKey: 12345678\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- a", "acl.yml line 1: the file is not made of keys"),
        ("accounts: {a: b}", "acl.yml line 1: accounts is not a list"),
        ("accounts: [a]", "acl.yml line 1: an account is not made of keys"),
        ("accounts:\n- secretKey: 12345678", "acl.yml line 2: accessKey '' has 0 characters; it needs more than 6"),
        ("accounts:\n- accessKey: sixsix\n", "acl.yml line 2: accessKey 'sixsix' has 6 characters"),
        ("accounts:\n- accessKey: [a]\n", "acl.yml line 2: accessKey is not a text"),
        ("accounts:\n- accessKey: orders1\n", "acl.yml line 2: account orders1: secretKey has 0 characters"),
        (
            "accounts:\n- accessKey: orders1\n  secretKey: abcdef\n",
            "acl.yml line 3: account orders1: secretKey has 6 characters; it needs more than 6",
        ),
        (f"{HEAD}  admin: maybe\n", "acl.yml line 4: account orders1: admin=maybe is neither true nor false"),
        (f"{HEAD}  topicPerms: A=PUB\n", "acl.yml line 4: account orders1: topicPerms is not a list"),
        (f"{HEAD}  topicPerms:\n  - A\n", "acl.yml line 5: account orders1: topicPerms: 'A' is not an entry"),
        (f"{HEAD}  groupPerms: [A=SUB=PUB]\n", "acl.yml line 4: account orders1: groupPerms: 'A=SUB=PUB' is not"),
        (
            f"{HEAD}  whiteRemoteAddress: 10.0.0.0/8\n",
            "acl.yml line 4: account orders1: whiteRemoteAddress: the address pattern '10.0.0.0/8' is malformed",
        ),
        (f"{HEAD}- accessKey: orders1\n  secretKey: 12345678\n", "acl.yml line 4: account orders1 is in this file"),
        (
            "globalWhiteRemoteAddresses:\n- 10.1.*.3\n",
            "acl.yml line 2: globalWhiteRemoteAddresses: the address",
        ),
        ("dataVersion: [{counter: x}]", "acl.yml line 1: dataVersion has a value that is not a number"),
    ],
)
def test_a_fault_has_file_line_and_account(text, sentence):
    with pytest.raises(FormatError) as caught:
        read(text)
    assert str(caught.value).startswith(sentence)
    assert "abcdef" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"{HEAD}  secretKey: abcdefgh\n", "line 4: the key secretKey is here twice"),
        ("accounts: &a []\nmore: *a\n", "line 1: anchors and aliases"),
        ("more: *a\n", "line 1: "),
        ("accounts: !!python/object/apply:os.system [ls]\n", "line 1: tags (!) are not read"),
        ("accounts: [!x a]\n", "line 1: tags (!) are not read"),
        ("<<: {a: b}\n? [a]\n: b\n", "line 2: a key is not a text"),
        ("a: b\n---\nc: d\n", "line 2: a second document begins"),
        ("a: [\n", "line 2: it is not YAML"),
        ("a: b: c\n", "line 1: it is not YAML"),
        ("a: \t- b\n\x00", "line 2: it is not text in UTF-8, or has a control character"),
        (b"a: b\nc: \xff\xfe\xfd\n", "line 2: it is not text in UTF-8, or has a control character"),
        ("[" * 100_000, "line 1: "),
        ("[[[[[[[", "line 1: lists and mappings are nested in more than 6 levels"),
        (b" " * (MOST_BYTES + 1), "line 1: the file has 16777217 bytes"),
    ],
    ids=lambda value: None if isinstance(value, str) and len(value) < 80 else "long",
)
def test_what_yaml_could_do_to_a_reader_is_refused(text, sentence):
    with pytest.raises(FormatError) as caught:
        read(text)
    assert str(caught.value).startswith(f"acl.yml {sentence}")


def test_the_reader_in_python_reads_the_same(monkeypatch):
    text = f"{HEAD}  topicPerms: ['A=PUB', \"B=SUB\"]\n  admin: ~\n".encode()
    compiled = read(text)
    monkeypatch.setattr(yaml_text_module, "_LOADER", yaml.SafeLoader)
    assert read(text) == compiled
    for broken in ("accounts: !x []", "a: &b c", "a: [", "a: b\n\x00", "[[[[[[["):
        with pytest.raises(FormatError, match="acl.yml line [12]: "):
            read(broken)


def test_a_tag_of_text_and_quotes_are_texts():
    assert read_yaml(b"a: !!str 12\nb: 'null'\nc: null\nd: \"&x\"\n").value["a"].value == "12"
    found = read_yaml(b"b: 'null'\nc: null\nd: \"&x\"\n").value
    assert [found[name].value for name in "bcd"] == ["null", None, "&x"]


def test_texts_are_written_so_that_they_are_read_as_they_were():
    value = {"a": ["null", "012", "true", "~", "&x", "!y", "é", "a: b", " c ", "#", "-"], "b": None, "é": ""}
    found = read_yaml(yaml_text(value)).value
    assert [each.value for each in found["a"].value] == value["a"]
    assert (found["b"].value, found["é"].value) == (None, "")


# --- decisions --------------------------------------------------------------------------------------------------------


def topic(name="A"):
    return Resource(ResourceType.TOPIC, name)


def group(name="g"):
    return Resource(ResourceType.GROUP, name)


CLUSTER = Resource(ResourceType.CLUSTER, "C")
OTHER_READS = (Action.SUB, Action.GET)


@pytest.mark.parametrize(
    ("perm", "actions", "resource", "allowed"),
    [
        (Perm.PUB, (Action.PUB,), topic(), True),
        (Perm.PUB, (Action.SUB,), topic(), False),
        (Perm.SUB, (Action.SUB,), topic(), True),
        (Perm.SUB, (Action.PUB,), topic(), False),
        (Perm.PUB, (Action.GET,), topic(), True),
        (Perm.SUB, (Action.GET,), topic(), True),
        (Perm.DENY, (Action.GET,), topic(), False),
        (Perm.PUB, OTHER_READS, topic(), False),
        (Perm.SUB, OTHER_READS, topic(), True),
        (Perm.SUB, (Action.SUB, Action.UPDATE), topic(), True),
        (BOTH, (Action.CREATE,), topic(), False),
        (BOTH, (Action.UPDATE,), topic(), False),
        (BOTH, (Action.DELETE,), topic(), False),
        (Perm.SUB, (Action.SUB,), group(), True),
        (Perm.PUB, (Action.SUB,), group(), False),
        (Perm.SUB, (Action.GET,), group(), True),
        (Perm.PUB, (Action.GET,), group(), False),
        (BOTH, (Action.UPDATE,), group(), False),
        (BOTH, (Action.GET,), CLUSTER, False),
        (BOTH, (Action.UPDATE,), CLUSTER, False),
    ],
)
def test_what_a_permission_allows(perm, actions, resource, allowed):
    by_default = Account("orders1", "12345678", topic_default=perm, group_default=perm)
    by_entry = Account("orders1", "12345678", topics={"A": perm}, groups={"g": perm})
    entries_of_admin = Account("orders1", "12345678", is_admin=True, topics={"A": perm}, groups={"g": perm})
    assert (not refusal(by_default, actions, resource, 1)) is allowed
    assert (not refusal(by_entry, actions, resource, 1)) is allowed
    needs_admin = resource is CLUSTER or not {Action.PUB, Action.SUB, Action.GET} & set(actions)
    assert (not refusal(entries_of_admin, actions, resource, 1)) is (allowed or needs_admin)
    assert refusal(Account("orders1", "12345678", is_admin=True), actions, resource, 1) == ""


def test_an_entry_is_stronger_than_the_default_and_no_default_is_a_denial():
    found = Account("orders1", "12345678", topic_default=BOTH, topics={"A": Perm.DENY})
    assert refusal(found, (Action.PUB,), topic("A"), 10) == "No default permission for topic:A"
    assert refusal(found, (Action.PUB,), topic("B"), 10) == ""
    assert refusal(found, (Action.SUB,), group("g"), 34) == "No default permission for group:g"


def test_every_account_may_send_to_the_topic_of_traces():
    found = Account("orders1", "12345678")
    assert refusal(found, (Action.PUB,), topic("RMQ_SYS_TRACE_TOPIC"), 310) == ""
    assert refusal(found, (Action.SUB,), topic("RMQ_SYS_TRACE_TOPIC"), 11) != ""


def test_the_request_that_needs_an_admin_is_named():
    sentence = "Need admin permission for request code=17, but accessKey=orders1 is not"
    assert refusal(Account("orders1", "12345678"), (Action.CREATE,), topic(), 17) == sentence
