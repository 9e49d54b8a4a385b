"""A server of MCP that agrees to all that Claude Code asks: the person at the desk, for tests without one."""

from __future__ import annotations

import json
from typing import Any

from mcp.server import MCPServer

server = MCPServer("desk")


@server.tool(structured_output=False)
def agree(tool_name: str, input: dict[str, Any], tool_use_id: str = "") -> str:  # noqa: A002
    """Say yes to a call."""
    return json.dumps({"behavior": "allow", "updatedInput": input})


if __name__ == "__main__":
    server.run()
