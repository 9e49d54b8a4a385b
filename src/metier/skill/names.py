"""Names: which are valid, and what an invalid one is called here."""

from __future__ import annotations

import hashlib
import re
import unicodedata

MAX_NAME = 64

_VALID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
# Some letters of Unicode are written as nothing at all; two names must not differ by what nobody sees.
_SEPARATORS = re.compile("[\\W_\u115f\u1160\u3164\uffa0]+")


def is_valid_name(name: str) -> bool:
    """Whether a name keeps the specification's rule: 1 to 64 of `a-z0-9` with single hyphens between.

    >>> is_valid_name("pdf-forms"), is_valid_name("PDF_Forms")
    (True, False)
    """
    return len(name) <= MAX_NAME and _VALID.fullmatch(name) is not None


def slug(text: str) -> str:
    """The name that any text is called by: lower case, hyphens for everything but letters and digits.

    Text without a letter or digit has no slug. A slug never holds a path separator, a blank or a control character.

    >>> slug("../../My Skill (v2)")
    'my-skill-v2'
    >>> slug("技能"), slug("!!!")
    ('技能', '')
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text[:1_000]).lower())
    return _SEPARATORS.sub("-", folded).strip("-")[:MAX_NAME].rstrip("-")


def usable_name(written: str, folder: str) -> str:
    """What a skill is called: its own name, slugged when invalid, else the folder's, else one made of its bytes."""
    if is_valid_name(written):
        return written
    named = slug(written) or slug(folder)
    if named:
        return named
    return f"skill-{hashlib.sha256(f'{written}/{folder}'.encode(errors='surrogatepass')).hexdigest()[:8]}"
