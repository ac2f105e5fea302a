"""RocketMQ's bit map: at dispatch each message gets the bits of the groups whose expression it matches."""
