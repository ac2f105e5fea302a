"""RocketMQ's bit map: at dispatch each message gets the bits of the groups with a matching expression."""
