"""Text as it looks to a reader, or a model: what cannot be seen is gone, and letters are what they look like."""

from __future__ import annotations

import html
import re
import unicodedata

_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff]"
)
_LOOKALIKES = str.maketrans(
    "аеорсухіјѕһԁԛԝвкмнтАВЕКМНОРСТХІЈЅοανικρτυχεΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
    "aeopcyxijshdqwbkmhtABEKMHOPCTXIJSoavikptuxeABEZHIKMNOPTYX",
)
_MIXED_WORD = re.compile(
    # Looked for from the beginning of a word only, so that a long one is not gone over from each of its letters.
    r"(?<![A-Za-z])[A-Za-z]+[\u0370-\u052f][A-Za-z\u0370-\u052f]*"
    r"|(?<![\u0370-\u052f])[\u0370-\u052f]+[A-Za-z][A-Za-z\u0370-\u052f]*"
)


def cleaned(text: str) -> str:
    """A text as a reader, or a model, takes it: without what cannot be seen and with letters as they look."""
    if not text.isascii():
        text = _UNSEEN.sub("", unicodedata.normalize("NFKC", text))
        text = _MIXED_WORD.sub(lambda found: found[0].translate(_LOOKALIKES), text)
    if "&" in text:
        # Line by line, so that a line end that is written as a sign makes no other line numbers.
        text = "\n".join(" ".join(html.unescape(line).splitlines()) for line in text.split("\n"))
    return text
