"""The server of a company: HTTP API, registry, sign-in and nodes, in one ASGI application.

A route translates: it reads a request, calls the function that the command line calls, and writes the answer. The
tenant and the role of a caller come from their credential alone (`credentials.py`). Nothing that must be shared lives
in the process: all of it is in the store, so any number of processes may serve it.
"""
