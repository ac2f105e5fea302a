"""The ASGI application.

app          builds the application from the sections in `gantrymq_console.pages`
pages        declarations of a section: pages and actions, with the role that each needs
context      one request: user, language, parameters, links
console      the objects of a running console that requests use
pace         the time between two refreshes of an open page
actions      the steps of every change: preview, confirmation, audit, result
responses    a page as HTML or JSON, errors in both forms, refreshes
render       HTML from templates, charts, static files
compiling    the code into which templates are compiled
texts        the catalogues of both languages
jobs         work that outlives a request
login        the page to log in, preferences
security     checks of every request, headers of every response, tokens of forms
http_server  HTTP/1.1 over a world's network
"""
