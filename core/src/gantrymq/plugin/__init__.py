"""The public modules for plugins: a plugin imports these, `gantrymq.errors` and nothing else of GantryMQ.

    hookimpl         marks a plugin's hooks, which `gantrymq.hooks` declares
    interfaces       protocols that a plugin implements, and the parts of a broker that it receives
    settings         settings that a plugin declares, and those of a server
    model            topics, groups, queues, subscriptions, addresses, ids, permissions
    names            names of system topics and groups
    properties       properties of messages
    sys_flag         flags of messages
    formats          records, queue entries, bodies and folders of a store
    config_files     JSON files in ``config/`` of a store
    loose_json       JSON as RocketMQ reads and writes it
    remoting         requests, responses and their handlers
    headers          headers of requests and responses
    network          servers and clients of RocketMQ's protocol, listeners, TLS
    world            clock, files, network and threads
    real_world       those of the operating system, for commands
    commands         commands of ``gantrymq``
    client           for commands that are clients of a cluster, besides `gantrymq.client`
    speedups         the compiled functions

Only plugins import these modules. Each name has a line on a page of docs/plugins/api, which `.ci/hook_pages.py` writes.
"""

from gantrymq.hooks import hookimpl as hookimpl
