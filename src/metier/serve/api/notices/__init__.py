"""Notices: webhooks are told of what happens, from the audit log, and people decide where they are told.

`events` makes notices of audit records, `forms` writes them as receivers want them, `deliveries` sends them by
`transport`, `webhooks` is how admins say who is told, and `slack` takes decisions back.
"""
