"""Rules about tool calls: how they are written, what they match, and the ceiling of every active skill."""
