"""What a warden says to whoever asked for a job, beside its report."""

from __future__ import annotations

TAKEN = b"taken 1\n"
"""That it took another job into its cage."""
