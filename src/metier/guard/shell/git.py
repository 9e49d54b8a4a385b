"""Effects of git commands: programs that settings, transports and subcommands start, and files that options write.

Programs that a repository's own configuration and hooks start are not seen, and neither is the origin of a repository
that git is pointed at. Words that would write among those files are seen, and so are options that write other files.

After most subcommands a word that the command or the names of files decide (`*`, a variable of a loop) must not be able
to become an option: `git diff src/*.py` and `git diff -- *` are read, `git diff *` is not. After those that have no
such options (`git add *`) it may be anything. Values from the environment are not chosen by the command.
"""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from metier.guard.shell.command import Effects, Risk, UnclearEffects, WrittenFile
from metier.guard.shell.lexer import UNKNOWN
from metier.guard.shell.options import OptionRow, beginnings, is_unsure, may_be, read_options
from metier.guard.shell.paths import may_be_repository_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.guard.shell.lexer import ShellWord

_FLAGS = frozenset({
    "-h", "-p", "-P", "-v", "--bare", "--exec-path", "--glob-pathspecs", "--help", "--html-path", "--icase-pathspecs",
    "--info-path", "--literal-pathspecs", "--man-path", "--no-advice", "--no-lazy-fetch", "--no-optional-locks",
    "--no-pager", "--no-replace-objects", "--noglob-pathspecs", "--paginate", "--version",
})  # fmt: skip
_VALUED = frozenset({"-C", "--git-dir", "--work-tree", "--namespace", "--attr-source"})
_SAME = {"annotate": "blame", "fsck-objects": "fsck", "init-db": "init", "pickaxe": "blame", "stage": "add"}
"""Subcommands with two names."""
_SUBCOMMAND = re.compile(r"[A-Za-z0-9][\w-]*")
"""A name that git looks for among its own programs; a path would be looked for from the folder it is in."""
_COMMON = ("--output>", "--output-directory>", "--export-marks>")
_SUBCOMMANDS = read_options("""
add am branch cat-file check-ignore checkout clean commit describe for-each-ref hash-object ls-files ls-tree merge
    merge-base reset restore rev-parse rm show-ref status switch tag: harmless
apply: --unsafe-paths --build-fake-ancestor>
archimport citool credential credential-cache credential-store cvsexportcommit cvsimport cvsserver daemon fast-import
    filter-branch filter-repo for-each-repo gui hook http-backend instaweb mailinfo mailsplit merge-file merge-index p4
    pack-objects quiltimport remote-ext remote-fd send-email shell: starts
archive: transport --exec --remote -o>
bisect: replay! run! view! visualize!
bugreport diagnose format-patch index-pack: -o>
checkout-index worktree: places
cherry-pick revert: --strategy~
clone: transport places -uc --upload-pack --config --template --separate-git-dir
difftool mergetool: starts by-options
fetch: transport --upload-pack
fetch-pack ls-remote: transport --upload-pack --exec
gc repack: --expire-to>
grep: -O --open-files-in-pager
init: places --template --separate-git-dir
interpret-trailers: --in-place
maintenance: register! start! stop! unregister!
mv: harmless places
pull: transport --upload-pack -s~ --strategy~
push send-pack: transport --receive-pack --exec
read-tree: --index-output>
rebase: -x --exec -s~ --strategy~
remote: transport
request-pull: transport --upload-pack --receive-pack --exec
submodule: transport places foreach!
subtree: transport places --upload-pack --receive-pack --exec
svn: --authors-prog
""", _COMMON)  # fmt: skip
"""The options of each subcommand that start a program, make git take settings from elsewhere, or write a file.

A strategy (`--strategy~`) is a program of its own, and `foreach!` a word that makes a subcommand start what follows.
`harmless` subcommands have no such option: their words may be anything. `transport` ones take addresses, and those that
`places` put files where they are told, be it among the hooks. Any word may make one that `starts` start a program, or
with `by-options` no other word than an option.
"""
_OTHER = OptionRow(_COMMON)
_TAKES_NO_VALUE = re.compile(
    r"-[0-9]+|-[bpqsuvwz]|--(all|cached|count|decorate|follow|graph|name-only|name-status|no-color|no-merges|no-patch|"
    r"numstat|oneline|patch|quiet|raw|reverse|shortstat|staged|stat|summary|.*=.*)",
    re.DOTALL,
)
_HELPER = re.compile(r"(.*=)?\w+::", re.DOTALL)
_LOOSE = re.compile(rf"(.*=)?\w*{UNKNOWN}", re.DOTALL)
"""An address of which the beginning is not known."""
_SAFE_SETTING = re.compile(
    r"(advice\.\w+|branch\.[^=\n]+\.(remote|merge|rebase)|color\.[\w.]+|column\.\w+|commit\.gpgsign|"
    r"core\.(abbrev|autocrlf|eol|filemode|ignorecase|longpaths|quotepath|safecrlf|whitespace)|"
    r"diff\.(algorithm|context|mnemonicprefix|noprefix|renames)|fetch\.prune|gc\.auto|http\.version|"
    r"init\.defaultbranch|log\.\w+|merge\.(conflictstyle|ff)|pull\.(ff|rebase)|push\.(autosetupremote|default)|"
    r"rebase\.(autosquash|autostash)|tag\.(gpgsign|sort)|user\.(email|name))",
    re.IGNORECASE,
)
_HELPER_VALUE = re.compile(r"\w+::")
_CONFIG_READS = frozenset({"-l", "--get", "--get-all", "--get-color", "--get-regexp", "--get-urlmatch", "--list"})
_CONFIG_FLAGS = frozenset({
    "--add", "--all", "--bool", "--global", "--int", "--local", "--replace-all", "--show-origin", "--show-scope",
    "--system", "--unset", "--unset-all", "--worktree",
})  # fmt: skip
_CONFIG_READ_FLAGS = frozenset({"-z", "--includes", "--name-only", "--no-includes", "--null", "--path"})
_CONFIG_VALUED = frozenset({"-f", "--blob", "--default", "--file", "--type"})
_CONFIG_VERBS = frozenset({"edit", "get", "list", "set", "unset"})


