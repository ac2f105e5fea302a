"""Size reserved for properties added after a message was accepted."""

from gantrymq.model import names
from gantrymq.model import properties as props

NUMBER, LONG, TIME = "9" * 10, "9" * 19, "9" * 19
TOPIC, BROKER = "T" * names.MAX_TOPIC_CHARS, "B" * 127
ADDED = {
    "TRANSACTION_CHECK_TIMES": NUMBER,
    "WAIT": "false",
    "TRAN_PREPARED_QUEUE_OFFSET": LONG,
    "TIMER_OUT_MS": TIME,
    "TIMER_ENQUEUE_MS": TIME,
    "TIMER_DEQUEUE_MS": TIME,
    "TIMER_ROLL_TIMES": NUMBER,
    "RETRY_TOPIC": TOPIC,
    "ORIGIN_MESSAGE_ID": "F" * 56,  # of a broker with an IPv6 address
    "DELAY": NUMBER,
    "REAL_TOPIC": "R" * names.MAX_RETRY_TOPIC_CHARS,
    "REAL_QID": NUMBER,
    "DLQ_ORIGIN_TOPIC": TOPIC,
    "DLQ_ORIGIN_MESSAGE_ID": "F" * 56,
    "RECONSUME_TIME": NUMBER,
    "MAX_RECONSUME_TIMES": NUMBER,
    "MIN_OFFSET": LONG,
    "MAX_OFFSET": LONG,
    "CONSUME_START_TIME": TIME[:13],
    "1ST_POP_TIME": TIME[:13],
    "POP_CK": f"{LONG} {TIME[:13]} {NUMBER} {NUMBER[:5]} 2 {BROKER} {NUMBER} {LONG}",
    "INNER_NUM": "32767",
    "INNER_BASE": LONG,
    "INNER_MULTI_QUEUE_OFFSET": "",
    "REDIRECT": "true",
    "PROPERTY_FORWARD_QUEUE_ID": NUMBER,
    "__CRC32#": NUMBER,
}


def test_all_that_is_added_has_room():
    assert len(props.encode(ADDED)) == 1513 <= props.LATER_BYTES
    assert len(f"{LONG},") <= props.LIGHT_QUEUE_BYTES
    assert props.MAX_SENT_BYTES + props.LATER_BYTES == props.MAX_BYTES == 32767
