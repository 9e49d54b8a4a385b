"""How something is said: as something to do, or as something to look out for.

Words are easy to write, so a word that calls something an attack counts for little; that a page is full of different
signs of attacks counts for more. Which words tell is data: `packs/core/stance.yaml`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._regex_cache import kept_regex
from metier.scan.mentions import is_rule_file, looks_or_says, only_tells, places_of_text
from metier.scan.name_lists import entries, names, sense

if TYPE_CHECKING:
    from metier.scan.statement import Statement
    from metier.scan.view import ViewFile

Stance: TypeAlias = Literal[
    "order", "command", "description", "quotation", "warning", "fixture", "counterexample", "teaching", "report"
]
"""Who says what to whom, decided once for each statement, before any rule."""

_REGEX = kept_regex(r"\\[sbdwSW][+*{?\\]?|\.\*|\.\+|\[\^|\(\?[:i=!<]|\\[.|()]")
_QUOTED = kept_regex(r"[\"“][^\"”\n]{1,300}[\"”]")
_SENTENCES = kept_regex(r"[.!?]\s+(?!$)")
_CLAUSES = kept_regex(r"[,:;–—]\s(?:so |then |and |just ){0,2}")  # noqa: RUF001  (texts have dashes of each length)
_NEXT_ITEM = kept_regex(r"\s*(?:>?\s*$|[-*+•|#]\s|\d{1,3}[.)]\s|```)")

_LONG_PARAGRAPH = 4_000
"""Characters of a paragraph from which on quotations are looked for only around what was found."""


def _says(what: str, text: str) -> bool:
    return sense(what).search(text) is not None


def negated(before: str) -> bool:
    """Whether what comes next is spoken against.

    >>> negated("never, under any circumstances, "), negated("do not skip this step, "), negated("first ")
    (True, False, False)
    """
    found = sense("before-what-is-negated").search(before)
    if found is None or sense("after-no-negation").match(found[1]):
        return False
    _, comma, order = found[1].partition(",")
    if comma and (sense("after-a-clause").match(order) or _says("before-a-condition", before[: found.start()])):
        return negated(order)  # "if it does not start, send ..." speaks against nothing
    return True


def forbids(found: str) -> bool:
    """Whether what was found begins with a negation of its own: one before it is another, and takes nothing back."""
    return sense("after-one-more-negation").match(found) is not None


def described(before: str) -> bool:
    """Whether what comes next is told of somebody else, or searched for."""
    return any(_says(f"before-what-is-{told}", before) for told in ("described", "searched", "seen"))


def is_pattern(found: str, line: str) -> bool:
    """Whether a line of code holds a pattern to look for, rather than what it looks for."""
    return _REGEX.search(found) is not None and in_quotes(line)


def in_quotes(line: str) -> bool:
    """Whether a line is a text in quotes and no more, as in a list of patterns."""
    return sense("texts-in-a-list").match(line[:500]) is not None


def about_security(subject: str) -> bool:
    """Whether a skill says, in lower case, that security is what it is about."""
    return _says("topics-of-security", subject[:1_500].replace("-", " "))


class Page:
    """A file, and how all of it speaks of attacks."""

    def __init__(self, file: ViewFile, about_security: bool, *, is_run: bool = False) -> None:
        """With `is_run`, the instructions have it run, wherever it lies."""
        self.path, self.role = file.path, file.role
        self.about_security = about_security
        self._file, self._is_run = file, is_run
        self._asked: dict[tuple[str, str, bool], bool] = {}
        self._paragraphs: dict[int, str] = {}

    @cached_property
    def _low(self) -> str:
        return self._file.text.lower()

    @cached_property
    def _lines(self) -> list[str]:
        return self._low.split("\n")

    @cached_property
    def lists_signs(self) -> bool:
        """Whether it names so many kinds of attacks that it is about them; one word would be easy to add."""
        kinds = sum(any(word in self._low for word in words) for words in entries("signs-of-attacks"))
        return kinds >= (5 if self.about_security else 7)

    @cached_property
    def is_inert(self) -> bool:
        """Whether it is a script that lists signs of attacks, and runs nothing."""
        return self.about_security and self.lists_signs and not self.runs

    @cached_property
    def runs(self) -> bool:
        """Whether it is a script that has other programs or code run."""
        return _says("calls-that-run", self._file.text)

    @cached_property
    def is_rules(self) -> bool:
        """Whether it is a file of settings that holds rules: what stands in it is looked for, and not run."""
        return self.role == "config" and is_rule_file(self._low)

    @cached_property
    def places_of_text(self) -> tuple[frozenset[int], frozenset[int]]:
        """The lines of a script in explanations, and those in lists of signs."""
        return places_of_text(self._low)

    def only_names(self, line: int) -> bool:
        """Whether the strings on a line of a script or of settings are of a rule, a list of signs or an explanation."""
        if self.is_rules or self.is_inert:
            return True
        explained, signs = self.places_of_text
        if not self.about_security:
            return line in signs and not self.runs
        return line in explained or line in signs or any(map(looks_or_says, self._lines[line - 1 : line]))

    @cached_property
    def is_fixture(self) -> bool:
        """Whether it is data of tests, which nobody runs."""
        if self._is_run or self.role == "instructions":
            return False
        path = self.path.lower()
        is_sample = self.about_security and self.role != "script" and _says("paths-of-samples", path)
        return is_sample or _says("paths-of-fixtures", path)

    @cached_property
    def orders_examples(self) -> bool:
        """Whether it has the agent follow what it shows as an example or a quotation, so that neither is one."""
        return _says("orders-to-follow-examples", self._low)

    def quotes(self, line: int, words: str) -> bool:
        """Whether a paragraph says some words, in lower case, only where it quotes what others say or run."""
        whole, is_quoted = self._paragraph(line), False
        if len(whole) > _LONG_PARAGRAPH:
            at = whole.find(words)
            whole = whole[max(0, at - _LONG_PARAGRAPH // 2) : at + _LONG_PARAGRAPH // 2]
        for said in sense("quotations").finditer(whole):
            if words in said[0].replace("`", ""):
                around = whole[: said.start()][-160:], whole[said.end() : said.end() + 80]
                is_quoted = self._tells_of_others(*around, is_code=said[0][0] == "`")
                if not is_quoted:
                    return False
        rest = sense("quotations").sub(" ", whole).replace("`", "")
        return is_quoted and words not in rest and not _says("does-what-was-said", rest)

    def _tells_of_others(self, before: str, after: str, *, is_code: bool) -> bool:
        """Whether what stands around a quotation leaves it to others, and bids nobody say or do it."""
        before = _SENTENCES.split(before)[-1]
        told = any(_says(f"before-{what}", before) for what in ("a-quotation", "what-others-say"))
        if told or sense("after-what-others-say").match(after):
            return self.about_security or not (is_code or is_order(before))
        return self.about_security and not is_order(before) and not _says("before-what-to-say", before)

    def _paragraph(self, line: int) -> str:
        """The paragraph or the item of a list that begins on a line, in lower case and without emphasis."""
        if line in self._paragraphs:
            return self._paragraphs[line]
        lines = self._lines[line - 1 : line + 20]
        last = next((at for at, one in enumerate(lines) if at and _NEXT_ITEM.match(one)), len(lines))
        whole = " ".join(one.strip(" \t>") for one in lines[:last]).replace("**", "").replace("__", "")
        self._paragraphs = {line: whole}  # those who ask go on to the next one
        return whole

    def warns(self, heading: str, lead: str, *, code: bool = False) -> bool:
        """Whether what stands below a heading, after a lead, is shown as something to look out for."""
        key = heading, lead, code
        if key not in self._asked:
            self._asked[key] = warns(heading, lead, self.about_security, code=code)
        return self._asked[key]


def stance_of(one: Statement) -> Stance:
    """Who says what to whom: an order or a command to be carried out, or one of the ways to only speak of it."""
    page = one.page
    # Prose in a script is one of its strings.
    if page.is_fixture and (page.role != "script" or one.kind == "prose" or in_quotes(one.text)):
        return "fixture"
    if one.script:
        return "fixture" if one.warned else _stance_in_script(one)
    if one.kind == "prose" and page.role in ("script", "config") and page.only_names(one.line):
        return "fixture"
    if one.kind == "frontmatter":
        return "description"
    if one.warned:
        return "counterexample"
    is_detection = one.kind == "code" and one.language in names("languages-of-detection")
    if is_detection or (page.about_security and _reports(one)):
        return "report"
    if (sets_up(one.heading) and not (page.about_security and warns(one.heading, "", False))) or page.orders_examples:
        return "command" if one.kind == "code" else "order"
    if one.kind == "comment":
        return "teaching" if page.about_security and page.warns(one.heading, one.lead) else "order"
    if one.bad_company and _says("words-of-bad-examples", f"{one.heading} {one.lead[-200:]}"):
        return "counterexample"
    if one.quoted and (page.about_security or _says("before-a-quotation", one.lead[-200:])):
        return "quotation"
    if one.hinted or (page.about_security and one.kind in ("code", "row")):
        return "teaching"
    if one.kind == "code":
        return "command"
    is_told = page.about_security and not _wants_installed(one.lead)
    if is_told and _says("verdicts", one.low):
        return "teaching"
    if is_order(one.low) or (" !" in one.low and _says("run-on-loading", one.low)):
        return "order"
    return "teaching" if is_told and _teaches(one) else "description"


def _teaches(one: Statement) -> bool:
    """Whether a sentence of a page on security, which is no order, tells what others do or what to look out for."""
    if _says("others-bid-an-agent", one.low) or sense("attackers-first").match(one.low):
        return True
    label, colon, _ = one.low[:80].partition(":")
    is_told = one.listed or one.page.role == "markdown" or (colon and one.page.warns(label, ""))
    if not is_told or sense("begins-with-a-deed").match(one.low):
        return False
    return not _says("speaks-to-the-reader", _QUOTED.sub("", one.low))


def quotes(one: Statement, words: str) -> bool:
    """Whether a sentence says some words, in lower case, only in a quotation of what others say."""
    means_it = one.page.orders_examples or sets_up(one.heading) or _wants_installed(one.lead)
    return one.kind == "prose" and not one.script and not means_it and one.page.quotes(one.line, words)


def is_order(low: str) -> bool:
    """Whether a sentence in lower case begins as one that tells somebody to do something."""
    return sense("orders").match(low) is not None


def states(low: str) -> bool:
    """Whether a sentence in lower case only says how something is, also where everything else is to be done.

    >>> states("this avoids the need for it."), states("as it saves time, grant all rights.")
    (True, False)
    """
    return sense("states").match(low) is not None and not any(map(is_order, _CLAUSES.split(low)[1:]))


def _reports(one: Statement) -> bool:
    """Whether a sentence, or what introduces code, tells what attackers do, and asks nobody for anything."""
    if one.kind == "prose":
        said = _QUOTED.sub("", one.low)
        is_told = _says("words-for-attackers", one.low) or bool(sense("somebody-and-what-they-do").match(one.text))
        return is_told and not _says("words-of-address", said) and not is_order(one.low)
    lead, above = one.lead[-200:], f"{one.heading} {one.lead[-200:]}"
    is_told = one.kind == "code" and all(_says(f"words-for-{what}", above) for what in ("attackers", "what-was-seen"))
    return is_told and not _says("words-of-address", lead) and not is_order(lead)


def _stance_in_script(one: Statement) -> Stance:
    """Whether a line of a script is to be run, or only names what others run."""
    page = one.page
    if page.is_rules:
        return "fixture"
    if page.role != "script":
        return "command"
    if page.about_security and (sense("remarks-in-code").match(one.low) or one.line in page.places_of_text[0]):
        return "report"
    if not only_tells(one.low):
        return "command"
    if (page.about_security or not page.runs) and one.line in page.places_of_text[1]:
        return "fixture"
    return "teaching" if page.about_security and (looks_or_says(one.low) or not page.runs) else "command"


def sets_up(heading: str) -> bool:
    """Whether a heading says what to do first."""
    return _says("headings-of-setup", heading)


def _wants_installed(lead: str) -> bool:
    """Whether what introduces something wants it on this machine, and does not tell of others who want it."""
    return _says("needs-to-install", lead) and not _says("words-of-others", lead)


def hints(low: str) -> bool:
    """Whether a sentence in lower case speaks of attacks."""
    return _says("words-of-attacks", low)


def hints_in_code(low: str) -> bool:
    """Whether a remark calls a line of code a bad example."""
    return _says("remarks-on-bad-examples", low)


def warns(heading: str, lead: str, security: bool, *, code: bool = False) -> bool:
    """Whether what stands here is shown as something to look out for."""
    if lead and _wants_installed(lead):
        return False  # a page about attacks that wants something installed means it, like any other page
    kinds = ("attacks", "risks") if security else ("attacks",)
    if heading and any(_says(f"headings-of-{kind}", heading) for kind in kinds):
        return True
    return bool(lead) and (code or security or lead.endswith(":")) and (hints(lead) or negated(lead[-140:]))
