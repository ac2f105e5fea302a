"""Pop consumption: brokers deliver single messages, hide them for a while, and deliver unacknowledged ones again.

receipts    receipts, with which messages are acknowledged; built from the response of a pop
calls       requests: pop, acknowledge, change the invisible time
ack_buffer  in-flight messages: batched acknowledgements, renewals
run         state of a started consumer, and `async for`
consumer    the public consumer class
"""
