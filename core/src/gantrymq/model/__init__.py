"""Data model of a RocketMQ cluster: properties, names, topics, groups, subscriptions, queues, ids."""
