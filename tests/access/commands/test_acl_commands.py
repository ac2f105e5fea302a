"""``gantrymq acl`` and ``gantrymq access`` at a broker with access control."""

import asyncio

import pytest

from gantrymq.client import Client, Message, NoPermission


def entries_of(done):
    return [
        (each["resource"], ",".join(each["actions"]), each["decision"], ",".join(each["sources"]))
        for each in done.documents[0]["brokers"][0]["entries"]
    ]


def test_entries_are_added_replaced_and_deleted(operator):
    root = operator(users={"shop": []})
    one = ("shop", "-r", "Topic:Orders", "-a", "pub,Get")
    assert root("acl", "create", *one).results == ["created"]
    assert root("acl", "create", *one).results == ["unchanged"]
    refused = root("acl", "create", "shop", "-r", "Topic:Orders", "-a", "Sub", code=1).error
    assert "there is an entry: Allow Pub,Get on Topic:Orders; replace it: gantrymq acl update shop" in refused
    assert (
        "shop has no entry for Topic:Bills"
        in root("acl", "update", "shop", "-r", "Topic:Bills", "-a", "Sub", code=1).error
    )
    assert root("acl", "update", *one, "-d", "deny", "-i", "10.0.0.0/8").results == ["updated"]
    assert entries_of(root("acl", "get", "shop")) == [("Topic:Orders", "Pub,Get", "Deny", "10.0.0.0/8")]
    assert entries_of(root("acl", "list", "--contains", "sho", "-r", "Ord")) == entries_of(root("acl", "get", "shop"))
    assert entries_of(root("acl", "list", "-r", "Bills")) == []
    assert root("acl", "delete", "shop", "-r", "Topic:Orders").results == ["deleted"]
    assert (
        "shop has no custom entry for Topic:Orders" in root("acl", "delete", "shop", "-r", "Topic:Orders", code=1).error
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("create", "shop", "-r", "Orders", "-a", "Pub"), "'Orders' is not a resource; expected Topic:NAME"),
        (("create", "shop", "-r", "Topic:Orders", "-a", "Write"), "'Write' is not an action; expected All, Pub"),
        (("create", "shop", "-r", "Topic:T", "-a", "Any"), "'Any' is not an action"),
        (("create", "shop", "-r", "Topic:T", "-a", "Pub", "-i", "10.0.0.0/33"), "'10.0.0.0/33' is neither an address"),
        (("delete", "shop"), "give either --resource or --all"),
        (("grant", "shop", "--consume", "T"), "a consumer needs a group: add --group GROUP"),
    ],
)
def test_wrong_usage_gets_a_sentence(operator, words, sentence):
    done = operator(users={"shop": []}).text("acl", *words, code=1 if words[0] == "grant" else 2)
    assert sentence in done.output


def test_a_grant_is_shown_and_written_or_only_shown(operator):
    root = operator(users={"shop": []})
    shown = root.text("acl", "grant", "shop", "--produce", "Orders", "--dry-run")
    assert "send, also in transactions" in shown.stdout and "2 entries to write" in shown.stdout
    assert "has no entries; 'gantrymq acl grant' gives it those of a task" in root("acl", "get", "shop", code=1).error
    assert root("acl", "grant", "shop", "--produce", "Orders", "--no-trace").results == ["updated"]
    assert root("acl", "grant", "shop", "-r", "Topic:Orders", "-a", "Get").results == ["updated"]
    assert root("acl", "grant", "shop", "-r", "Topic:Orders", "-a", "Get").results == ["unchanged"]
    assert entries_of(root("acl", "get", "shop")) == [("Topic:Orders", "Pub,Get", "Allow", "")]
    root("acl", "update", "shop", "-r", "Topic:Orders", "-a", "Get", "-d", "Deny")
    refused = root("acl", "grant", "shop", "--produce", "Orders", code=1).error
    assert "there is an entry that denies: Deny Get on Topic:Orders" in refused and "nothing was changed" in refused
    assert "delete it first: gantrymq acl delete shop -r Topic:Orders" in refused


