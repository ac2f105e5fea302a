"""Projects of plugins: folders of files with words to fill in, and the command that copies them."""
