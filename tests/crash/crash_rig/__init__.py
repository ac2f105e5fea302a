"""Parts of the crash tests; see ../README.md."""
