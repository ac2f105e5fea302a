"""``gantrymq start`` with several brokers: a name server in this process, and a process for each broker.

planned      the settings of each broker: its name, store and ports, and checks of all of them together
supervision  one broker's process: started, restarted after it ended, stopped; no operating system
processes    processes of the operating system
child        the program of a broker's process
servers      the name server and all brokers, as `gantrymq.cli.serving.serve` runs them
"""
