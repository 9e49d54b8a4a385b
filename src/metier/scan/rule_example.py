"""Examples of rules as skills: a page of text, or files by path."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from metier.skill import MemoryPackage
from metier.skill.package import EXCLUDED

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEAD = "---\nname: helper\ndescription: Helps.\n---\n\n"
_BYTES = "base64:"


class ExamplePackage(MemoryPackage):
    """The files of an example; those that a package on disk would leave out are kept apart, as they are there."""

    def __init__(self, files: Mapping[str, str | bytes]) -> None:
        beside = [path for path in files if not EXCLUDED.isdisjoint(path.split("/"))]
        super().__init__({path: content for path, content in files.items() if path not in beside})
        self.beside = tuple(beside)


def package_of(example: str | Mapping[str, str]) -> ExamplePackage:
    """The skill of an example; frontmatter is added where there is none. `base64:` begins a file that is no text.

    >>> package_of({"x.bin": "base64:AAE="}).read("x.bin")
    b'\\x00\\x01'
    """
    files = dict(example) if not isinstance(example, str) else {"SKILL.md": example}
    page = files.get("SKILL.md", "Do it.")
    return ExamplePackage(
        {
            **{path: _content(text) for path, text in files.items()},
            "SKILL.md": page if page.startswith("---") else f"{_HEAD}{page}\n",
        }
    )


def _content(text: str) -> str | bytes:
    return base64.b64decode(text.removeprefix(_BYTES)) if text.startswith(_BYTES) else text
