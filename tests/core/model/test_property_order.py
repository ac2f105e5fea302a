from gantrymq.model.java import java_map_order, string_hash


def test_names_stand_as_a_java_broker_wrote_them():
    sent = ["KEYS", "UNIQ_KEY", "WAIT", "TAGS", "MSG_REGION", "TRACE_ON", "CLUSTER", "REAL_TOPIC", "REAL_QID", "DELAY"]
    assert java_map_order(sent) == [
        "MSG_REGION", "UNIQ_KEY", "CLUSTER", "DELAY", "TAGS", "KEYS", "WAIT", "TRACE_ON", "REAL_TOPIC", "REAL_QID",
    ]  # fmt: skip


def test_the_default_table_of_16_gives_the_order_of_4_9_7():
    assert java_map_order(["TAGS", "UNIQ_KEY", "KEYS", "CLUSTER"], 16) == ["KEYS", "UNIQ_KEY", "CLUSTER", "TAGS"]


def test_names_in_one_bucket_keep_the_order_they_were_put_in():
    assert string_hash("Aa") == string_hash("BB")
    assert java_map_order(["Aa", "BB"]) == ["Aa", "BB"]
    assert java_map_order(["BB", "Aa"]) == ["BB", "Aa"]


def test_a_name_put_again_does_not_move():
    assert java_map_order(["BB", "Aa", "BB"]) == ["BB", "Aa"]


def test_no_names_have_no_order():
    assert java_map_order([]) == []


def test_the_table_doubles_above_three_quarters():
    names = [chr(0x100 + i) for i in range(97)]  # spread hash: 0x100 + i; the low 7 bits of the first is 0
    first_128 = [*names[:96]]
    assert java_map_order(first_128) == first_128
    assert java_map_order([chr(0x80), *names[:95]])[:2] == [chr(0x80), chr(0x100)]  # one bucket of 128
    assert java_map_order([chr(0x80), *names])[0] == chr(0x100)  # two buckets of 256
