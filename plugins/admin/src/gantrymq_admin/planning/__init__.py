"""Planning a cluster of several machines: from one description to the settings file of each server. No I/O.

description   the description in TOML, checked
placing       servers on machines, with their settings
checking      values that must differ between servers, and unwise choices
"""
