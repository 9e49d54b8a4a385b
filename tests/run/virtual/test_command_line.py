"""What commands do, as models and skills expect it of a shell."""

from __future__ import annotations

import pytest

from metier.run.job import Outcome
from metier.run.virtual import VirtualShell
from metier.run.virtual.command_line import prepare_command


def said(shell: VirtualShell, command: str) -> str:
    outcome = shell.execute(command)
    assert outcome.exit_code == 0, outcome
    return outcome.stdout


@pytest.mark.covers("S-02")
def test_a_mounted_skill_can_be_read_listed_and_run(shell: VirtualShell) -> None:
    at = shell.mount(
        "demo", {"SKILL.md": b"---\nname: demo\n---\nDo it.\n", "scripts/hello.sh": b'echo "Hello from skill"\n'}
    )
    assert at == "/.sandbox/skills/demo"
    assert said(shell, f"cat {at}/SKILL.md").startswith("---\nname: demo\n")
    assert said(shell, f"ls {at}").split() == ["SKILL.md", "scripts"]
    assert said(shell, f"sh {at}/scripts/hello.sh") == "Hello from skill\n"


@pytest.mark.covers("S-09")
def test_the_shell_begins_at_the_root() -> None:
    with VirtualShell() as fresh:
        assert said(fresh, "pwd") == "/\n"


@pytest.mark.covers("S-09")
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("mkdir a && cd a && pwd", "/workspace/a\n"),
        ("mkdir -p x/y/z && cd x/y && cd z && pwd", "/workspace/x/y/z\n"),
        ("touch e && wc -c < e", "0\n"),
        ("echo one two", "one two\n"),
        ("echo hi > f && cat f", "hi\n"),
        ("touch b a && ls", "a\nb\n"),
        ("touch a && rm a && ls", ""),
        ("mkdir -p d/e && rm -rf d && ls", ""),
        ("echo x > a && cp a b && cat b", "x\n"),
        ("echo x > a && mv a b && ls", "b\n"),
        ("seq 5 | head -n 2", "1\n2\n"),
        ("seq 5 | tail -n 2", "4\n5\n"),
        ("printf 'a\\nb\\n' | grep b", "b\n"),
        ("export V=1 && echo $V", "1\n"),
        ("V=two; echo $V ${V}", "two two\n"),
        ("mkdir d && echo x > ./d/../d/f && cat d/f", "x\n"),
    ],
)
def test_ordinary_commands(shell: VirtualShell, command: str, output: str) -> None:
    assert said(shell, command) == output


@pytest.mark.covers("S-09")
def test_a_folder_that_is_not_there_is_named(shell: VirtualShell) -> None:
    outcome = shell.execute("cd /missing")
    assert outcome.exit_code == 1
    assert "No such file or directory" in outcome.stderr


@pytest.mark.covers("S-09")
def test_a_command_that_is_not_there_is_127(shell: VirtualShell) -> None:
    outcome = shell.execute("nosuchcommand --x")
    assert outcome.exit_code == 127
    assert "command not found" in outcome.stderr


@pytest.mark.covers("S-09")
def test_help_lists_the_commands(shell: VirtualShell) -> None:
    listed = said(shell, "help")
    assert {"grep", "cat", "cd", "jq", "tar", "sort"} <= set(listed.replace("\n", " ").split())


@pytest.mark.covers("S-09", "ACC-8")
def test_help_says_how_scripts_are_run(shell: VirtualShell) -> None:
    listed = [line.split()[0] for line in said(shell, "help | grep '^  '").splitlines()]
    assert {"sh", "bash", "python3", "node", "cd", "grep"} <= set(listed)
    assert said(shell, "help sh").startswith("sh: sh FILE [ARGUMENT]...\n")
    assert said(shell, "help cd").startswith("cd: ")
    assert shell.execute("help nonsense").exit_code == 1


