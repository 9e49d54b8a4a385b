"""The least that serves skills with the official SDK: a file is read and sent, and nothing else is done."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
    Tool,
)

ROOT = Path(sys.argv[1])
READ = Tool(name="read", description="Read a skill.", input_schema={"type": "object"})


async def tools(ctx: Any, params: Any) -> ListToolsResult:
    return ListToolsResult(tools=[READ])


async def call(ctx: Any, params: CallToolRequestParams) -> CallToolResult:
    text = (ROOT / (params.arguments or {})["name"] / "SKILL.md").read_text()
    return CallToolResult(content=[TextContent(text=text)])


async def read(ctx: Any, params: ReadResourceRequestParams) -> ReadResourceResult:
    text = (ROOT / str(params.uri).removeprefix("skill://")).read_text()
    return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, text=text)])


async def main() -> None:
    server = Server("bare", on_list_tools=tools, on_call_tool=call, on_read_resource=read)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
