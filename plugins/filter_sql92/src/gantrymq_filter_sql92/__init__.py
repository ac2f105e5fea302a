"""SQL92 subscriptions for GantryMQ: RocketMQ's expressions over message properties. Start with `expression`."""
