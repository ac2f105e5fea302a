"""``gantrymq bench``: how fast brokers take messages and give them out. `commands.bench` is the command."""
