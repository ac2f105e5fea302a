"""The sections of the console: one module for each, with its addresses, forms and actions."""
