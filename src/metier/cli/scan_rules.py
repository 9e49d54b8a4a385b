"""`metier scan rules`: list, show, test and begin rules of the scanner."""

from __future__ import annotations

import os
import re
import shlex
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from metier._suggest import suggestions
from metier.cli.exit_codes import FINE, PROBLEMS
from metier.cli.output import Style, plural, print_done, print_json, short_path, shortened, table
from metier.cli.parser import Parser
from metier.cli.rule_packs import add_option, known_packs, listed_rules, named_pack
from metier.errors import InvalidArgument, RulesInvalid, SourceUnavailable
from metier.scan.finding import rank
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from metier.cli.rule_packs import ListedRule
    from metier.cli.rule_test import PackTest

_EXAMPLE = 160
_PLACES = {
    "instructions": "SKILL.md",
    "references": "other pages",
    "scripts": "scripts",
    "manifests": "frontmatter and configuration",
    "hidden": "remarks that readers do not see",
}


def add(parser: Parser) -> None:
    parser.example("metier scan rules list")
    listing = parser.verb("list", "list all rules, the gravest first", "metier scan rules list", _list)
    add_option(listing)
    listing.json()

    showing = parser.verb(
        "show",
        "show what a rule means, what to do, and how it is written",
        "metier scan rules show INSTRUCTION_OVERRIDE",
        _show,
    )
    showing.option("name", "ID", "a rule; or a lexicon, by its name in lower case", nargs="?")
    showing.flag("--syntax", "show how phrases and conditions are written, and what they may name")
    add_option(showing)
    showing.json()

    testing = parser.verb(
        "test",
        "try the examples of all rules of a folder; exits with 1 where one fails",
        "metier scan rules test ./acme-rules",
        _test,
    )
    testing.option("folder", "DIR", "a folder with rules, or an installed package that has some")
    testing.json()

    beginning = parser.verb(
        "new",
        "write a rule to begin with, with examples that pass its test",
        "metier scan rules new ./acme-rules ACME_PRICE_LIST",
        _new,
    )
    beginning.option("folder", "DIR", "the folder of the rules; it is made if need be")
    beginning.option("name", "ID", "what the rule is called, in capital letters: ACME_PRICE_LIST")
    beginning.json()


def run(options: Namespace) -> int:
    return options.do(options) or FINE


def _rules(options: Namespace) -> list[ListedRule]:
    return listed_rules(known_packs(options.packs))


def _list(options: Namespace) -> None:
    found = _rules(options)
    if options.json:
        print_json({"rules": [one.as_json() for one in found]})
        return
    style = Style(sys.stdout)
    rows = [(one.rule.severity, one.rule.id, one.pack, one.rule.title or one.rule.message) for one in found]
    print(table(style, ("severity", "rule", "pack", "what it finds"), rows, paint={0: _paint(style)}))
    print(style.dim(f"{plural(len(found), 'rule')}. `metier scan rules show ID` says more of one."))


def _paint(style: Style) -> Callable[[str], str]:
    def paint(cell: str) -> str:
        severity = cell.strip()
        if rank(severity) >= rank("high"):
            return style.bad(cell)
        return style.warn(cell) if severity == "medium" else style.dim(cell)

    return paint


def _show(options: Namespace) -> None:
    if options.syntax or options.name is None:
        if not options.syntax:
            raise InvalidArgument("Which rule?", hint="`metier scan rules list` names them; or add --syntax.")
        from metier.cli.rule_syntax import syntax, syntax_shape

        if options.json:
            print_json(syntax_shape())
        else:
            print(syntax(Style(sys.stdout)))
        return
    found = _rules(options)
    named = next((one for one in found if one.rule.id == options.name.upper()), None)
    if named is None:
        lexicon = _lexicon(options)
        if lexicon is None:
            close = suggestions(options.name.upper(), [one.rule.id for one in found], 1)
            meant = f" Did you mean {close[0]}?" if close else ""
            hint = f"{meant} `metier scan rules list` names them all.".strip()
            raise InvalidArgument(f"There is no rule {shown(options.name, 80)!r}.", hint=hint)
        _print_lexicon(options, lexicon)
    elif options.json:
        print_json({"rule": {**named.as_json(), "entry": named.entry}})
    else:
        print("\n".join(_screen(Style(sys.stdout), named)))


def _lexicon(options: Namespace) -> dict[str, Any] | None:
    from metier.scan.pack import CORE, entries_of, files_of

    found = dict(entries_of(files_of(CORE), is_core=True).lexicons)
    for pack in known_packs(options.packs):
        found.update(entries_of(pack.files()).lexicons)
    return found.get(options.name)


def _print_lexicon(options: Namespace, lexicon: Mapping[str, Any]) -> None:
    if options.json:
        print_json({"lexicon": {"name": options.name, "meaning": lexicon["meaning"], "terms": lexicon["terms"]}})
        return
    style = Style(sys.stdout)
    print(f"{style.strong(f'<{options.name}>')} {Style.text(lexicon['meaning'])}")
    for phrase in phrases_of(lexicon["terms"]):
        print(f"  {Style.text(phrase, 4_000)}")


def phrases_of(term: Any) -> list[str]:
    """The phrases of a term, whichever language they stand below."""
    return list(map(str, term if isinstance(term, list) else [one for some in term.values() for one in some]))


