"""Approvals bound to content, quarantines, people and their roles."""
