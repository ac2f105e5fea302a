"""Commands that administer a running cluster of GantryMQ or RocketMQ: topics, groups, messages, brokers."""