def test_granted_tasks_are_all_that_clients_need(operator):
    """Sends of each kind, transactions, a consumer from the first offset, reading and committing, with traces."""
    root = operator(users={"shop": [], "billing": []})
    server = root.server
    server.create_topic("Orders", 2)
    server.create_topic("Other", 1)
    root("acl", "grant", "shop", "--produce", "Orders")
    root("acl", "grant", "billing", "--consume", "Orders", "--group", "billing")

    async def work():
        async with (
            Client(server.namesrv, credentials=server.credentials("shop")) as shop,
            Client(server.namesrv, credentials=server.credentials("billing")) as billing,
        ):
            producer = shop.producer("P")
            assert (await producer.send(Message("Orders", b"one"))).ok
            await producer.send_batch([Message("Orders", b"two"), Message("Orders", b"three")])
            await producer.send_oneway(Message("Orders", b"four"))
            seen = set()
            async for message in billing.consumer("billing", "Orders", consume_from="first"):
                seen.add(message.body)
                if len(seen) == 4:
                    break
            reader = billing.reader(group="billing")
            for queue in await reader.queues("Orders"):
                await reader.commit(queue, await reader.max_offset(queue))
            for refused in (
                producer.send(Message("Other", b"x")),
                billing.producer("B").send(Message("Orders", b"x")),
                billing.reader(group="another").committed(queue),
            ):
                with pytest.raises(NoPermission, match="gantrymq acl"):
                    await refused

    server.run(asyncio.wait_for(work(), 50))


def test_monitoring_and_operating_are_what_the_commands_need(operator):
    watch = operator("watch", users={"watch": [], "ops": []})
    root = type(watch)(watch.server, "root")
    root("acl", "grant", "watch", "--monitor")
    root("acl", "grant", "ops", "--operate")
    root("topic", "create", "Orders")
    root("group", "create", "billing")
    for words in (
        ("status",),
        ("topic", "list"),
        ("group", "list"),
        ("cluster", "status"),
        ("broker", "config", "get"),
    ):
        watch(*words)
    assert "gantrymq acl" in watch("topic", "create", "Bills", code=1).error
    ops = type(watch)(watch.server, "ops")
    ops("topic", "create", "Bills")
    ops("group", "create", "printing")
    ops("broker", "config", "set", "maxMessageSize=4096")
    ops("group", "delete", "printing")
    ops("topic", "delete", "Bills")
    ops("user", "create", "another", "--generate")
    assert ops("user", "create", "more", "--type", "Super", "--generate", code=1).results == ["failed"]


def test_the_deciding_entry_is_explained(operator):
    root = operator(users={"shop": ["Pub Topic:orders*"]})
    root("acl", "create", "shop", "-r", "Topic:orders-secret", "-a", "All", "-d", "Deny")
    (found,) = root("access", "explain", "shop", "Pub", "Topic:orders-1").documents[0]["brokers"]
    assert (found["allowed"], found["sentence"]) == (True, "the entry Allow Pub on Topic:orders* decides")
    refused = root("access", "explain", "shop", "Pub", "Topic:orders-secret", code=1)
    assert refused.documents[0]["brokers"][0]["others"][0]["resource"] == "Topic:orders*"
    assert "delete the entry that denies with: gantrymq acl delete shop -r Topic:orders-secret" in refused.error
    quoted = root("access", "explain", "shop", "Sub", "Topic:a|b", code=1).error
    assert "allow it with: gantrymq acl grant shop -r 'Topic:a|b' -a Sub" in quoted
    missing = root("access", "explain", "shop", "Sub", "Topic:%RETRY%billing", code=1).error
    assert "allow it with: gantrymq acl grant shop -r Group:billing -a Sub" in missing
    assert (
        "create it with: gantrymq user create nobody"
        in root("access", "explain", "nobody", "Pub", "Topic:T", code=1).error
    )


def test_the_report_lists_what_would_be_refused_and_how_to_allow_it(operator):
    root = operator(users={"shop": []}, accessMode="report")
    server = root.server
    server.create_topic("Orders", 1)

    async def send(credentials):
        async with Client(server.namesrv, credentials=credentials) as client:
            assert (await client.producer("P").send(Message("Orders", b"one"))).ok

    server.run(send(server.credentials("shop")))
    server.run(send(None))
    rows = root("access", "report").documents[0]["brokers"][0]["refusals"]
    (of_shop,) = [each for each in rows if each["user"] == "shop"]
    assert (of_shop["resource"], of_shop["actions"], of_shop["reason"]) == ("Topic:Orders", ["Pub"], "no_policy")
    assert of_shop["command"] in root.text("access", "report").stdout.splitlines()
    assert [each["reason"] for each in rows if not each["user"]] == ["no_account"]


def test_a_closed_broker_is_closed_from_outside(operator):
    root = operator()
    done = root.text("user", "list")
    from click.testing import CliRunner

    from gantrymq.cli import main

    done = CliRunner().invoke(main, ["access", "check", root.server.broker_address])
    assert done.exit_code == 0, done.output
    assert " open " not in done.stdout
