"""A tool that controls skills: a name, a schema, and the session's own operation behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping


class SkillTool:
    """One tool of a dialect. What it does is the session's; what it says and how it answers is the dialect's."""

    def __init__(
        self,
        name: str,
        describe: Callable[[], str],
        parameters: Mapping[str, Any],
        call: Callable[[Mapping[str, Any]], Awaitable[Any]],
        *,
        timeout: float | None,
        is_control: bool = True,
        tags: tuple[str, ...] = (),
    ) -> None:
        self._describe = describe
        self._call = call
        self.name = name
        self.parameters = parameters
        self.timeout = timeout
        self.is_control = is_control
        self.tags = tags
        """What kind of tool it is: `exec` for one that runs something."""

    def __repr__(self) -> str:
        return f"<SkillTool {self.name}>"

    @property
    def description(self) -> str:
        """What it does, for a model; a catalog in it is always the current one."""
        return self._describe()

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Do it."""
        return await self._call(arguments)


def schema(required: tuple[str, ...] = (), **properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of a flat object, which every provider takes.

    >>> schema(("path",), path=text("A path."))["required"]
    ['path']
    """
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def text(description: str, **more: Any) -> dict[str, Any]:
    """The schema of a text."""
    return {"type": "string", "description": description, **more}


def choice(description: str, *values: str) -> dict[str, Any]:
    """The schema of one of a few texts."""
    return {"type": "string", "enum": list(values), "description": description}


def texts(description: str) -> dict[str, Any]:
    """The schema of a list of texts."""
    return {"type": "array", "items": {"type": "string"}, "description": description}


def number(description: str) -> dict[str, Any]:
    """The schema of a whole number from 1."""
    return {"type": "integer", "minimum": 1, "description": description}


def flag(description: str) -> dict[str, Any]:
    """The schema of yes or no."""
    return {"type": "boolean", "description": description}
