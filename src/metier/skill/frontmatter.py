"""Frontmatter: the bytes of a SKILL.md become plain data that the index cache can keep."""

from __future__ import annotations

import codecs
from typing import Any, NamedTuple

from metier._lazy import pattern
from metier.skill.diagnostic import Diagnostic, as_text
from metier.skill.fast_yaml import MAX_BLOCK_BYTES, read_block
from metier.skill.names import usable_name


class Split(NamedTuple):
    """A SKILL.md cut in two.

    `block` is None when there is no frontmatter at all, which is not the same as an empty one.
    """

    block: str | None
    """The YAML between the delimiters, ending in a line feed when it is not empty."""
    block_line: int
    """The line of the file that the block's first line is, counted from 1."""
    body: str
    """The text that follows, untrimmed."""
    body_line: int
    """The line of the file that the body's first line is."""
    notes: tuple[Diagnostic, ...]


def split(text: str) -> Split:
    """Cut decoded text into frontmatter and body.

    >>> split("---\\nname: a\\n---\\nDo it.").block
    'name: a\\n'
    >>> split("# Just text").block is None
    True
    """
    if text.startswith("---\n"):
        end = text.find("\n---", 3)
        if end >= 0 and text[end + 4 : end + 5] == "\n" and text.find("\n...", 3, end) < 0:
            block = text[4 : end + 1]
            return Split(block, 2, text[end + 5 :], block.count("\n") + 3, ())
    from metier.skill.lenient_frontmatter import split_oddly

    return split_oddly(text.split("\n"))


# Tab, line feed and carriage return are text; the other C0 and C1 characters and DEL can only hide something.
_C0 = bytes({*range(32), 0x7F} - {0x09, 0x0A, 0x0D})
_CONTROL = pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")


def decode(data: bytes) -> tuple[str, tuple[Diagnostic, ...]]:
    """Read bytes as text, with a diagnostic for everything that had to be assumed.

    >>> decode(b"\\xef\\xbb\\xbfhello\\r\\n")
    ('hello\\n', (Diagnostic(code='bom', line=1, values=()),))
    """
    try:
        text = data.decode()
        notes: tuple[Diagnostic, ...] = ()
    except UnicodeDecodeError as error:
        text, notes = _decode_oddly(data, error)
    if text.startswith("\ufeff"):
        text = text[1:]
        notes = (*notes, Diagnostic("bom", 1))
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        text, found = drop_control(text)
        notes += found
    return text, notes


def drop_control(text: str) -> tuple[str, tuple[Diagnostic, ...]]:
    """Text without control characters, and a diagnostic when there were any."""
    # Searching text character by character takes longer than all the rest of reading a file, so look at bytes first.
    if text.isascii():
        data = text.encode()
        if len(data.translate(None, _C0)) == len(data):
            return text, ()
    first = _CONTROL.search(text)
    if first is None:
        return text, ()
    clean, count = _CONTROL.subn("", text)
    line = text.count("\n", 0, first.start()) + 1
    name = "a NUL byte" if first[0] == "\0" else f"U+{ord(first[0]):04X}"
    return clean, (Diagnostic("control-characters", line, (str(count), name)),)


def _decode_oddly(data: bytes, error: UnicodeDecodeError) -> tuple[str, tuple[Diagnostic, ...]]:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace"), (Diagnostic("utf16", 1),)
    line = data.count(b"\n", 0, error.start) + 1
    replaced = data.decode(errors="replace")
    bad = replaced.count("\ufffd")
    if bad <= 8 or bad * 100 < len(data):
        text, how = replaced, "UTF-8 with the bad bytes replaced"
    else:
        try:
            text, how = data.decode("gb18030"), "GB 18030"
        except UnicodeDecodeError:
            text, how = data.decode("cp1252", errors="replace"), "Windows-1252"
    return text, (Diagnostic("invalid-utf8", line, (str(error.start), how)),)


def estimate_tokens(text: str) -> int:
    """About how many tokens a model would count; within a fifth of o200k on English Markdown.

    >>> estimate_tokens("Fill the form, then check every field twice.")
    8
    """
    return tokens_of(len(text), len(text.encode(errors="replace")))


def tokens_of(characters: int, size: int) -> int:
    """The same from lengths alone: bytes beyond one a character come from scripts with a token for most characters."""
    wide = (size - characters) / 2
    return round((characters - wide) / 5.2 + wide * 0.8)


MAX_SKILL_BYTES = 2 * 1024 * 1024
MAX_DESCRIPTION = 1_024

OTHER_DESCRIPTIONS = ("when_to_use", "when-to-use", "summary", "short_description", "short-description")
"""Fields in which a description may be found when there is none of its own."""


class Frontmatter(NamedTuple):
    """The fields of a SKILL.md as plain data, with facts about its body: everything but the instructions themselves."""

    mapping: dict[str, Any]
    lines: list[int]
    notes: tuple[Diagnostic, ...]
    body_lines: int
    body_tokens: int
    heading: str
    derived: str
    """A description made of the body, filled only when the frontmatter has none of its own."""


