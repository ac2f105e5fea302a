"""The requests of apache.rocketmq.v2 on the operations of the broker."""