@pytest.mark.covers("S-09")
@pytest.mark.parametrize(
    "name",
    [
        "cat", "cd", "cp", "date", "echo", "env", "export", "find", "head", "mkdir", "mv", "pwd", "rm", "sed", "sh",
        "tail", "touch", "wc", "which", "xargs", "jq", "awk", "tr", "uniq",
    ],
)  # fmt: skip
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_commands_tell_how_they_are_used(shell: VirtualShell, name: str, option: str) -> None:
    assert "Usage:" in said(shell, f"{name} {option}")


@pytest.mark.covers("S-09")
def test_an_option_that_means_something_else_keeps_its_meaning(shell: VirtualShell) -> None:
    """`-h` is taken for a question only where it is no option: `ls -h` and `sort -h` do what they do in bash."""
    assert said(shell, "printf '2K\\n1K\\n' > f; sort -h f") == "1K\n2K\n"
    assert said(shell, "ls -h") == "f\n"


@pytest.mark.covers("S-10")
@pytest.mark.parametrize(
    ("script", "call", "output"),
    [
        ("echo one\necho two\n", "sh x.sh", "one\ntwo\n"),
        ("# nothing\necho a # b\n", "sh x.sh", "a\n"),
        ("#!/bin/sh\necho a\n", "sh x.sh", "a\n"),
        ("echo $2 $1\n", "sh x.sh one two", "two one\n"),
        ('for a in "$@"; do echo "<$a>"; done\n', "sh x.sh 'a b' c", "<a b>\n<c>\n"),
        ("echo $#\n", "sh x.sh a b c", "3\n"),
        ("mkdir d\necho x > d/f\ncat d/f\n", "sh x.sh", "x\n"),
        ("echo $1\n", "./x.sh a", "a\n"),
        ("echo $1\n", "/workspace/x.sh a", "a\n"),
        ("\n\necho a\n\n\necho b\n", "sh x.sh", "a\nb\n"),
        ("set -- p q\n", "set -- a b; sh x.sh; echo $1 $2", "a b\n"),
        ("echo outer\nsh y.sh in\necho end\n", "echo 'echo inner $1' > y.sh; sh x.sh", "outer\ninner in\nend\n"),
    ],
)
def test_scripts(shell: VirtualShell, script: str, call: str, output: str) -> None:
    shell.write("/workspace/x.sh", script)
    assert said(shell, f"chmod +x x.sh; {call}") == output


@pytest.mark.covers("S-10")
@pytest.mark.parametrize("call", ["sh {}", "{}", "cd /.sandbox/skills/demo/scripts && ./x.sh", "sh -e {}"])
def test_a_script_of_a_skill_stops_on_the_first_error(shell: VirtualShell, call: str) -> None:
    at = shell.mount("demo", {"SKILL.md": b"", "scripts/x.sh": b"echo before\ncat /missing\necho after\n"})
    outcome = shell.execute(call.format(f"{at}/scripts/x.sh"))
    assert (outcome.stdout, outcome.exit_code) == ("before\n", 1)


@pytest.mark.covers("S-10")
def test_stopping_on_an_error_holds_for_scripts_that_scripts_start_by_sh(shell: VirtualShell) -> None:
    shell.write("/workspace/inner.sh", "echo in\nfalse\necho never\n")
    shell.write("/workspace/outer.sh", "sh inner.sh\necho never too\n")
    assert shell.execute("sh outer.sh").stdout == "in\n"


@pytest.mark.covers("S-10")
def test_bash_itself_goes_on_after_an_error(shell: VirtualShell) -> None:
    shell.write("/workspace/x.sh", "false\necho after\n")
    assert said(shell, "bash x.sh") == "after\n"


