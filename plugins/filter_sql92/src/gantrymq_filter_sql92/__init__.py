"""SQL92 subscriptions for GantryMQ: RocketMQ's expressions over message properties. `expression` is where to begin."""
