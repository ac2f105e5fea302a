"""``gantrymq bench``: throughput and latency of brokers. The command is in `commands.bench`."""
