"""Rules about tool calls, matched against calls and against the data that `guard.shell` reads from commands."""
