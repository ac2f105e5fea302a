"""Invalid consumer groups, and an unreadable table of a name server."""

import pytest
from faulty_broker import start_name_server

from gantrymq.remoting.codes import RequestCode


@pytest.fixture
def refuses(broker, row):
    """Send a request to create a group; compare code and sentence with the row, and check that none was created."""

    def check(body, name, /, **values):
        with broker.peer() as peer:
            answer = peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
            row.check(answer.remark, answer.code, **values)
            assert peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": name}).code == 26

    return check


def test_bi94_a_group_name_that_is_not_allowed(refuses):
    refuses(b'{"groupName":"a/b"}', "a/b", group="'a/b'")


@pytest.mark.parametrize(
    ("member", "why"),
    [
        (b'"retryMaxTimes":"x"', "retryMaxTimes is 'x', a whole number from -2147483648 to 2147483647 was expected"),
        (b'"attributes":[1]', "attributes is [1], a JSON object was expected"),
    ],
)
def test_bi95_a_group_with_a_member_of_the_wrong_type(refuses, member, why):
    refuses(b'{"groupName":"G",' + member + b"}", "G", group="G", why=why)


@pytest.mark.parametrize(
    ("field", "count", "limit", "key"),
    [
        ("retryQueueNums", 257, 256, "maxRetryQueueNums"),
        ("retryQueueNums", -1, 256, "maxRetryQueueNums"),
        ("retryMaxTimes", 10001, 10000, "maxRetryTimes"),
    ],
)
def test_bi246_a_group_above_a_limit(refuses, field, count, limit, key):
    body = f'{{"groupName":"G","{field}":{count}}}'.encode()
    refuses(body, "G", group="G", field=field, count=count, limit=limit, key=key)


def test_bi262_a_group_attribute_that_does_not_exist(refuses):
    refuses(b'{"groupName":"G","attributes":{"+no.such":"1"}}', "G", group="G", attribute="'+no.such'")


@pytest.fixture
def refuses_change(broker, row):
    """Send a change of an existing group; compare the answer with the row, and check that nothing changed."""

    def check(changes, **values):
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        with broker.peer() as peer:
            assert peer.ask(code, {}, b'{"groupName":"Old"}').code == 0
            answer = peer.ask(code, {}, b'{"groupName":"Old","retryMaxTimes":3,"attributes":' + changes + b"}")
            row.check(answer.remark, answer.code, owner="group Old", name="filter", **values)
            kept = peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "Old"}).body
            assert b'"retryMaxTimes":16' in kept

    return check


def test_bi263_an_attribute_to_delete_that_is_not_set(refuses_change):
    refuses_change(b'{"-filter":""}')


def test_bi264_an_attribute_set_and_deleted_at_once(refuses_change):
    refuses_change(b'{"+filter":"TAG:: A","-filter":""}')


def test_bi96_a_key_value_table_that_is_cut_short(tmp_path, logged, row):
    path = tmp_path / "namesrv" / "kvConfig.json"
    path.parent.mkdir()
    path.write_text('{"configTable":{"N"')
    running = start_name_server(tmp_path)
    try:
        seen = logged.wait_for(str(path))
        row.check(seen, "starts", file=path, why="JSON at 19: expected :, got the end")
        with running.peer() as peer:
            ext = {"namespace": "N", "key": "k", "value": "v"}
            assert peer.ask(RequestCode.PUT_KV_CONFIG, ext).code == 0
        assert path.with_name("kvConfig.json.broken").read_text() == '{"configTable":{"N"'
        assert running.serves()
    finally:
        running.close()
