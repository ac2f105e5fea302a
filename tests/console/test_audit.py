"""The audit log on disk, and its page."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import attrs
import pytest
from console_visitor import Visitor

from gantrymq_console.access.audit import FILE_BYTES, AuditUnwritable, Entry, FileAudit
from gantrymq_console.access.users import Role, mask
from gantrymq_testing.failing_files import FailingFiles
from gantrymq_testing.recording import RecordingFiles
from gantrymq_testing.simulated import simulate

FOLDER = Path("/state/console")


def entry(number, **fields):
    return Entry(1000 + number, f"id{number}", "ann", "127.0.0.1", "topics.delete", f"T{number}", **fields)


def with_audit(work, file_bytes=FILE_BYTES, files=None):
    """Run ``await work(audit, world)`` in a simulated world, with the files wrapped by *files*."""

    async def main(world):
        world = attrs.evolve(world, files=files(world.files)) if files else world
        audit = FileAudit(world, FOLDER, file_bytes)
        try:
            return await work(audit, world)
        finally:
            await audit.close()

    return simulate(1, main)


def test_an_entry_is_synced_before_it_counts_and_found_after_a_restart():
    async def work(audit, world):
        await audit.write(entry(1, change='24 -> "8" queues 主题'))
        (write,) = [each for each in world.files.calls if each.name == "pwrite"]
        syncs = [each.name for each in world.files.calls[world.files.calls.index(write) :]]
        assert syncs.count("datasync.end") == 1
        await FileAudit(world, FOLDER).write(entry(2, result="done"))
        found, total = await audit.find("", 0, 10)
        assert [each.target for each in found] == ["T2", "T1"] and total == 2
        assert found[1].change == '24 -> "8" queues 主题'

    with_audit(work, files=RecordingFiles)


def test_entries_are_found_by_any_value_newest_first_and_by_page():
    async def work(audit, world):
        for number in range(7):
            await audit.write(entry(number))
            await audit.write(entry(number, result="done" if number % 2 else 'failed: no "such" topic'))
        await audit.write(entry(7))
        everything, total = await audit.find("", 0, 10)
        assert total == 8 and [each.target for each in everything] == [f"T{n}" for n in reversed(range(8))]
        assert [each.result for each in everything[:2]] == ["", 'failed: no "such" topic']
        assert [each.target for each in (await audit.find("", 2, 2))[0]] == ["T5", "T4"]
        assert (await audit.find('NO "SUCH"', 0, 1))[1] == 4
        assert (await audit.find("request_id", 0, 1))[1] == 0  # names of members do not count

    with_audit(work)


def test_files_are_rotated_and_the_oldest_goes():
    async def work(audit, world):
        for number in range(60):
            await audit.write(entry(number, result="done"))
        names = world.files.list(FOLDER)
        assert names == sorted(["audit.log", *(f"audit.log.{n}" for n in range(1, 10))])
        assert all(world.files.stat(FOLDER / each).size <= 500 for each in names)
        found, total = await audit.find("", 0, 200)
        numbers = [int(each.target[1:]) for each in found]
        assert numbers == list(reversed(range(60 - total, 60))) and 20 < total < 60
        lines = b"".join([each async for each in audit.lines()]).splitlines()
        assert [json.loads(each)["target"] for each in lines] == [f"T{n}" for n in reversed(numbers)]

    with_audit(work, file_bytes=500)


@pytest.mark.parametrize("fail_at", range(5))
def test_a_failed_write_refuses_and_the_log_goes_on_after_it(fail_at):
    async def work(audit, world):
        with pytest.raises(AuditUnwritable, match=r"audit\.log cannot be written"):
            for number in range(3):
                await audit.write(entry(number))
        world.files._fail_at = None
        await audit.write(entry(9))
        assert (await audit.find("T9", 0, 1))[1] == 1

    with_audit(work, files=lambda inner: FailingFiles(inner, fail_at))


def test_a_torn_line_is_ended_and_skipped():
    async def work(audit, world):
        world.files.make_dirs(FOLDER)
        file = world.files.open(FOLDER / "audit.log", create=True)
        file.pwrite(b'{"time_ms": 1, "request_id": "x"', 0)
        file.close()
        await audit.write(entry(1))
        found, _ = await audit.find("", 0, 10)
        assert [each.target for each in found] == ["T1"]
        assert (await audit.find("x", 0, 10))[1] == 0

    with_audit(work)


def test_concurrent_entries_are_whole_lines():
    async def work(audit, world):
        await asyncio.gather(*(audit.write(entry(number)) for number in range(50)))
        assert (await audit.find("", 0, 100))[1] == 50

    with_audit(work)


def test_secrets_are_masked_by_the_name_of_their_key():
    assert mask("tls.server.keyPassword", "abc") == mask("accessKey", "abc") == mask("authToken", "x") == "******"
    assert mask("secretKey", "") == "" and mask("brokerName", "a") == "a"


def test_the_page_shows_filters_and_pages(visitor):
    assert "Nothing was changed" in visitor.get("/audit").text
    for number in range(3):
        visitor.running.run(visitor.audit.write(entry(number)))
        visitor.running.run(visitor.audit.write(entry(number, result="failed: <b>no</b>\u202e" if number else "done")))
    page = visitor.get("/audit?rows=2")
    assert "3 entries" in page.text and "1 to 2 of 3" in page.text
    assert "failed <b>no</b> U+202E" in page.text
    twin = visitor.api("/audit?filter=T0")["data"]
    assert [each["result"] for each in twin["entries"]] == ["done"] and twin["total"] == "1"
    assert "No entry contains nonsense" in visitor.get("/audit?filter=nonsense").text


def test_only_an_admin_may_download_the_log(visitor, gantrymq_broker):
    visitor.running.run(visitor.audit.write(entry(1)))
    found = visitor.request("GET", visitor.get("/audit").link("Download the whole log as JSON lines"))
    assert json.loads(found.content)["target"] == "T1"
    assert found.headers["content-type"] == "application/octet-stream"
    assert found.headers["content-disposition"].startswith("attachment")
    with Visitor(gantrymq_broker, Role.OPERATOR) as operator:
        assert operator.request("GET", "/audit/export").status_code == 403
        assert not [name for name, _ in operator.get("/audit").links if "Download" in name]


def test_a_log_that_another_program_removed_or_cut_goes_on_with_the_next_entry():
    async def work(audit, world):
        path = FOLDER / "audit.log"
        await audit.write(entry(1))
        world.files.remove(path)
        await audit.write(entry(2))
        assert [json.loads(line)["request_id"] for line in world.files.read(path).splitlines()] == ["id2"]
        world.files.replace(path, b"")
        await audit.write(entry(3))
        assert [json.loads(line)["request_id"] for line in world.files.read(path).splitlines()] == ["id3"]
        found, total = await audit.find("id3", 0, 10)
        assert (total, found[0].request_id) == (1, "id3")

    with_audit(work)


def test_a_text_is_found_whatever_the_case_of_its_letters():
    async def work(audit, world):
        await audit.write(entry(1, change="ÉKEY"))
        assert (await audit.find("éKey", 0, 10))[1] == 1

    with_audit(work)
