"""The section of the README about the server, as somebody types it into two terminals."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.serve.machine import Machine, Server

README = Path(__file__).parents[2] / "README.md"
URL = "http://127.0.0.1:8400"


def terminals() -> list[list[str]]:
    """The commands of each block of the section, without the ones that install, serve and set the token."""
    section = README.read_text("utf-8").partition("## One server for a company\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    lines = [[line.partition("  #")[0].strip() for line in block.splitlines()] for block in blocks]
    return [[line for line in block if re.match(r"metier (?!serve)", line)] for block in lines]


def type_in(machine: Machine, server: Server, lines: list[str]) -> str:
    """Type commands; returns what the last one printed."""
    printed = ""
    for line in lines:
        printed = str(machine.metier(*shlex.split(line.replace(URL, server.url))[1:]))
    return printed


@pytest.mark.slow
@pytest.mark.parametrize("is_same", [True, False], ids=["the same machine", "another machine"])
def test_a_second_terminal_sees_what_the_first_deployed(tmp_path: Path, is_same: bool) -> None:
    first, second = terminals()
    host = Machine(tmp_path / "host")
    with host.server() as server:
        host.environ["METIER_API_TOKEN"] = server.token
        type_in(host, server, first)
        other = host if is_same else Machine(tmp_path / "other", METIER_API_TOKEN=server.token)
        assert re.search(r"^refunds\s+enterprise", type_in(other, server, second), re.MULTILINE)
