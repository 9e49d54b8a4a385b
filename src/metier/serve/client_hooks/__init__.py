"""Hooks of other agents' clients: each tool call of a client is decided here, and recorded.

A client runs the command of `fast_client.hook_command`; it asks the resident process, or decides without one.
"""
