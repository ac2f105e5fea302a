"""The broker's settings over the wire: 25 and 26."""

from __future__ import annotations

from broker_desk import START_MS, body_of

from gantrymq.loose_json import loads


def shown(answer):
    return dict(line.split("=", 1) for line in bytes(answer.payload).decode().splitlines())


def test_every_setting_is_shown_sorted_with_what_was_chosen(broker):
    async def main(desk):
        answer = await desk.ask(26)
        values = shown(answer)
        assert list(values) == sorted(values)
        assert (values["brokerIP1"], values["listenPort"], values["brokerName"]) == ("10.0.0.1", "10911", "broker-a")
        assert (values["autoCreateTopicEnable"], values["brokerPermission"]) == ("true", "6")
        assert (values["clientCallbackExecutorThreads"], values["useTLS"]) == ("1", "false")  # mqadmin exports them
        version = loads(answer.ext["version"])
        assert (version["counter"], version["stateVersion"]) == (0, 0)
        assert version["timestamp"] >= START_MS

    broker(main)


def test_a_setting_that_may_change_at_runtime_acts_at_once(broker):
    async def main(desk):
        assert (await desk.ask(25, None, b"autoCreateTopicEnable=false\n")).code == 0
        assert (await desk.send("New")).code == 17
        answer = await desk.ask(26)
        assert shown(answer)["autoCreateTopicEnable"] == "false"
        assert loads(answer.ext["version"])["counter"] == 1

    broker(main)


def test_the_longest_body_may_change_at_runtime(broker):
    async def main(desk):
        assert (await desk.ask(25, None, b"maxMessageSize=1024\n")).code == 0
        answer = await desk.send("T", b"x" * 1025)
        assert (answer.code, "1024" in answer.remark) == (13, True)
        assert (await desk.ask(25, None, b"maxMessageSize=2048\n")).code == 0
        assert (await desk.send("T", b"x" * 1025)).code == 0

    broker(main)


def test_black_listed_keys_are_refused(broker):
    async def main(desk):
        for key in ("configBlackList", "brokerConfigPath", "traceOn"):
            answer = await desk.ask(25, None, f"{key}=x\n".encode())
            assert (answer.code, key in answer.remark) == (16, True)

    broker(main, configBlackList="configBlackList;traceOn")


def test_a_key_that_only_rocketmq_reads_is_taken_with_a_word_in_the_log(broker, caplog):
    async def main(desk):
        assert (await desk.ask(25, None, b"adminBrokerThreadPoolNums=4\ntraceOn=false\n")).code == 0
        assert "adminBrokerThreadPoolNums of RocketMQ have no effect here" in caplog.text
        found = shown(await desk.ask(26))
        assert found["traceOn"] == "false"
        assert "adminBrokerThreadPoolNums" not in found
        answer = await desk.ask(25, None, b"enableRemoteEscape=true\ntraceOn=true\n")
        assert answer.code == 1
        assert "enableRemoteEscape=true: " in answer.remark
        assert shown(await desk.ask(26))["traceOn"] == "false"

    broker(main)


def test_a_setting_of_any_version_is_known_by_name(broker):
    async def main(desk):
        for key in ("commercialBigCount", "clientAsyncSemaphoreValue", "liteTtlCheckInterval"):
            assert (await desk.ask(25, None, f"{key}=1\n".encode())).code == 0

    broker(main)


def test_what_cannot_be_set_changes_nothing(broker):
    async def main(desk):
        for line, words in (
            ("listenPort=1", "at the start only"),
            ("noSuchKey=1", "not a setting of this broker"),
            ("traceOn=maybe", "neither true nor false"),
            ("traceOn=true\\nlistenPort=1", "line break"),
        ):
            answer = await desk.ask(25, None, f"autoCreateTopicEnable=false\n{line}\n".encode())
            assert (answer.code, words in answer.remark) == (1, True)
        assert (await desk.ask(25, None, b"\xff")).code == 1
        assert shown(await desk.ask(26))["autoCreateTopicEnable"] == "true"
        assert (await desk.ask(25)).code == 0

    broker(main)


def test_parts_that_are_not_there(broker):
    async def main(desk):
        for code in (60, 61):
            answer = await desk.ask(code)
            assert (answer.code, "pip install ./libs/store_files ./plugins/schedule" in answer.remark) == (3, True)
        for code in (3001, 3010):
            answer = await desk.ask(code)
            assert (answer.code, "plugins/access" in answer.remark) == (3, True)
        for code in (1007,):
            answer = await desk.ask(code)
            assert (answer.code, "plugins/replication" in answer.remark) == (3, True)
        for code in (2001, 2002, 2004, 354, 355):
            answer = await desk.ask(code)
            assert (answer.code, "not implemented" in answer.remark) == (3, True)
        assert body_of(await desk.ask(45))["offsetTable"] == {}
        assert (await desk.ask(908, {"masterFlushOffset": "0"})).code == 0
        await desk.send("T")
        replication = body_of(await desk.ask(907))
        assert (replication["master"], replication["haConnectionInfo"]) == (True, [])
        assert replication["masterCommitLogMaxOffset"] > 0

    broker(main)
