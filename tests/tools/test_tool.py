"""Tools by name."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from metier.errors import InvalidArgument
from metier.tools import FunctionTool, Tool, ToolRegistry


def named(name: str) -> FunctionTool:
    return FunctionTool(lambda: name, name=name, description="Says its name.")


def test_tools_are_found_by_name_and_listed_in_the_order_they_came() -> None:
    registry = ToolRegistry([named("b"), named("a")])
    registry.add(named("c"))
    assert registry.names() == ("b", "a", "c")
    assert [tool.name for tool in registry] == ["b", "a", "c"]
    assert len(registry) == 3
    assert "a" in registry
    tool = registry.get("a")
    assert tool is not None
    assert tool.name == "a"


@pytest.mark.each("name", ["A", "", "a ", "x", "\0"])
def test_only_the_exact_name_is_found(name: str) -> None:
    assert ToolRegistry([named("a")]).get(name) is None


def test_the_version_changes_when_a_tool_comes_or_goes() -> None:
    registry = ToolRegistry([named("a")])
    versions = [registry.version]
    registry.add(named("b"))
    versions.append(registry.version)
    registry.remove("a")
    versions.append(registry.version)
    assert len(set(versions)) == 3
    assert registry.names() == ("b",)


def test_a_name_is_given_once() -> None:
    registry = ToolRegistry([named("a")])
    with pytest.raises(InvalidArgument, match="a tool named 'a' already"):
        registry.add(named("a"))
    with pytest.raises(InvalidArgument, match="no tool named 'b'"):
        registry.remove("b")
    assert registry.version == 1


class Plain:
    """A tool of somebody else's making."""

    description = "Does it."
    timeout = None
    is_control = False

    def __init__(self, name: Any = "plain", parameters: Any = None) -> None:
        self.name = name
        self.parameters = parameters or {"type": "object"}

    async def call(self, arguments: Any) -> Any:
        return arguments


def test_anything_that_is_a_tool_can_be_added() -> None:
    assert isinstance(Plain(), Tool)
    assert ToolRegistry([Plain()]).names() == ("plain",)


@pytest.mark.each("name", ["", "a b", "a.b", "é", "x" * 65, "a\n", None, 3])
def test_a_name_that_models_do_not_take_is_refused(name: Any) -> None:
    with pytest.raises(InvalidArgument, match="no name for a tool"):
        ToolRegistry([Plain(name)])


@pytest.mark.each("parameters", [[1], {"type": "string"}, {"type": "object", "properties": 3}])
def test_a_tool_without_a_schema_is_refused(parameters: Any) -> None:
    with pytest.raises(InvalidArgument):
        ToolRegistry([Plain(parameters=parameters)])


def test_what_is_no_tool_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="is no tool"):
        ToolRegistry([print])  # type: ignore[list-item]


def test_threads_add_and_list_at_the_same_time() -> None:
    registry = ToolRegistry()

    def add(start: int) -> None:
        for number in range(start, start + 25):
            registry.add(named(f"t{number}"))
            assert list(registry)

    threads = [threading.Thread(target=add, args=(start,)) for start in range(0, 100, 25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(registry) == registry.version == 100