class UnparsedFrontmatter(NamedTuple):
    """A SKILL.md of which only the name was read so far; the frontmatter can be made of it at any time."""

    name: str
    block: str
    body_lines: int
    body_tokens: int
    heading: str


def read_frontmatter(data: bytes) -> Frontmatter:
    """Take a SKILL.md apart."""
    text, notes = decode(data)
    return frontmatter_of(text, notes)[0]


def read_name_only(data: bytes, folder: str = "") -> UnparsedFrontmatter | None:
    """The name of a SKILL.md without reading its YAML, when it is certain; None when the whole must be read.

    Certain means: the first field is a plain `name` and there is no second one, or the word does not occur at all;
    there is a description that cannot be empty; and there is no scope or priority. Then every way of reading the
    block, repairs included, gives this name, and the rest need not be known before somebody asks. Five of six real
    files are like this.

    >>> read_name_only(b"---\\nname: pdf\\ndescription: Fill forms.\\n---\\nOpen it.").name
    'pdf'
    """
    end = _plain_end(data)
    # Of a longer block only the beginning is read, which may lack the description.
    if not 0 <= end <= MAX_BLOCK_BYTES:
        return None
    lower = data[4:end].lower()
    # Keys may be spelled in ways that only YAML understands: quoted, escaped, tagged, complex.
    if b"\\" in lower or _ODD_KEY.search(lower):
        return None
    if b"scope" in lower or b"priority" in lower or not _describes(data, end):
        return None
    if b"name" not in lower:
        name = usable_name("", folder)
    elif data.startswith(b"name: ", 4) and data.find(b"\nname", 10, end) < 0:
        eol = data.find(b"\n", 10)
        written = data[10:eol]
        if written[:1] == b'"' and written[-1:] == b'"':
            written = written[1:-1]
        if not _PLAIN_NAME.fullmatch(written) or data[eol + 1] == _BLANK:
            return None
        name = usable_name(written.decode(), folder)
    else:
        return None
    try:
        return UnparsedFrontmatter(name, data[4 : end + 1].decode(), *_body_facts(data[end + 4 :]))
    except UnicodeDecodeError:
        return None


def parse_frontmatter(header: UnparsedFrontmatter) -> Frontmatter:
    """The frontmatter that reading the whole file would have given; raises ValueError when the whole file is needed."""
    mapping, lines, notes = read_block(header.block, 2)
    if notes and any(note.code == "yaml-unreadable" for note in notes):
        raise ValueError("the block may end elsewhere")
    return Frontmatter(mapping, lines, notes, header.body_lines, header.body_tokens, header.heading, "")


_PLAIN_NAME = pattern(rb"[A-Za-z0-9](?:[A-Za-z0-9 _.&+/()-]*[A-Za-z0-9_.)-])?")
_CJK = frozenset(bytes([lead]) for lead in range(0xE4, 0xEE))  # first bytes of letters only, in UTF-8
_ODD_KEY = pattern(rb"\n[^a-z \-\n]")
_BLANK = 0x20
_DESCRIPTION = b"\ndescription: "


def _describes(data: bytes, end: int) -> bool:
    """Whether there is a description that is not empty however the YAML is read."""
    at = data.find(_DESCRIPTION, 3, end)
    if at < 0 or data.find(b"\ndescription", at + 1, end) >= 0:
        return False
    value = data[at + len(_DESCRIPTION) : at + len(_DESCRIPTION) + 2]
    if value[:1] in (b'"', b"'"):
        return value[1:].isalnum() or value[1:] in _CJK
    if value[:1] in (b">", b"|"):
        below = data.find(b"\n", at + 1)
        return data[below + 1] == _BLANK and data[below + 1 : below + 4].strip(b" ").isalnum()
    return value[:1].isalnum() or value[:1] in _CJK


def _plain_end(data: bytes) -> int:
    """The end of the block in a file with nothing odd about its delimiters or bytes; -1 for any other file."""
    if not data.startswith(b"---\n") or b"\r" in data or b"\0" in data:
        return -1
    end = data.find(b"\n---", 3)
    if end < 0 or data[end + 4 : end + 5] != b"\n" or data.find(b"\n...", 3, end) >= 0:
        return -1
    return end


def _body_facts(body: bytes) -> tuple[int, int, str]:
    """Lines, tokens and first heading of a body behind a line feed; bytes are counted much faster than text."""
    size = characters = len(body) - 1
    if not body.isascii():
        characters = len(body.decode()) - 1
    trimmed = body.strip()
    lines = trimmed.count(b"\n") + 1 if trimmed else 0
    heading = ""
    at = body.find(b"\n# ")
    # In a fence `# ` begins a comment, not a heading.
    if at >= 0 and body.find(b"\n```", 0, at) < 0:
        end = body.find(b"\n", at + 3)
        heading = body[at + 3 : end if end >= 0 else len(body)].decode().strip(" \t#")[:200]
        heading = heading if heading.isprintable() else drop_control(heading)[0]
    return lines, tokens_of(characters, size), heading


