"""Hints: the next step after an error or a refusal, worded for its reader.

Three kinds of readers meet the same error: a program (and whoever writes it), a person at a terminal, and a model,
whose tools have other names in each dialect. A hint that is right for all of them is plain text. One that depends on
the reader is a `Hint`: as a string it is for programs; `for_person` and `for_model` word it for the others.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

USES = frozenset({"load", "unload", "read", "run", "search", "execute"})
"""The uses of tools that a text for models may name in braces; a dialect says which tool that is, if it has one."""
BUILTIN = frozenset({"Glob", "Write"})
"""The tools of ours that it may name so too, which an agent has or has not."""
_TOOLS = USES | BUILTIN


class _Part(NamedTuple):
    program: str
    person: str
    model: tuple[str, ...]
    values: Mapping[str, Any]


class Hint(str):
    """A hint with a text for each kind of reader. The string itself is the text for programs.

    `person` is the text for a person at a terminal, where it differs. `model` is the text for models, or several: the
    first that names no tool which the dialect lacks is taken. Texts are templates of our own; whatever comes from
    elsewhere is one of the `values` and never read as a template.

    >>> hint = Hint("Call session.load({name!r}).", person="Load {name}.", model="Load it with {load}.", name="pdf")
    >>> str(hint), for_person(hint), for_model(hint, {"load": "get_skill"})
    ("Call session.load('pdf').", 'Load pdf.', 'Load it with get_skill.')
    """

    __slots__ = ("_parts",)
    _parts: tuple[_Part, ...]

    def __new__(
        cls, program: str, *, person: str | None = None, model: str | tuple[str, ...] | None = None, **values: Any
    ) -> Self:
        """Make a hint; `person` is `program` where it is left out, and `model` is `person`."""
        person = program if person is None else person
        texts = (person,) if model is None else (model,) if isinstance(model, str) else model
        return cls._of((_Part(program, person, texts, values),))

    @classmethod
    def _of(cls, parts: tuple[_Part, ...]) -> Self:
        made = super().__new__(cls, _joined(part.program.format_map(part.values) for part in parts))
        made._parts = parts
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return (Hint._of, (self._parts,))

    def __repr__(self) -> str:
        return f"Hint({str(self)!r})"

    def mapped(self, change: Callable[[str], str]) -> Hint:
        """The same hint with every value changed, such as one without secrets; its own words stay as they are."""
        return Hint._of(
            tuple(
                part._replace(
                    values={name: change(one) if isinstance(one, str) else one for name, one in part.values.items()}
                )
                for part in self._parts
            )
        )


def for_person(hint: str) -> str:
    """A hint as a person at a terminal reads it.

    >>> for_person("Check the path.")
    'Check the path.'
    """
    if not isinstance(hint, Hint):
        return hint
    return _joined(part.person.format_map(part.values) for part in hint._parts)


def for_model(hint: str, tools: Mapping[str, str]) -> str:
    """A hint as a model reads it which has these tools, by what they are used for.

    >>> for_model(find_skill(12), {"search": "list_skills"}), for_model(find_skill(12), {})
    ('Find one that fits with list_skills.', 'Use one of the skills that are listed.')
    """
    if not isinstance(hint, Hint):
        return hint
    return _joined(_for_model(part, tools) for part in hint._parts)


def for_anybody(message: object, hint: str) -> str:
    """A message and its hint in a text that anybody may come to read, such as what a command writes."""
    return _joined((str(message), for_model(hint, {})))


def joined(*hints: str) -> Hint:
    """Several hints as one.

    >>> for_model(joined("Wait.", for_people("Run `metier doctor`.")), {})
    'Wait. Tell the user.'
    """
    parts: list[_Part] = []
    for hint in hints:
        if isinstance(hint, Hint):
            parts += hint._parts
        elif hint:
            parts.append(_Part("{text}", "{text}", ("{text}",), {"text": hint}))
    return Hint._of(tuple(parts))


def _for_model(part: _Part, tools: Mapping[str, str]) -> str:
    from string import Formatter

    for text in part.model:
        wanted = {field for _, field, _, _ in Formatter().parse(text) if field in _TOOLS}
        if wanted <= tools.keys():
            return text.format_map({**part.values, **{use: tools[use] for use in wanted}})
    return ""


def _joined(texts: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(text for text in texts if text))


WITHOUT_IT = "Do the task without it, or ask the user."
"""The way on for a model that is refused something for good."""

ASK_TO_TRUST = "Ask the user to look at it, and to trust the project."
"""The way on for a model that wants what comes from a project which nobody vouches for."""


def for_people(text: str, *, model: str | tuple[str, ...] = "Tell the user.", **values: Any) -> Hint:
    """A hint that only people can follow, such as a command; a model can but tell them.

    >>> for_model(for_people("`metier store check` says what is damaged."), {"load": "get_skill"})
    'Tell the user.'
    """
    return Hint(text, model=model, **values)


def find_skill(count: int | None = None) -> Hint:
    """Look for the name of a skill; `count` is how many there are, where that may be told."""
    if count == 0:
        return Hint(
            "There are no skills here; library.places are the folders that are looked into.",
            person="There are no skills here; `metier doctor` shows where they are looked for.",
            model="There are no skills here: do the task without one.",
        )
    return Hint(
        "library.entries() has all{of}.",
        person="`metier list` shows all{of}.",
        model=("Find one that fits with {search}.", "Use one of the skills that are listed."),
        of="" if count is None else f" {count:,}",
    )


def load_skill(name: str = "") -> Hint:
    """Load a skill before it is used; without a name, any."""
    if not name:
        return Hint("Call session.load(...) first.", person="Load one first.", model="Get one first with {load}.")
    return Hint(
        "Call session.load({name!r}) first.",
        person="Load {name} first.",
        model="Get {name!r} first with {load}.",
        name=name,
    )


def run_script(skill: str, script: str) -> Hint:
    """Run a script instead of reading it."""
    return Hint(
        "Run it with session.run({script!r}, skill={skill!r}).",
        person="Run it with `metier run {skill} {script}`.",
        model=(
            "Run it with {execute} and the path of {script}.",
            "Run it with {run}: skill {skill!r}, script {script!r}.",
            "Ask the user to run {script}.",
        ),
        skill=skill,
        script=script,
    )


def list_files(which: str = "that exist") -> Hint:
    """List files before one is named."""
    return Hint(
        "List the files {which}.",
        model=("{Glob} lists the files {which}.", "List the files {which}."),
        which=which,
    )


def invoke_skill(name: str) -> Hint:
    """Use a skill that is for people to invoke."""
    return Hint(
        "session.invoke({text!r}) is how a person uses it.",
        person="Type {text} where you talk with the agent.",
        model="Ask the user to type {text}.",
        text=f"/{name}",
    )


def install(package: str) -> Hint:
    """Install a part that is missing."""
    return for_people(
        "{command}", model="Tell the user that a part is not installed.", command=install_command(package)
    )


def install_command(package: str) -> str:
    """The command that installs a package of ours where this program runs: pip reaches no environment of pipx or uv."""
    prefix = sys.prefix.replace("\\", "/")
    tool = "pipx install --force" if "/pipx/venvs/" in prefix else "uv tool install" if "/uv/tools/" in prefix else ""
    return f"{tool or 'pip install'} '{package}'"


HOW_TO_ISOLATE = (
    "On Linux, allow user namespaces or Landlock, or install bubblewrap; shell scripts alone can run in the virtual "
    "shell: pip install 'metier[shell]'. `metier doctor` shows what this machine can enforce."
)
TELL_OF_NO_ISOLATION = "Tell the user that nothing here can isolate it."
NO_ISOLATION = for_people(HOW_TO_ISOLATE, model=TELL_OF_NO_ISOLATION)
"""The hint of every error about isolation that this machine cannot give."""
