"""An MCP server that plays the tools of a suite over its standard streams: `python -m metier.proof.mock_server FILE`.

It has one JSON message a line, as MCP has it, and no other part of the protocol than tools.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier._json_object import parse_object
from metier._version import __version__
from metier.proof.mocks import read_server

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from metier.proof.mocks import MockTool

_MAX_LINE = 4 * 1024 * 1024
_PROTOCOL = "2025-06-18"


def serve(tools: Mapping[str, MockTool], source: BinaryIO, sink: BinaryIO) -> None:
    """Answer messages until there are no more."""
    while line := source.readline(_MAX_LINE + 1):
        reply = _reply_to(tools, line)
        if reply is not None:
            sink.write(json.dumps(reply).encode() + b"\n")
            sink.flush()


def _reply_to(tools: Mapping[str, MockTool], line: bytes) -> dict[str, Any] | None:
    try:
        message = parse_object(line, most=_MAX_LINE)
    except ValueError as error:
        return _error(None, -32700, f"The message cannot be used: {error}.")
    if "id" not in message or "method" not in message:
        return None  # a notification, or an answer to nothing that was asked
    method, parameters = message["method"], message.get("params")
    parameters = parameters if isinstance(parameters, dict) else {}
    if method == "initialize":
        result = _greeting(parameters)
    elif method == "ping":
        result = {}
    elif method == "tools/list":
        result = {"tools": [_description(tool) for tool in tools.values()]}
    elif method == "tools/call" and isinstance(name := parameters.get("name"), str) and name in tools:
        result = _result(tools[name], parameters.get("arguments"))
    else:
        return _error(message["id"], -32601 if method != "tools/call" else -32602, "There is nothing of that name.")
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _greeting(parameters: Mapping[str, Any]) -> dict[str, Any]:
    version = parameters.get("protocolVersion")
    return {
        "protocolVersion": version if isinstance(version, str) else _PROTOCOL,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "metier-mock", "version": __version__},
    }


def _description(tool: MockTool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "inputSchema": dict(tool.parameters)}


def _result(tool: MockTool, arguments: object) -> dict[str, Any]:
    found = tool.answer(arguments if isinstance(arguments, dict) else {})
    value = found.result if found.success else found.error
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}], "isError": not found.success}


def _error(identifier: object, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identifier, "error": {"code": code, "message": message}}


def main(arguments: list[str]) -> int:
    """Serve the tools of the file that is named."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m metier.proof.mock_server FILE\n")
        return 2
    tools = {tool.name: tool for tool in read_server(Path(arguments[0]))}
    serve(tools, sys.stdin.buffer, sys.stdout.buffer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
