"""FastMCP's skills provider over stdio, with its resources as tools too: run by an interpreter that has `fastmcp`."""

from __future__ import annotations

import sys
from importlib import import_module


def main() -> None:
    server = import_module("fastmcp").FastMCP("skills")
    provider = import_module("fastmcp.server.providers.skills").SkillsDirectoryProvider(sys.argv[1])
    server.add_provider(provider)
    server.add_transform(import_module("fastmcp.server.transforms").ResourcesAsTools(server))
    server.run(transport="stdio", show_banner=False)


if __name__ == "__main__":
    main()
