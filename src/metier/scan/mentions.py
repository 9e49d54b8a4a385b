"""Commands that code mentions and does not run: in lists of signs, tests of a text, help, remarks and rules.

Lines and texts are in lower case. How such code looks is data: `packs/core/mentions.yaml`.
"""

from __future__ import annotations

from metier._regex_cache import kept_regex
from metier.scan.name_lists import sense

_CALL = kept_regex(r"([\w.]{0,60}\w)\s?\(")
_MAX_LINE = 2_000


def only_tells(low: str) -> bool:
    """Whether a line of a program only names texts, looks for them or writes them out.

    >>> only_tells('"rm -rf /", "mkfs",'), only_tells('if "curl | sh" in text:'), only_tells('os.system("rm -rf /")')
    (True, True, False)
    """
    if len(low) > _MAX_LINE:
        return False
    rest, strings = sense("texts-in-code").subn("", low)
    if not strings or any(quote in rest for quote in "\"'`"):
        return False
    return all(map(sense("calls-that-only-tell").fullmatch, _CALL.findall(rest)))


def looks_or_says(low: str) -> bool:
    """Whether a line that only tells looks for a text or writes it out: nothing else can run what it names.

    >>> looks_or_says('print("never run rm -rf /")'), looks_or_says('clean = "rm -rf /"')
    (True, False)
    """
    return sense("code-that-looks-or-says").search(low) is not None and only_tells(low)


def places_of_text(low: str) -> tuple[frozenset[int], frozenset[int]]:
    """The lines of a program in explanations between three quotes, and those in lists that are called after signs."""
    explained, listed = set[int](), set[int]()
    quote, depth, is_signs = "", 0, False
    for number, line in enumerate(low.split("\n"), 1):
        if quote:
            explained.add(number)
            quote = "" if quote in line else quote
            continue
        if depth <= 0:
            begun, opened = sense("opens-an-explanation").match(line), sense("opens-a-list").match(line)
            if begun is not None:
                explained.add(number)
                quote = begun[1] if line.count(begun[1]) == 1 else ""
            if begun is not None or opened is None:
                continue
            depth, is_signs = 0, sense("names-of-lists-of-signs").search(opened[1]) is not None
        if is_signs:
            listed.add(number)
        plain = sense("texts-in-code").sub("", line[:_MAX_LINE])
        depth += sum(map(plain.count, "([{")) - sum(map(plain.count, ")]}"))
    return frozenset(explained), frozenset(listed)


def is_rule_file(low: str) -> bool:
    """Whether a file of settings holds rules, each with what it looks for, and nothing that a program would run."""
    is_of_rules = all(sense(f"keys-of-{what}").search(low) is not None for what in ("judgements", "rules"))
    return is_of_rules and sense("keys-of-commands").search(low) is None
