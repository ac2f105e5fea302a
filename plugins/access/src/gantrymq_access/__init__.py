"""Access control: users, policies and signatures of RocketMQ 5."""
