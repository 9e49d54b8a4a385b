"""The `runtime` dialect: `skills_load`, `skills_unload`, `skills_read`, `skills_run`, `skills_search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier.dialect.dialects import SkillTool, choice, flag, has_skills, number, schema, text, texts
from metier.dialect.operations import Operations, outcome_result, resource_result
from metier.errors import InvalidArgument
from metier.session import RUNTIME, escape_tags
from metier.session.content import attribute
from metier.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metier import Session
    from metier.dialect.operations import Spawn
    from metier.session import Resource

_SKILL = text("The name of a loaded skill; the one that was loaded last when left out.")

LOAD = schema(
    ("skills",),
    skills=texts("Names of skills."),
    mode=choice("replace: instead of the loaded ones (default). add: beside them.", "replace", "add"),
    args=text("What the skill is to work on, if its instructions ask for arguments."),
)
UNLOAD = schema((), skills=texts("Names of loaded skills."), all=flag("Unload every skill."))
READ = schema(
    ("path",),
    path=text("The path of the file, relative to the skill's root."),
    skill=_SKILL,
    encoding=choice("text (default), or base64 for what is no text.", "text", "base64"),
    start=number("The first line to read, from 1."),
    end=number("The line after the last one to read."),
)
RUN = schema(
    ("script",),
    script=text("The path of the script, relative to the skill's root, such as scripts/check.py."),
    args=texts("Its arguments, one element each."),
    skill=_SKILL,
    env=texts('Variables for it, each as "NAME=value": those it declares, or names that begin with INPUT_ or ARG_.'),
    folder=text("The working folder, relative to the workspace."),
    seconds=number("How long it may take, at most 600; 30 when left out."),
)
SEARCH = schema(
    ("query",),
    query=text("What the skill should be good for."),
    k=number("How many on a page, at most 50; 10 when left out."),
    page=number("Which page; 1 when left out."),
)


class RuntimeDialect:
    """Sessions as a model drives them: load, unload, read, run, search.

    >>> RuntimeDialect().words.search
    'skills_search'
    """

    name = "runtime"
    words = RUNTIME

    def instructions(self, session: Session, prompt: str | None = None) -> str:
        """Rules, catalog and active skills."""
        return session.prompt.instructions(prompt, words=self.words)

    def tools(self, session: Session, spawn: Spawn | None = None) -> list[SkillTool]:
        """The five tools; none where there are no skills."""
        if not has_skills(session):
            return []
        do = _Calls(Operations(session, self.words, spawn))
        load = "Load skills: returns their instructions, which you then follow."
        read = "Read a reference, template or other file of a loaded skill."
        run = "Run a script of a loaded skill and get what it prints."
        return [
            SkillTool("skills_load", load, LOAD, do.load),
            SkillTool("skills_unload", "Unload skills that are no longer needed.", UNLOAD, do.unload),
            SkillTool("skills_read", read, READ, do.read),
            SkillTool("skills_run", run, RUN, do.run, tags=("exec",)),
            SkillTool("skills_search", "Find skills that fit a task, the best first.", SEARCH, do.search),
        ]


class _Calls:
    def __init__(self, operations: Operations) -> None:
        self._do = operations

    async def load(self, arguments: Mapping[str, Any]) -> ToolResult:
        loaded = await self._do.load(arguments["skills"], arguments.get("mode", "replace"), arguments.get("args", ""))
        if loaded.output is not None:
            return loaded.result(_element("skill_output", loaded.output, skill=arguments["skills"][0]))
        return loaded.result(loaded.content, _active(loaded.receipt.active))

    async def unload(self, arguments: Mapping[str, Any]) -> ToolResult:
        receipt = await self._do.unload(arguments.get("skills", ()), arguments.get("all", False))
        return ToolResult(success=True, result=_active(receipt.active), data={"receipt": receipt.as_dict()})

    async def read(self, arguments: Mapping[str, Any]) -> ToolResult:
        given = {key: arguments[key] for key in ("encoding", "start", "end") if key in arguments}
        resource = await self._do.read(arguments["path"], arguments.get("skill"), **given)
        shown = _element("skill_resource", resource.content, skill=resource.skill, path=resource.path)
        return resource_result(resource, "\n".join((shown, *(f"[{note}]" for note in _notes(resource)))))

    async def run(self, arguments: Mapping[str, Any]) -> ToolResult:
        outcome = await self._do.run(
            arguments["script"],
            arguments.get("args", ()),
            arguments.get("skill"),
            env=_variables(arguments.get("env", ())),
            folder=arguments.get("folder"),
            seconds=arguments.get("seconds"),
        )
        return outcome_result(outcome, path=arguments["script"])

    async def search(self, arguments: Mapping[str, Any]) -> ToolResult:
        found, size = self._do.found(arguments["query"]), min(arguments.get("k", 10), 50)
        return self._do.page(found, arguments.get("page", 1), size=size)


def _element(tag: str, text: str, **attributes: str) -> str:
    """Text of others inside an element that it cannot end."""
    head = "".join(f' {name}="{attribute(value)}"' for name, value in attributes.items())
    return f"<{tag}{head}>\n{escape_tags(text)}\n</{tag}>"


def _notes(resource: Resource) -> Iterator[str]:
    if resource.encoding == "base64":
        yield f"base64 of {resource.size:,} bytes"
    elif escape_tags(resource.content) != resource.content:
        yield "tags in it begin with &lt; here, and hidden characters are escapes; base64 gives all as it is"
    if resource.truncated:
        yield f"truncated: the file has {resource.size:,} bytes; ask for lines with start and end"
    if resource.is_stale:
        yield "the skill's files have changed since it was loaded; this is what was loaded"


def _active(items: Any) -> str:
    names = ", ".join(item.name for item in items)
    return f"Active skills, the last one loaded last: {names}." if names else "No skill is active."


def _variables(pairs: Any) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidArgument(f"{pair[:40]!r} is no variable.", hint='Write "NAME=value".')
        found[name] = value
    return found