def _screen(style: Style, one: ListedRule) -> Iterator[str]:
    """A rule on one screen."""
    from metier.cli.layout import pad, wrap

    yield f"{style.strong(one.rule.id)}  {_paint(style)(one.rule.severity)}  {style.dim(f'pack {one.pack}')}"
    about = list(_lines_about(one))
    labels = max(len(label) for label, _ in about) + 1
    width = max(40, style.width - labels - 2)
    for label, text in about:
        lines = list(wrap(Style.text(text, 4_000), width))
        for number, line in enumerate(lines):
            yield f"  {style.dim(pad('' if number else label, labels))}{line}"


def _lines_about(one: ListedRule) -> Iterator[tuple[str, str]]:
    rule, entry = one.rule, one.entry
    if rule.title:
        yield "title", rule.title
    yield "what it means", rule.message
    yield "what to do", rule.hint
    if rule.harmless:
        yield "harmless if", rule.harmless
    yield "kind", f"{rule.category}, {rule.ast} of the OWASP Agentic Skills Top 10"
    if not entry:
        return
    yield "looks in", ", ".join(_PLACES[place] for place in entry.get("where", _PLACES))
    if "stance" in entry:
        yield "said as", ", ".join(entry["stance"])
    for label, key in (("found when", "when"), ("but not if", "unless"), ("found by", "matcher")):
        if key in entry:
            yield label, " ".join(str(entry[key]).split())
    yield from entry.get("grade", {}).items()
    for name, term in entry.get("terms", {}).items():
        phrases = phrases_of(term)
        more = f", and {len(phrases) - 3:,} more" if len(phrases) > 3 else ""
        yield name, ", ".join(f"`{shortened(phrase, 60)}`" for phrase in phrases[:3]) + more
    for label, key in (("it finds", "match"), ("it passes", "pass")):
        for example in entry["examples"][key][:2]:
            yield label, shortened(_on_one_line(example), _EXAMPLE)
    yield "file", f"{short_path(one.file)}:{one.line}"


def _on_one_line(example: Any) -> str:
    if isinstance(example, dict):
        return "; ".join(f"{path}: {' ⏎ '.join(str(text).split(chr(10)))}" for path, text in example.items())
    return " ⏎ ".join(line for line in str(example).strip().split("\n"))


def _test(options: Namespace) -> int:
    from metier.cli.rule_test import test_pack

    pack = named_pack(options.folder)
    tested = test_pack(pack)
    if options.json:
        print_json(tested.as_json())
    else:
        _print_test(pack.folder, tested)
    return PROBLEMS if tested.failures else FINE


def _print_test(folder: str, tested: PackTest) -> None:
    style = Style(sys.stdout)
    for failure in tested.failures:
        place = f"{short_path(failure.file)}:{failure.line}"
        print(f"{style.bad('✗')} {Style.text(place, 4_096)}: {style.strong(failure.rule)} {failure.expected}")
        print(f"    {style.dim('│')} {Style.text(shortened(_on_one_line(failure.example), _EXAMPLE), 300)}")
        for reason in failure.reasons:
            print(f"    {Style.text(reason, 1_000)}")
    counted = f"{plural(tested.rules, 'rule')}, {plural(tested.examples, 'example')}"
    if tested.failures:
        print(style.bad(f"{counted}, {plural(len(tested.failures), 'failure')}."))
        print(style.dim("→ Mend the phrases, the condition or the example, then test again."))
        return
    print(f"{style.good('✓')} {counted}. Its digest is {tested.digest}")
    if folder:
        place = shlex.quote(short_path(folder))
        print(f"Try it: metier scan PATH --rules {Style.text(place, 4_096)}")
        print("Pin it in a policy file, so that it counts wherever skills are scanned:")
        print(f"  scan: {{packs: [{{folder: {Style.text(folder, 4_096)}, digest: {tested.digest}}}]}}")
        print("Then what it finds `high` is not installed. Not loading it either takes a rule of the policy:")
        print('  rules: [{id: no-attacks, point: activate, when: {scan: ">=high"}, effect: deny}]')


def _new(options: Namespace) -> None:
    from metier.cli.rule_starter import starter

    if re.fullmatch(r"[A-Z][A-Z0-9_]{2,60}", options.name) is None:
        hint = "Begin with a capital letter; letters, digits and underscores follow: ACME_PRICE_LIST."
        raise InvalidArgument(f"A rule cannot be called {shown(options.name, 80)!r}.", hint=hint)
    folder = os.path.abspath(os.path.expanduser(options.folder))
    known = listed_rules(()) if not os.path.isdir(folder) else _known_beside(folder)
    if any(one.rule.id == options.name for one in known):
        raise InvalidArgument(
            f"There is a rule {options.name} already.", hint="Begin its name with that of your organisation."
        )
    path = os.path.join(folder, f"{options.name.lower().replace('_', '-')}.yaml")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            file.write(starter(options.name))
    except FileExistsError:
        raise InvalidArgument(
            f"{shown(path, 300)} is there already.", hint="Edit it, or choose another name."
        ) from None
    except OSError as error:
        hint = "Name a folder that you may write to."
        raise SourceUnavailable(f"{shown(path, 300)} cannot be written: {error.strerror}.", hint=hint) from None
    if options.json:
        print_json({"file": path, "id": options.name})
        return
    print_done(Style.text(short_path(path), 4_096))
    print("Next: open it and write what your rule looks for; its remarks say how. Then:")
    print(f"  metier scan rules test {Style.text(shlex.quote(options.folder), 4_096)}")


def _known_beside(folder: str) -> list[ListedRule]:
    """Our rules and those of a folder, as far as it can be read."""
    try:
        return listed_rules((named_pack(folder),))
    except RulesInvalid:
        return listed_rules(())