class _Global(NamedTuple):
    """The options before the subcommand."""

    end: int
    """The index of the subcommand, there or not."""
    risks: tuple[Risk, ...]
    moves: bool
    folders: tuple[int, ...]
    """The words that name the folder it works in."""


def git_effects(words: Sequence[ShellWord]) -> Effects:
    """The effects of a git command."""
    before = _read_global(words)
    risks, folders, files = list(before.risks), list(before.folders), []
    if before.end < len(words):
        subcommand = words[before.end]
        rest = list(enumerate(words))[before.end + 1 :]
        if not subcommand.is_known:
            raise UnclearEffects("the subcommand of `git` is not known before it runs", before.end)
        if not _SUBCOMMAND.fullmatch(subcommand.text):
            raise UnclearEffects(f"`git {subcommand.text}` is no subcommand of git", before.end)
        name = subcommand_name(subcommand.text)
        row = _SUBCOMMANDS.get(name, _OTHER)
        if "starts" in row.marks or "--" in name:
            # A rule that names it does not name the program that its options and words make it start.
            has_options = any(not word.is_known or word.text.startswith("-") for _, word in rest)
            at = before.end if "by-options" in row.marks and not has_options else len(words) - 1
            risks.append(Risk(f"`git {name}` starts other programs or writes any file", at))
        if name == "config":
            risks += _config_risks(rest)
        if "places" in row.marks:
            risks += _placing_risks(name, rest)
            folders += [at for at, word in rest if not word.text.startswith("-")]
        if "harmless" not in row.marks:
            risks += _strategy_risks(name, row, rest)
            risks += _option_risks(name, row, rest)
            written = chain(row.files(rest), _bundle_files(rest) if name == "bundle" else ())
            files = [file._replace(moves=before.moves) for file in written]
    return Effects(risks=tuple(risks), files=tuple(files), folders=tuple(folders))


def subcommand_name(text: str) -> str:
    """The name that a subcommand goes by.

    >>> subcommand_name("init-db"), subcommand_name("log")
    ('init', 'log')
    """
    return _SAME.get(text, text)


def subcommand_index(words: Sequence[ShellWord]) -> int:
    """The index of the subcommand among the words, there or not."""
    return _read_global(words).end


def _read_global(words: Sequence[ShellWord]) -> _Global:
    risks: list[Risk] = []
    placed: dict[str, int] = {}
    folders: list[int] = []
    i = 1
    while i < len(words) and words[i].is_known and words[i].text.startswith("-"):
        text, equals, _ = words[i].text.partition("=")
        if text == "-c" and not equals and i + 1 < len(words):
            if words[i + 1].splits or not is_safe_setting(words[i + 1].text):
                risks.append(Risk("`git -c` can make git start other programs", i + 1))
            i += 2
        elif text in _VALUED and (text != "-C" or not equals):
            i += not equals
            if i >= len(words) or words[i].splits:
                raise UnclearEffects("the options of `git` cannot be read with certainty", len(words) - 1)
            # Files of a repository that are checked out among its own become its hooks and configuration.
            # A link to them may come from the repository too, so that a name says little.
            value = words[i].text.partition("=")[2] if equals else words[i].text
            if (text == "--work-tree" and value != ".") or (text == "-C" and may_be_repository_file(words[i])):
                risks.append(Risk(f"`git {text}` can lead into the repository's own files", i))
            placed[text] = i
            folders += [i] * (text == "-C")
            i += 1
        elif text in _FLAGS and not equals:
            i += 1
        else:
            raise UnclearEffects("the options of `git` cannot be read with certainty", len(words) - 1)
    if "-C" in placed and ("--work-tree" in placed or "--git-dir" in placed):
        risks.append(Risk("folders of `git` that depend on each other can be anywhere", max(placed.values())))
    return _Global(i, tuple(risks), bool(folders) or "--work-tree" in placed, tuple(folders))


