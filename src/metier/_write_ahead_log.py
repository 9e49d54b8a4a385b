"""SQLite's write-ahead log, with which readers see the last committed state while somebody writes."""

from __future__ import annotations

import sqlite3
import time


def use_write_ahead_log(connection: sqlite3.Connection, seconds: float) -> None:
    """Turn it on. A file changes to it once, alone, and SQLite itself does not wait where another process does it."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.01)
