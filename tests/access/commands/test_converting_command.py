"""``gantrymq acl convert``: two files for a broker, and warnings."""

import json

import pytest
from click.testing import CliRunner

pytest.importorskip("gantrymq_access_plain")

from gantrymq.cli import main
from gantrymq_access.state import read_acls, read_users

ACCOUNTS = """\
globalWhiteRemoteAddresses: [10.10.103.*]
accounts:
- {accessKey: operator, secretKey: operator-secret, admin: true}
- {accessKey: orders1, secretKey: orders-secret, topicPerms: [Orders=PUB]}
"""


@pytest.fixture
def accounts(tmp_path):
    path = tmp_path / "plain_acl.yml"
    path.write_text(ACCOUNTS)
    return path


def run(*words):
    return CliRunner().invoke(main, ["acl", "convert", *map(str, words)])


def test_the_files_can_be_read_by_a_broker_and_by_their_owner_only(accounts, tmp_path):
    target = tmp_path / "store" / "config"
    done = run(accounts, "-o", target)
    assert done.exit_code == 0, done.output
    users = read_users((target / "users.json").read_bytes())
    acls = read_acls((target / "acls.json").read_bytes())
    assert {name: (user.secret, user.is_super) for name, user in users.items()} == {
        "operator": ("operator-secret", True),
        "orders1": ("orders-secret", False),
    }
    assert [str(each.resource) for each in acls["orders1"].policies[0].entries] == [
        "Topic:Orders",
        "Topic:RMQ_SYS_TRACE_TOPIC",
    ]
    assert [(target / name).stat().st_mode & 0o777 for name in ("users.json", "acls.json")] == [0o600, 0o600]
    assert "globalWhiteRemoteAddresses is not carried over" in done.stderr
    assert f"2 users and 2 entries are in {target / 'users.json'} and {target / 'acls.json'}" in done.stderr
    assert "secret" not in done.stdout


def test_existing_files_are_replaced_on_request_only(accounts, tmp_path):
    (tmp_path / "users.json").write_text("kept")
    done = run(accounts, "-o", tmp_path)
    assert done.exit_code == 1
    assert f"{tmp_path / 'users.json'} exist; --force replaces them, -o selects another folder" in done.stderr
    assert (tmp_path / "users.json").read_text() == "kept" and not (tmp_path / "acls.json").exists()
    assert run(accounts, "-o", tmp_path, "--force").exit_code == 0
    assert "operator" in read_users((tmp_path / "users.json").read_bytes())


def test_a_dry_run_writes_nothing(accounts, tmp_path):
    more = tmp_path / "more.yml"
    names = ("orders1", "readers")
    more.write_text("accounts:\n" + "".join(f"- {{accessKey: {name}, secretKey: another-one}}\n" for name in names))
    done = run(accounts, more, "-o", tmp_path, "--dry-run", "--output", "json")
    found = json.loads(done.stdout)
    assert [(each["user"], each["type"], each["entries"]) for each in found["users"]] == [
        ("operator", "Super", 0),
        ("orders1", "Normal", 2),
        ("readers", "Normal", 1),
    ]
    assert found["written"] == [] and not (tmp_path / "users.json").exists()
    assert f"{more}: account orders1 has no effect, as {accounts} has it" in found["warnings"]


def test_a_fault_is_one_sentence(accounts, tmp_path):
    accounts.write_text(ACCOUNTS + "- {accessKey: short}\n")
    done = run(accounts, "-o", tmp_path)
    assert (done.exit_code, done.stderr) == (
        1,
        f"gantrymq: {accounts} line 5: accessKey 'short' has 5 characters; it needs more than 6\n",
    )
    assert run(tmp_path / "none.yml").exit_code == 1


def test_without_an_admin_nobody_could_manage_users(tmp_path):
    path = tmp_path / "plain_acl.yml"
    path.write_text("accounts: [{accessKey: orders1, secretKey: 12345678}]")
    done = run(path, "-o", tmp_path, "--dry-run")
    assert "no account is an admin, so that there is no Super user: set initAuthenticationUser" in done.stderr
