"""What the commands of ``gantrymq`` share, core's and those of plugins: options, output, times.

    output           -n, --tls, --output json; documents on stdout, everything else on stderr
    times            times as options give them
    bodies           a message's body for people and for scripts
    groups           groups of commands: whole sentences, suggestions, completion
    imported         commands whose modules are imported when they are used
    run              a coroutine on an event loop of its own, for commands that ask servers

A plugin of commands may import all of it; `gantrymq.cli`, the command line itself, it sees as little as any other.
"""
