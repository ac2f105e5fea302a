"""Shared code for the commands of ``gantrymq``, core's and those of plugins.

    output           -n, --tls, --output json; documents on stdout, everything else on stderr
    times            parsing of times and durations in options
    bodies           output of message bodies for people and for scripts
    groups           groups of commands: complete sentences, suggestions, completion
    imported         commands with lazy imports
    run              running coroutines on an event loop, for commands that query servers

Plugins may import this package, but not `gantrymq.cli`, the command line itself.
"""
