"""What the crash tests are made of; see README.md beside this folder."""
