"""Commands that look after a running cluster: topics, groups, messages, brokers; ours or RocketMQ's."""
