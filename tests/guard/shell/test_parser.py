"""A shell command, taken apart."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.guard.shell.lexer import UnreadableCommand
from metier.guard.shell.parser import MAX_COMMAND, parse_script, shell_parts
from metier.guard.tool_rules.matching import forbids, permits
from metier.skill.tool_rules import parse_rules


@pytest.mark.each(
    ("command", "parts"),
    [
        ("git status", ("git status",)),
        ("a && b || c; d & e | f", ("a", "b", "c", "d", "e", "f")),
        ("a 'x; y' > z | b", ("a 'x; y' > z", "b")),
        ("if a; then b; else c; fi", ("a", "b", "c")),
        ("for x in 1 2; do a $x; done", ("a $x",)),
        ("echo $(a `b`)", ("b", "a `b`", "echo $(a `b`)")),
        ("cat <<'E'\na; b\nE\nc", ("cat <<'E'", "c")),
        ("a 'unclosed", ()),
        ("", ()),
    ],
)
def test_a_command_has_parts(command: str, parts: tuple[str, ...]) -> None:
    assert shell_parts(command) == parts


@pytest.mark.each(
    ("text", "word"),
    [
        ("a'b'\"c\"d", "abcd"),
        ("'a b'", "a b"),
        ('"a \\"b\\" \\$c \\d"', 'a "b" $c \\d'),
        ("a\\ b", "a b"),
        ("'a\\b'", "a\\b"),
        ('"a\\\nb"', "ab"),
        ("a#b", "a#b"),
        ("'#'", "#"),
        ("HEAD@{1}", "HEAD@{1}"),
        ("''", ""),
        ("a=b", "a=b"),
        ('"$"', "$"),
        ("é✨", "é✨"),
    ],
)
def test_a_word_loses_its_quotes(text: str, word: str) -> None:
    found = parse_script(f"x {text}").commands[0].words[1]
    assert found.text == word and found.is_known


@pytest.mark.covers("ENV-4")
@pytest.mark.each(
    ("command", "words"),
    [
        ("git status\\\n --short", [["git", "status", "--short"]]),
        ("git status \\\n --short", [["git", "status", "--short"]]),
        ("git status\\\n\\\n --short", [["git", "status", "--short"]]),
        ("gi\\\nt sta\\\ntus", [["git", "status"]]),
        ("git\\\n log", [["git", "log"]]),
        ("git log\\\n", [["git", "log"]]),
        ("git log \\\n", [["git", "log"]]),
        ("git log 'a\\\nb'", [["git", "log", "a\\\nb"]]),
        ('git log "a\\\nb"', [["git", "log", "ab"]]),
        ("git log \"a\"\\\n 'b'", [["git", "log", "a", "b"]]),
        ("git log a\\\\\ngit status", [["git", "log", "a\\"], ["git", "status"]]),
        ("git log \\\n# x", [["git", "log"]]),
        ("git log\\\n# x", [["git", "log#", "x"]]),
        ("git log # x \\\ngit status", [["git", "log"], ["git", "status"]]),
        ("git log\\\n&& git status", [["git", "log"], ["git", "status"]]),
        ("git log 2\\\n>/dev/null", [["git", "log"]]),
        ("git commit -F -\\\n <<'EOF'\na\\\nb\nEOF", [["git", "commit", "-F", "-"]]),
    ],
)
def test_a_line_that_goes_on_is_one_line(command: str, words: list[list[str]]) -> None:
    script = parse_script(command)
    assert not script.refusal
    assert [[word.text for word in part.words] for part in script.commands] == words


@pytest.mark.covers("ENV-4")
@pytest.mark.each("command", ["git log \\\r\n -1", "git log \\", "git log &\\\n& git status", "git log $\\\n(curl x)"])
def test_a_line_that_shells_join_differently_is_refused(command: str) -> None:
    with pytest.raises(UnreadableCommand):
        parse_script(command)


@pytest.mark.each("text", ["$x", '"$x"', "*", "a?", "[a]", "{a,b}", "{1..3}", "~", "a=~/b", "$'x'", "$1", '"$@"'])
def test_a_word_may_be_unknown_before_it_runs(text: str) -> None:
    assert not parse_script(f"x {text}").commands[0].words[1].is_known


@pytest.mark.each(
    ("command", "variants"),
    [
        ("for x in a b; do git $x; done", [["git", "a"], ["git", "b"]]),
        ("for x in 'a b'; do git \"-$x\"; done", [["git", "-a b"]]),
        ("for x in a; do for y in b c; do git $x$y z; done; done", [["git", "ab", "z"], ["git", "ac", "z"]]),
        ("for x in a; do git x; done", []),
        ("for x in $y; do git $x; done", []),
        ("for x in a; do git $x; read x; done", []),
        ("for x; do git $x; done", []),
        ("git $x", []),
    ],
)
def test_the_values_of_a_loop_are_put_in(command: str, variants: list[list[str]]) -> None:
    found = parse_script(command).commands[0].variants
    assert [[word.text for word in words] for words in found] == variants
    assert all(word.is_known for words in found for word in words)


@pytest.mark.each(
    ("command", "is_chosen"),
    [
        ("git $x", False),
        ("git $PWD $1", True),
        ("x=1; git $x", True),
        ("x=1; git $y", False),
        ("read y; git $x", True),
        ("command -p read y; git $x", True),
        ("eval 'read x'; git $x", True),
        ("printf -v y 1; git $x", True),
        ("printf '%s\\n' y; git $x", False),
        ("export y; git $x", True),
        ("git $x; for x in $z; do git a; done", True),
        ("git {a,b}", True),
        ("git *", False),
    ],
)
def test_a_word_says_whether_the_command_chooses_it(command: str, is_chosen: bool) -> None:
    words = [word for part in parse_script(command).commands if part.words[0].text == "git" for word in part.words]
    assert any(word.free for word in words) is is_chosen


@pytest.mark.parametrize("depth", [10, 500, 4000])
@pytest.mark.each("text", ["(", "{ ", "$(", "`", "if ", "if a; then ", "while ", "case x in x) ", "f() {", "<(", '"$('])
def test_nesting_ends_in_a_refusal_and_never_in_a_crash(text: str, depth: int) -> None:
    command = f"git {text * depth}" if text[0] in '$`<"' else text * depth
    rules = parse_rules("Bash(git:*)")
    assert not permits(rules, "Bash", {"command": command}).allowed
    assert forbids(rules, "Bash", {"command": command}) is not None


def test_a_command_may_be_long_but_not_too_long() -> None:
    assert len(parse_script("git " + "a " * 8000).commands[0].words) == 8001
    with pytest.raises(UnreadableCommand, match="longer than"):
        parse_script("x" * (MAX_COMMAND + 1))


@given(st.text(alphabet="git curl;|&<>()$`'\"\\\n{}[]*?!#=~-\t/EOF2\r\0é\u202e", max_size=30))
def test_any_text_is_read_or_refused(command: str) -> None:
    rules = parse_rules("Bash(git:*)")
    try:
        parse_script(command)
    except UnreadableCommand as error:
        assert str(error)
        assert not permits(rules, "Bash", {"command": command}).allowed
        assert forbids(parse_rules("Bash(x:*)"), "Bash", {"command": command}) is not None
    assert permits(rules, "Bash", {"command": command}).reason.isprintable()


def test_threads_may_read_at_the_same_time() -> None:
    wrong: list[str] = []

    def read(number: int) -> None:
        for i in range(100):
            command = f"git log -{number} | git show {i} && git add '{i} {number}'"
            if len(parse_script(command).commands) != 3:
                wrong.append(command)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
