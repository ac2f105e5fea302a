"""Plugin projects: templates with placeholders, and the command that copies them."""
