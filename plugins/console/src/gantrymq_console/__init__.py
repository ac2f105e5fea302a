"""A web console: the contents of a cluster, who consumed a message, and why a group receives nothing.

    data         queries to the cluster, without HTTP: caches, deadlines, results of each page
    pages        one module for each part of the console: addresses, forms, actions
    web          the ASGI application: routes, sessions, security, rendering, languages
    commands     ``gantrymq console``
    values       values of pages in JSON, used by all of them

Source of the feature list: apache/rocketmq-dashboard.
"""
