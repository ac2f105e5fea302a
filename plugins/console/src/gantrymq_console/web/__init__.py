"""The ASGI application.

app          builds the application from the parts in `gantrymq_console.pages`
pages        declarations of a part: pages and actions, with the role that each needs
visit        one request: user, language, parameters, links
actions      the steps of every change: preview, confirmation, audit, result
render       HTML from templates, JSON from the same data
texts        the catalogues of both languages
security     checks of every request, headers of every response
http_server  HTTP/1.1 over a world's network
"""