def frontmatter_of(text: str, notes: tuple[Diagnostic, ...]) -> tuple[Frontmatter, Split]:
    """The frontmatter of decoded text, and where it was cut."""
    if not text or text.isspace():
        empty = Split(None, 1, "", 1, ())
        return Frontmatter({}, [], (*notes, Diagnostic("file-empty", 1)), 0, 0, "", ""), empty
    cut = split(text)
    block = cut.block
    notes += cut.notes
    mapping: dict[str, Any] = {}
    lines: list[int] = []
    if block is None:
        notes += (Diagnostic("frontmatter-missing", 1),)
    elif block:
        mapping, lines, found = read_block(block, cut.block_line)
        if found:
            if any(note.code == "yaml-unreadable" for note in found):
                from metier.skill.lenient_frontmatter import split_at_first_heading

                other = split_at_first_heading(text)
                if other is not None and other.block:
                    reading = read_block(other.block, other.block_line)
                    # A stray line in the middle ends the block there too; that reading must not lose a description.
                    if _has_description(reading.mapping) or not _has_description(mapping):
                        cut = other
                        mapping, lines, found = reading.mapping, reading.lines, other.notes + reading.notes
            notes += found
            if not mapping and found[-1].code == "frontmatter-not-a-mapping":
                cut = cut._replace(body=f"{block}\n{cut.body}", body_line=cut.block_line)
    body = cut.body
    body_lines, tokens, heading = _body_facts(f"\n{body}".encode(errors="replace"))
    derived = ""
    if not _is_filled(mapping.get("description")):
        derived, note = _derived_description(mapping, lines, body, heading, cut.body_line)
        derived = drop_control(derived)[0].strip()
        if note is not None and note.code == "description-missing" and not derived:
            note = Diagnostic("nothing-to-load", 1)
        if note is not None:
            notes += (note,)
    return Frontmatter(mapping, lines, notes, body_lines, tokens, heading, derived), cut


def _derived_description(
    mapping: dict[str, Any], lines: list[int], body: str, heading: str, body_line: int
) -> tuple[str, Diagnostic | None]:
    """A description for a skill that has none, and the diagnostic to go with it."""
    if _has_description(mapping):
        return "", None
    paragraph = first_paragraph(body)
    if paragraph:
        return paragraph, Diagnostic("description-missing", body_line, ("paragraph",))
    if heading:
        return heading, Diagnostic("description-missing", body_line, ("heading",))
    if body.strip():
        return shorten(" ".join(body.split()), MAX_DESCRIPTION), Diagnostic("description-missing", body_line, ("text",))
    return "", Diagnostic("nothing-to-load", lines[0] if lines else 1)


def _has_description(mapping: dict[str, Any]) -> bool:
    """Whether `interpret` will find a description without the body."""
    for key, value in mapping.items():
        if key.strip().lower() == "description" and as_text(value).strip():
            return True
    inner = mapping.get("metadata")
    if isinstance(inner, dict) and _is_filled(inner.get("description")):
        return True
    return any(_is_filled(mapping.get(key)) for key in OTHER_DESCRIPTIONS)


def _is_filled(value: Any) -> bool:
    return type(value) is str and bool(value) and not value.isspace()


_PROSE_STOP = pattern(r"\s*(?:#{1,6}(?:\s|$)|```|~~~|\||!\[|\[!\[|<|-{3,}\s*$|={3,}\s*$|\*{3,}\s*$)")
_MARKUP = pattern(r"(?<!\w)(?:\*\*|__|\*|_)(?=\S)|(?<=\S)(?:\*\*|__|\*|_)(?!\w)|^>\s*|^[-*+]\s+|^\d+[.)]\s+")
_LINK = pattern(r"\[([^\]\n]{1,200})\]\([^)\n]{0,500}\)")


def first_paragraph(body: str) -> str:
    """The first prose of a body, as one line of at most 1,024 characters.

    >>> first_paragraph("# Title\\n\\nDeploys **safely** to\\nproduction.\\n\\nMore.")
    'Deploys safely to production.'
    """
    found: list[str] = []
    fenced = False
    length = 0
    for line in body[:16_000].split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            if found:
                break
            fenced = not fenced
        elif fenced:
            continue
        elif not line.strip() or _PROSE_STOP.match(line):
            if found:
                break
        else:
            found.append(_LINK.sub(r"\1", _MARKUP.sub("", line.strip())))
            length += len(line)
            if length > MAX_DESCRIPTION:
                break
    return shorten(" ".join(" ".join(found).split()), MAX_DESCRIPTION)


def shorten(text: str, limit: int) -> str:
    """Text of at most `limit` characters, cut at a word, with an ellipsis when something is missing.

    >>> shorten("one two three", 9)
    'one two…'
    """
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    word = cut.rfind(" ")
    return (cut[:word] if word > limit // 2 else cut).rstrip(" ,;:.") + "…"


def frontmatter_name(frontmatter: Frontmatter, folder: str) -> str:
    """The name that `interpret` will give, without interpreting the rest."""
    name = frontmatter.mapping.get("name")
    if type(name) is str and name.strip():
        return usable_name(name.strip(), folder)
    from metier.skill.fields import interpret

    return interpret(frontmatter, folder).name
