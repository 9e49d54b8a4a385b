"""Doors for other programs: skills over the Model Context Protocol.

Nothing imports this room but the command. It imports every other room and decides nothing itself.
"""
