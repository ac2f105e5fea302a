"""The nouns of a RocketMQ cluster: messages, properties, names, topics, groups, subscriptions, ids."""