@pytest.mark.covers("S-10", "ACC-8")
@pytest.mark.parametrize("start", ["", "#!/bin/sh\n", "#!/usr/bin/env bash\n"])
@pytest.mark.parametrize("call", ["./x.sh", "/workspace/x.sh", "chmod +x x.sh; ./x.sh", "chmod -x x.sh; ./x.sh"])
def test_a_script_of_nobodys_skill_needs_no_permission_and_stops_on_an_error(
    shell: VirtualShell, call: str, start: str
) -> None:
    shell.write("/workspace/x.sh", f"{start}echo before\ncat /missing\necho after\n")
    outcome = shell.execute(call)
    assert (outcome.stdout, outcome.exit_code) == ("before\n", 1)


@pytest.mark.covers("S-10", "ACC-8")
def test_a_file_whose_name_says_nothing_needs_permission(shell: VirtualShell) -> None:
    shell.write("/workspace/x", "#!/bin/sh\necho ran\n")
    assert shell.execute("./x").exit_code == 126
    assert said(shell, "chmod +x x; ./x") == "ran\n"


@pytest.mark.covers("S-10")
def test_errors_that_a_script_expects_do_not_stop_it(shell: VirtualShell) -> None:
    shell.write(
        "/workspace/x.sh", "if false; then :; fi\nfalse || echo handled\ngrep -q x /dev/null && echo no\necho end\n"
    )
    assert said(shell, "sh x.sh") == "handled\nend\n"


@pytest.mark.covers("S-10")
def test_a_script_that_is_missing_is_named(shell: VirtualShell) -> None:
    assert "No such file" in shell.execute("sh /missing.sh").stderr
    alone = shell.execute("sh")
    assert alone.exit_code == 2
    assert "missing script path" in alone.stderr


@pytest.mark.covers("S-10")
def test_sh_reads_a_script_from_its_input_like_any_shell(shell: VirtualShell) -> None:
    assert said(shell, "echo 'echo piped' | sh") == "piped\n"
    assert shell.execute("sh", stdin=b"echo given\n").stdout == "given\n"


@pytest.mark.covers("S-10")
@pytest.mark.parametrize("script", ["sh x.sh\n", "./x.sh\n", ". ./x.sh\n", "f() { f; }; f\n"])
def test_a_script_that_calls_itself_meets_a_limit(shell: VirtualShell, script: str) -> None:
    shell.write("/workspace/x.sh", script)
    outcome = shell.execute("chmod +x x.sh; sh x.sh")
    assert outcome.exit_code != 0
    assert "exceed" in outcome.stderr
    assert outcome.killed_by is None, "the interpreter is still there"


@pytest.mark.covers("S-11")
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("echo *.txt", "a.txt b.txt\n"),
        ("echo ?.md", "c.md\n"),
        ("echo '*.txt' \"*.txt\"", "*.txt *.txt\n"),
        ("echo *.zip", "*.zip\n"),
        ("echo d/*", "d/e.txt\n"),
        ("echo /workspace/*.md", "/workspace/c.md\n"),
        ("cd d && echo ../*.md", "../c.md\n"),
        ("grep -l x *.txt", "b.txt\n"),
        ("rm *.txt && ls", "c.md\nd\n"),
        ("touch -- -n && echo -e '-*'", "-*\n"),
    ],
)
def test_patterns(shell: VirtualShell, command: str, output: str) -> None:
    shell.execute("touch a.txt c.md; echo x > b.txt; mkdir d; touch d/e.txt")
    assert said(shell, command) == output


@pytest.mark.covers("S-12")
@pytest.mark.parametrize(
    ("command", "output"),
    [
        (r'echo "say \"hi\""', 'say "hi"\n'),
        (r'echo "a\\b"', "a\\b\n"),
        (r"echo a\ b", "a b\n"),
        (r'echo "a\qb"', "a\\qb\n"),
        (r'printf "a\nb\tc\n"', "a\nb\tc\n"),
        (r"echo $'a\nb\tc'", "a\nb\tc\n"),
        (r'echo "a\nb"', "a\\nb\n"),
        (r"echo 'it'\''s'", "it's\n"),
    ],
)
def test_escapes_are_those_of_bash(shell: VirtualShell, command: str, output: str) -> None:
    r"""Where a simpler shell reads `\n` in quotes as a new line, or `\'` inside single quotes, this one does as bash
    does: scripts of skills are written for bash, and `printf` and `$'...'` have those escapes."""
    assert said(shell, command) == output


