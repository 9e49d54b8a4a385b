"""Command lines that are taken for changing nothing must change nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bashkit import Bash, SnapshotGraph
from hypothesis import given
from hypothesis import strategies as st

from metier.run.virtual import VirtualShell
from metier.run.virtual.read_only_commands import ReadOnlyCommands


@pytest.mark.each(
    "command",
    [
        "true", "echo hi", "ls -la / | grep etc | wc -l", "cat f < g", 'echo "$x ${y}" && pwd || false', "date +%s",
        "[ -f x ]; test -d y", "jq .a f.json", "printf '%s' x", "echo $(cat f | head -1)", "diff a b; cmp a b",
        "if grep -q x f; then echo y; fi", "! grep x f", "(cat f; ls)", "{ cat f; }", "cat <<E\n$x\nE",
    ],
)  # fmt: skip
def test_what_only_reads_is_known(command: str) -> None:
    assert ReadOnlyCommands(is_known=True).includes(Bash(), command)


@pytest.mark.each(
    "command",
    [
        "x=1", "x=1 echo a", "echo a > f", "cat a >> f", "echo a &> f", "cd /", "export A=1", "rm f", "tee f",
        "sort -o f g", "sed -i s/a/b/ f", "printf -v x 1", 'printf "$x" 1', "echo ${x:=1}", "echo ${x=1}",
        "echo $((x=1))", "((x++))", "echo $[x=1]", "echo ${a[i++]}", "[[ 1 -eq x++ ]]", "read x < f", "cat f &",
        "cat > >(tee f)", "cat <(touch f)", "echo $(touch f)", "$x", '"$x" y', "eval x", "source f", "f() { :; }",
        "uniq a b", "find . -delete", "env touch f", "command touch f", "xargs rm < f", "awk '{print > $1}' g",
        "bash -c 'touch f'", "sh x.sh", "./x.sh", "unset x", "alias echo=rm", "set -- a", "shift", "local x",
        "mapfile x < f", "getopts a b", "exec 3> f", "trap x EXIT", "if then", "echo `touch f`",
        "while read l; do :; done < f", "for f in a; do :; done", "__script /x.sh", "python3 x.py",
    ],
)  # fmt: skip
def test_what_may_change_something_is_not_taken_for_reading(command: str) -> None:
    assert not ReadOnlyCommands(is_known=True).includes(Bash(), command)


@pytest.mark.each(
    "command",
    ["echo() { rm f; }", "alias echo='rm f'", "eval 'echo() { rm f; }'", ". lib.sh", "trap 'rm f' EXIT", "if then"],
)
def test_after_a_command_that_may_redefine_others_nothing_is_known(command: str) -> None:
    commands = ReadOnlyCommands(is_known=True)
    assert commands.includes(Bash(), "echo a")
    commands.includes(Bash(), command)
    assert not commands.includes(Bash(), "echo a")


def test_a_command_that_was_redefined_is_undone_like_any_other(hostile: Callable[[str], str]) -> None:
    with VirtualShell() as shell:
        shell.execute("echo() { printf x > /f; }; ls() { builtin echo $1 > /g; }")
        shell.execute("echo a; ls b")
        assert shell.execute(hostile("crash").replace("echo", "command echo")).killed_by == "crash"
        assert shell.read("/f") == b"x"


def test_reading_after_a_change_keeps_the_change(hostile: Callable[[str], str]) -> None:
    with VirtualShell() as shell:
        shell.execute("echo x > /f; v=1")
        for _ in range(3):
            assert shell.execute("cat /f").stdout == "x\n"
        assert shell.execute(hostile("crash")).killed_by == "crash"
        assert shell.execute("cat /f; echo $v").stdout == "x\n1\n"


WORDS = st.sampled_from(
    [
        "echo", "cat", "printf", "x=1", ">", "f", "$((x=2))", "${x:=3}", "${x}", "|", ";", "&&", "$(touch g)", "-v",
        "x", "[", "]", "'", '"', "for", "in", "do", "done", "touch", "cd /tmp", "head", "<", "/etc/hosts", "`", "tee",
        "{", "}", "\n", "&",
    ]
)  # fmt: skip


@given(st.lists(WORDS, max_size=8).map(" ".join))
def test_whatever_is_taken_for_reading_leaves_all_as_it_was(command: str) -> None:
    bash = Bash(timeout_seconds=2)
    if not ReadOnlyCommands(is_known=True).includes(bash, command):
        return
    before = bash.commit()
    state = bash.shell_state()
    bash.execute_sync(command)
    after = bash.shell_state()
    assert {**after.variables, "_": ""} == {**state.variables, "_": ""}
    assert (after.cwd, dict(after.env), dict(after.aliases)) == (state.cwd, dict(state.env), dict(state.aliases))
    later = bash.commit()
    changes = SnapshotGraph.diff(before.id, later.id, {**before.objects, **later.objects})
    assert changes.files_added + changes.files_modified + changes.files_removed == []
