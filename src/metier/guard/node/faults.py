"""Codes of the faults of a node: the reasons why it may not rely on the state that it has of its server."""

STATE_INVALID = "node-state-invalid"
"""Something is missing, or is not what the server signed."""
LEASE_ENDED = "node-lease-ended"
"""The server was not reached for longer than the lease lasts."""
OFFLINE = "node-offline"
"""Policy wants the server to be asked, and it does not answer."""
