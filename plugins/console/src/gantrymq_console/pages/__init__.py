"""The parts of the console: one module, or package, for each, with its addresses, forms and actions."""