def _placing_risks(name: str, rest: list[tuple[int, ShellWord]]) -> Iterator[Risk]:
    for at, word in rest:
        if may_be_repository_file(word) or (name == "checkout-index" and may_be(word, ("--prefix",))):
            yield Risk(f"`git {name}` can write into the repository's own files", at)
        if name == "checkout-index" and word.text.startswith("--p"):
            yield Risk("`git checkout-index --prefix` writes anywhere", at)


def _strategy_risks(name: str, row: OptionRow, rest: list[tuple[int, ShellWord]]) -> Iterator[Risk]:
    for i, (at, word) in enumerate(rest):
        value = row.value(word.text, row.programs)
        if value == "" and not word.text.endswith("=") and i + 1 < len(rest):
            value = rest[i + 1][1].text
        if value is not None and ("/" in value or UNKNOWN in value):
            yield Risk(f"the strategy of `git {name}` can be any program", at)


def _option_risks(name: str, row: OptionRow, rest: list[tuple[int, ShellWord]]) -> Iterator[Risk]:
    refused = [mark.removesuffix("!") for mark in row.marks if mark.endswith("!")]
    are_paths = False
    for i, (at, word) in enumerate(rest):
        if may_be(word, refused):
            yield Risk(f"`git {name}` can start other programs", at)
        is_transport = "transport" in row.marks
        if is_transport and (_HELPER.match(word.text.replace(UNKNOWN, "")) or (word.free and _LOOSE.match(word.text))):
            yield Risk(f"`{word.text}` can make `git` start a program", at)
        for beginning in beginnings(word):
            if not (are_paths and is_unsure(beginning, word)) and row.may_start(beginning, word):
                yield Risk(f"`git {name}` can start other programs or write files by its options", at)
        if word.is_known and word.text == "--" and not is_transport and name != "rebase":
            # It may be the value of an option before it.
            are_paths |= not i or (rest[i - 1][1].is_known and _ends(rest[i - 1][1].text))


def _ends(text: str) -> bool:
    """Whether a word surely takes no value from the next."""
    return not text.startswith("-") or _TAKES_NO_VALUE.fullmatch(text) is not None


def _bundle_files(rest: list[tuple[int, ShellWord]]) -> Iterator[WrittenFile]:
    """The file that `git bundle create` writes: the first operand."""
    if rest and may_be(rest[0][1], ("create",)):
        operands = (file for file in rest[1:] if file[1].text == "-" or not file[1].text.startswith("-"))
        yield from (WrittenFile(*file) for file in islice(operands, 1) if file[1].text != "-")


def is_safe_setting(text: str) -> bool:
    """Whether `name=value` is a setting that makes git start nothing.

    >>> is_safe_setting("user.name=me"), is_safe_setting("core.pager=less")
    (True, False)
    """
    name, _, value = text.partition("=")
    return _SAFE_SETTING.fullmatch(name) is not None and not _HELPER_VALUE.match(value)


def _config_risks(rest: list[tuple[int, ShellWord]]) -> Iterator[Risk]:
    """The words after `git config` that may make git start something later."""
    if not rest:
        return
    risk = Risk("`git config` can make git start other programs", rest[-1][0])
    if any(word.free for _, word in rest):
        yield risk
        return
    options, operands = _split_options([word for _, word in rest])
    verb = operands[0].text if operands and operands[0].text in _CONFIG_VERBS else ""
    if verb:
        more, operands = _split_options(operands[1:])
        options |= more
    if len(operands) > 1 and not operands[0].is_known:
        yield risk
        return
    reads = bool(_CONFIG_READS & options) or verb in ("get", "list")
    known = _CONFIG_FLAGS | _CONFIG_READS | _CONFIG_READ_FLAGS | _CONFIG_VALUED if reads else _CONFIG_FLAGS
    is_late = any(word.text.startswith("-") for word in operands)
    is_setting = not reads and len(operands) > 1
    is_safe = not is_setting or is_safe_setting(f"{operands[0].text}={operands[1].text}")
    if verb == "edit" or is_late or not is_safe or not known.issuperset(options):
        yield risk


def _split_options(words: list[ShellWord]) -> tuple[set[str], list[ShellWord]]:
    """The options before the first operand, and what follows them."""
    options: set[str] = set()
    i = 0
    while i < len(words):
        name, equals, _ = words[i].text.partition("=")
        if not name.startswith("-"):
            # A word that may fall apart may become an option, and is named like none.
            return options | ({words[i].text} if words[i].splits else set()), words[i:]
        options.add(name)
        i += 1 if equals or name not in _CONFIG_VALUED else 2
    return options, []