@pytest.mark.covers("S-13")
def test_folders_are_listed_copied_and_searched_with_all_that_is_in_them(shell: VirtualShell) -> None:
    shell.execute("mkdir -p d/e; printf 'one\\nTWO two\\n' > d/f; echo two > d/e/g")
    assert said(shell, "ls -R d") == "d:\ne\nf\n\nd/e:\ng\n"
    assert "d/e:\n-rw-r--r--" in said(shell, "ls -lR d")
    assert said(shell, "cp -r d c && cat c/e/g") == "two\n"
    assert said(shell, "grep -r two d | sort") == "d/e/g:two\nd/f:TWO two\n"
    assert said(shell, "grep -rn two d/f d/e | sort") == "d/e/g:1:two\nd/f:2:TWO two\n"
    assert said(shell, "grep -rin 'two' d | sort") == "d/e/g:1:two\nd/f:2:TWO two\n"
    refused = shell.execute("cp d x")
    assert refused.exit_code == 1
    assert "-r not specified" in refused.stderr
    assert "Is a directory" in shell.execute("grep two d").stderr


@pytest.mark.covers("S2-08")
@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("false; echo next", 0, "next\n"),
        ("false && echo next", 1, ""),
        ("true && echo next", 0, "next\n"),
        ("echo a; false", 1, "a\n"),
        ("echo 'a && b' \"; c\" '| d'", 0, "a && b ; c | d\n"),
        ("printf '<%s>' a '' b", 0, "<a><><b>"),
        ("echo x>f;cat<f", 0, "x\n"),
        ("echo x > f; : > f; wc -c < f", 0, "0\n"),
        ("false || echo other", 0, "other\n"),
        ("echo b | cat", 0, "b\n"),
        ("cat <<E\nhere\nE", 0, "here\n"),
        ("echo $(echo sub)", 0, "sub\n"),
        ("echo one\necho two", 0, "one\ntwo\n"),
    ],
)
def test_operators(shell: VirtualShell, command: str, code: int, output: str) -> None:
    """Operators that a simpler shell answers with "unsupported" are supported here, as in bash."""
    outcome = shell.execute(command)
    assert (outcome.exit_code, outcome.stdout) == (code, output)


@pytest.mark.covers("S2-08")
@pytest.mark.parametrize("command", ["&& echo a", "echo a &&", "echo a && && echo b", "| cat", "echo a ;; echo b", "("])
def test_an_operator_without_its_sides_is_a_syntax_error(shell: VirtualShell, command: str) -> None:
    outcome = shell.execute(command)
    assert outcome.exit_code == 2
    assert "syntax error" in outcome.stderr


@pytest.mark.covers("S2-08")
def test_a_folder_cannot_be_written_to(shell: VirtualShell) -> None:
    outcome = shell.execute("mkdir d; echo x > d")
    assert outcome.exit_code == 1
    assert "d" in outcome.stderr


@pytest.mark.covers("S2-09")
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("grep -l b f g", "f\ng\n"),
        ("grep -c b f", "2\n"),
        ("grep -v b f", "a\nc\n"),
        ("grep -w b f", "b\n"),
        ("grep -o 'bb' f", "bb\n"),
        ("grep -m 1 b f", "b\n"),
        ("grep -A 1 a f", "a\nb\n"),
        ("grep -B 1 c f", "bb\nc\n"),
        ("grep -C 1 bb f", "b\nbb\nc\n"),
        ("wc -l < f", "4\n"),
        ("wc -w < g", "2\n"),
        ("find . -name 'f*'", "./f\n"),
        ("date -u -d @0 +%F", "1970-01-01\n"),
        ("which grep", "/usr/bin/grep\n"),
        ("export B1=2 A1=1; env | grep -E '^[AB]1='", "A1=1\nB1=2\n"),
    ],
)
def test_tools(shell: VirtualShell, command: str, output: str) -> None:
    shell.write("/workspace/f", "a\nb\nbb\nc\n")
    shell.write("/workspace/g", "x b\n")
    assert said(shell, command) == output


