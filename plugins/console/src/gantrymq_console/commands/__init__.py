"""``gantrymq console`` and its subcommands."""
