"""The audit log: lines, limits, rotation, and the metric."""

import json

from access_rig import ROOT, SEND, send, with_topic

from gantrymq.remoting.command import request


def lines(rig, event):
    return [each for each in rig.audited() if each["event"] == event]


def test_refusals_and_changes_are_recorded_and_passes_only_by_setting(run):
    async def main(rig):
        await with_topic(rig)
        await send(rig)
        await rig.grant("alice", "Topic:T")
        await send(rig)
        await send(rig, secret="wrong-secret")
        await rig.world.clock.sleep(1)
        (decision, login) = lines(rig, "refused")
        assert (
            decision.items()
            >= {
                "user": "alice",
                "source": "127.0.0.1",
                "listener": "default",
                "request": 10,
                "actions": ["Pub"],
                "resource": "Topic:T",
                "reason": "no_policy",
            }.items()
        )
        assert (login["user"], login["reason"], login["request"]) == ("alice", "wrong_signature", 10)
        created, granted = lines(rig, "changed")
        assert created.items() >= {"what": "create user", "subject": "alice", "user": ROOT, "type": "Normal"}.items()
        assert granted["entries"] == ["Custom Allow Pub on Topic:T"]
        return len(lines(rig, "allowed"))

    assert run(main) == 0
    assert run(main, accessAuditPasses=True) > 1


def test_a_change_is_in_the_file_before_its_answer(run):
    async def main(rig):
        await rig.create("alice")
        assert lines(rig, "changed")[-1]["subject"] == "alice"

    run(main)


def test_ten_refusals_a_second_of_a_user_and_reason_are_written_and_the_others_counted(run):
    async def main(rig):
        await with_topic(rig)
        await rig.create("bob")
        for _ in range(50):
            await send(rig)
        await send(rig, "bob")
        await rig.world.clock.sleep(2)
        found = lines(rig, "refused")
        of_alice = [each for each in found if each["user"] == "alice"]
        assert len(of_alice) == 11
        assert of_alice[-1]["repeated"] == 40
        assert sum(each["user"] == "bob" for each in found) == 1
        assert rig.authorizer.audit.refusals["enforce", "no_policy"] == 51

    run(main)


def test_unknown_users_of_an_address_share_a_limit(run):
    async def main(rig):
        for number in range(15):
            await rig.ask(26, user=f"guess-{number}")
        await rig.world.clock.sleep(2)
        found = lines(rig, "refused")
        assert len(found) == 11
        assert found[-1]["repeated"] == 5

    run(main)


def test_a_full_file_is_renamed_and_the_oldest_is_dropped(run):
    async def main(rig):
        for number in range(200):
            await rig.create(f"user-{number}")
        folder = rig.cluster.broker.state_folder("access")
        names = rig.world.files.list(folder)
        assert names == ["audit.log", "audit.log.1", "audit.log.2"]
        for name in names:
            found = rig.world.files.stat(folder / name)
            assert found.size <= 4096
            assert found.mode == 0o600
        newest = [json.loads(line) for line in rig.world.files.read(folder / "audit.log").splitlines()]
        assert newest[-1]["subject"] == "user-199"

    run(main, accessAuditFileSize=4096, accessAuditFiles=3)


def test_refusals_are_a_metric_of_the_broker(run):
    async def main(rig):
        await with_topic(rig)
        await send(rig)
        await send(rig, "nosuch")
        (found,) = [each for each in rig.cluster.broker.metrics.of_plugins() if "access" in each.name]
        assert found.name == "gantrymq_access_refusals_total"
        assert found.values == {("enforce", "no_policy"): 1, ("enforce", "unknown_user"): 1}

    run(main)


def test_listeners_get_each_event(run):
    async def main(rig):
        events = []
        rig.authorizer.audit.listen(events.append)
        rig.authorizer.audit.listen(lambda event: 1 / 0)
        await rig.create("alice")
        assert [each["what"] for each in events] == ["create user"]

    run(main)


def test_an_unexpected_error_does_not_end_the_log(run, monkeypatch, caplog):
    async def main(rig):
        with monkeypatch.context() as patch:
            patch.setattr(rig.authorizer.audit, "_end_limits", lambda: 1 / 0)
            await rig.world.clock.sleep(1)
        await rig.ask(26, user="nosuch")
        await rig.world.clock.sleep(1)
        assert len(lines(rig, "refused")) == 1

    run(main)
    assert "events of the audit log could not be written" in caplog.text


def test_long_names_are_kept_neither_by_the_log_nor_by_the_report(run):
    async def main(rig):
        await with_topic(rig)
        for _ in range(12):
            await rig.send(request(10, SEND | {"topic": "t" * 10_000}, b"x"), "alice")
        kept = [limit.last["resource"] for limit in rig.authorizer.audit._limits.values() if limit.last]
        assert all(len(each) <= 255 for each in kept)
        report = rig.authorizer.report.to_json()
        assert (report["rows"], report["leftOut"] > 0) == ([], True)
        return kept

    assert run(main)
    run(main, accessMode="report")


def test_clients_without_an_account_leave_room_in_the_report_for_users(run, monkeypatch):
    monkeypatch.setattr("gantrymq_access.report.MAX_ROWS", 4)
    monkeypatch.setattr("gantrymq_access.report.MAX_UNKNOWN", 3, raising=False)

    async def main(rig):
        await with_topic(rig)
        for number in range(6):
            await send(rig, f"unknown{number}")
        await send(rig)
        return rig.authorizer.report.to_json()

    report = run(main, accessMode="report")
    assert [each["user"] for each in report["rows"]] == ["alice", "unknown0", "unknown1", "unknown2"]
    assert report["leftOut"] == 3


def test_a_change_is_in_force_although_the_audit_log_cannot_be_written(run, monkeypatch):
    async def main(rig):
        await with_topic(rig)
        await rig.grant("alice", "Topic:T")
        assert (await send(rig)).code == 0

        async def fail(event):
            raise RuntimeError("no disk")

        with monkeypatch.context() as patch:
            patch.setattr(rig.authorizer.audit, "changed", fail)
            assert (await rig.grant("alice", "Topic:T", decision="Deny")).code == 1
        assert (await send(rig)).code == 16

    run(main)
