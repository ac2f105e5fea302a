"""plain_acl.yml with faults, at the start and by requests."""

import pytest
from faulty_broker import start_broker

pytest.importorskip("gantrymq_access_plain")

ACCOUNTS = "globalWhiteRemoteAddresses: [127.0.0.1]\naccounts:\n- accessKey: orders1\n  secretKey: 12345678\n"


@pytest.fixture
def home(tmp_path):
    """Write a plain_acl.yml and return the settings that select it."""

    def write(text):
        path = tmp_path / "home" / "conf" / "plain_acl.yml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o600)
        return path

    return write


@pytest.mark.parametrize(
    ("more", "line", "what"),
    [
        (
            "- accessKey: writer1\n  secretKey: abcdef\n",
            6,
            "account writer1: secretKey has 6 characters; it needs more than 6",
        ),
        (
            "- &a {accessKey: writer1}\n",
            5,
            "anchors and aliases (& and *) are not read; write the value out, or put it in quotes",
        ),
        (
            "- !!python/name:os.system {}\n",
            5,
            "tags (!) are not read; put the value in quotes if it begins with one",
        ),
        ("- accessKey: writer1\n  accessKey: writer1\n", 6, "the key accessKey is here twice; keep one of the two"),
    ],
)
def test_bi386_a_file_of_accounts_with_a_fault(program, row, home, more, line, what):
    path = home(ACCOUNTS + more)
    sentence, code = program.refusal("--set", "aclEnable=true", "--set", f"aclHome={path.parent.parent}")
    row.check(sentence, code, file=path, line=line, what=what)


def test_bi387_accounts_without_their_folder(program, row):
    row.check(*program.refusal("--set", "aclEnable=true", ROCKETMQ_HOME=""))


def test_bi388_a_change_that_the_next_start_would_refuse(tmp_path, logged, row, home):
    path = home(ACCOUNTS)
    before = path.read_bytes()
    settings = {"plugins": "access_plain,filter_tag,storage_mmap", "aclEnable": True}
    running = start_broker(tmp_path / "store", **settings, aclHome=str(path.parent.parent))
    try:
        with running.peer() as peer:
            change = {"accessKey": "orders1", "whiteRemoteAddress": "10.*.1.2"}
            answer = peer.ask(50, change)
            row.check(answer.remark, answer.code, pattern="10.*.1.2", why="only * may follow * or a range")
            answer = peer.ask(53, {"globalWhiteAddrs": "10.*.1.2"})
            row.check(answer.remark, 209, pattern="10.*.1.2", why="only * may follow * or a range")
            assert answer.code == 211
        assert path.read_bytes() == before
        assert running.serves()
    finally:
        running.close()