@pytest.mark.covers("S2-09")
def test_a_name_that_is_none_is_not_exported(shell: VirtualShell) -> None:
    outcome = shell.execute("export 1x=2")
    assert outcome.exit_code == 1
    assert "not a valid identifier" in outcome.stderr
    assert shell.execute("which nosuch").exit_code == 1


def test_state_lasts_from_one_command_to_the_next(shell: VirtualShell) -> None:
    shell.execute("mkdir d; cd d; v=1; f() { echo \"f $v\"; }; a=(x 'y z')")
    assert said(shell, 'pwd; f; echo "${a[1]}"') == "/workspace/d\nf 1\ny z\n"


def test_variables_of_one_command_are_gone_after_it(shell: VirtualShell) -> None:
    said(shell, "export KEEP=old")
    assert shell.execute("echo $KEEP $ONCE", env={"KEEP": "new", "ONCE": "a 'b'\n$c"}).stdout == "new a 'b' $c\n"
    assert said(shell, "echo $KEEP [$ONCE]") == "old []\n"


def test_input_is_read_whatever_the_command_ends_with(shell: VirtualShell) -> None:
    assert shell.execute("cat", stdin=b"a\nb\n").stdout == "a\nb\n"
    assert shell.execute("read x; echo $x # end", stdin=b"a\nb\n").stdout == "a\n"
    assert shell.execute("cat <<E\nhere\nE", stdin=b"a").stdout == "here\n"
    assert said(shell, "ls -A /dev | grep -c stdin; true") == "0\n", "nothing is left of it"


@pytest.mark.each(
    ("command", "wanted"),
    [
        ("./x.sh", "__script ./x.sh"),
        ("a=1 ./x.sh b && c/d e", "a=1 __script ./x.sh b && __script c/d e"),
        ("echo ./x.sh", "echo ./x.sh"),
        ("echo './x.sh; /y.sh'", "echo './x.sh; /y.sh'"),
        ("/usr/bin/env x", "/usr/bin/env x"),
        ('"$d/x.sh" a', '"$d/x.sh" a'),
        ("cat <<E\n./x.sh\nE", "cat <<E\n./x.sh\nE"),
        ("if ( /a/b", "if ( /a/b"),
        ("é=1; /ü/x.sh", "é=1; __script /ü/x.sh"),
    ],
)
def test_scripts_by_their_paths_are_found_where_commands_stand(command: str, wanted: str) -> None:
    assert prepare_command(command) == wanted


def test_output_comes_in_lines_and_in_order(shell: VirtualShell) -> None:
    lines: list[tuple[str, str]] = []
    outcome = shell.execute(
        "echo a; echo b >&2; printf c; sleep 0.01; echo d; printf e",
        on_output=lambda line: lines.append((line.stream, line.text)),
    )
    assert lines == [("stdout", "a\n"), ("stderr", "b\n"), ("stdout", "cd\n"), ("stdout", "e")]
    assert outcome.stdout == "a\ncd\ne"


def test_what_listens_cannot_break_a_command(shell: VirtualShell) -> None:
    def fails(line: object) -> None:
        raise RuntimeError("no")

    assert shell.execute("echo a; echo b", on_output=fails).stdout == "a\nb\n"


def test_an_outcome_says_who_ran_it(shell: VirtualShell) -> None:
    outcome = shell.execute("true")
    assert isinstance(outcome, Outcome)
    assert outcome.runner == "virtual"
    assert outcome.duration_ms > 0
