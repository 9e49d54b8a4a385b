"""Programs and files behind names, variables, links and options that say something else."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.tables import in_part

from metier.guard.tool_rules.matching import forbids, permits
from metier.skill.tool_rules import parse_rules

GIT = "Bash(git:*)"

ALLOWED = [
    (GIT, "git stage a.py"),
    (GIT, "git init-db"),
    (GIT, "git rebase -s ours main"),
    (GIT, "git cherry-pick -s origin/topic"),
    (GIT, "git pull --rebase -X theirs origin main"),
    (GIT, "git rebase --strategy-option=theirs origin/main"),
    (GIT, "git apply --index fix.patch"),
    (GIT, "git stash pop --index"),
    (GIT, "git maintenance run"),
    (GIT, "git log 2>/dev/null"),
    ("Bash(scripts/*)", "scripts/build.sh --fast"),
    ("Bash(python scripts/*)", "python scripts/build.py ../data.csv"),
    ("Bash(python scripts/*)", "python scripts/a..b.py"),
    ("Bash(cat:*)", "cat ../a/b"),
    ("Bash(cat ../*)", "cat ../notes.md"),
    ("Bash(git diff:*)", "git diff HEAD..main -- sub/x"),
    ("Bash(npm run test:*)", "npm run test -- --watch"),
    ("Bash(npm:*)", "npm --prefix web run test"),
    ("Bash(make test:*)", "make test -j4 -k --no-print-directory"),
    ("Bash(make test V=1:*)", "make test V=1 -j4"),
    ("Bash(npm run test:*)", "npm run test -- src/*.js --watch=false"),
    ("Bash(cmake -B build:*)", "cmake -B build -DCMAKE_BUILD_TYPE=Release"),
    ("Bash(cargo test --manifest-path:*)", "cargo test --manifest-path sub/Cargo.toml --release"),
    ("Bash(make:*)", "make -C sub -f Makefile.dev CC=clang test"),
    ("Bash(go test:*)", "go test -run TestExec ./..."),
    ("Bash(go:*)", "go test -exec ./wrap ./..."),
    ("Bash(uv run:*)", "uv run pytest -x"),
    ("Bash(uv:*)", "uv run --frozen pytest"),
    ("Bash(npx:*)", "npx prettier --check ."),
    ("Bash(gcc:*)", "gcc -O2 -Wall -Iinclude -o app main.c"),
    ("Bash(apt-get install:*)", "apt-get install -y jq"),
    ("Bash(uniq:*) Bash(sort:*)", "sort a | uniq -c -f 2"),
    ("Bash(uniq:*) Write", "uniq a b"),
    ("Bash(shuf:*)", "shuf -n 5 a"),
    ("Bash(ssh:*)", "ssh -o UserKnownHostsFile=/dev/null host"),
    ("Bash(env:*) Bash(git:*)", "env -i git status"),
    ("Bash(npm run test:*)", "npm run test --silent --workspace=a"),
    ("Bash(gcc:*)", "gcc src/*.c -DX=* -o app"),
    ("Bash(cmake:*)", "cmake -DCMAKE_BUILD_TYPE=Release -B build ."),
    ("Bash(cmake:*)", "cmake -E make_directory x"),
    ("Bash(go build:*)", "go build -mod=vendor -race ./..."),
    ("Bash(uniq:*)", "uniq --skip-fields 2 a"),
    ("Bash(uniq:*)", "uniq -"),
    ("Bash(cat docs/*)", "cat docs/$NAME"),
    ("Bash(cat docs/*)", "cat docs/*.md"),
    ("Bash(cat docs/*)", "for d in a b; do cat docs/$d/c; done"),
    ("Bash([:*)", '[ "$A" = "[x]" ]'),
]

REFUSED = [
    ("Bash(make test:*)", "make test V=1 -j4 -k"),
    ("Bash(make test:*)", "make test TEST=foo --no-print-directory"),
    ("Bash(npm run test:*)", "npm run test -- src/*.js -C x --dir=out"),
    ("Bash(cmake -B build:*)", "cmake -B build -DCMAKE_C_COMPILER=gcc"),
    ("Bash(cargo test:*)", "cargo test --manifest-path sub/Cargo.toml"),
    (GIT, "git /x"),
    (GIT, "git ./x"),
    (GIT, "git ../x/y"),
    (GIT, "git cherry-pick --strategy=/x o"),
    (GIT, "git rebase -s /x o"),
    (GIT, "git rebase -qs/x o"),
    (GIT, "git pull -4s ./x"),
    (GIT, "git revert --strategy /x HEAD"),
    (GIT, "git pull --strat=a/b origin main"),
    (GIT, "git rebase *"),
    (GIT, "git init-db --template=tmpl"),
    (GIT, "git bisect--helper run ./evil"),
    (GIT, "git submodule--helper foreach ./evil"),
    (GIT, "git checkout--worker"),
    (GIT, "git --work-tree=lnk/hooks checkout-index post-commit"),
    (GIT, "git --work-tree lnk checkout ."),
    (GIT, "git read-tree --index-output=/etc/x HEAD"),
    (GIT, "git read-tree --index-output /etc/x HEAD"),
    (GIT, "git fast-import --export-pack-edges=x"),
    (GIT, "git pack-objects /tmp/base"),
    (GIT, "git apply --build-fake-ancestor=x p"),
    (GIT, "git maintenance register --config-file=x"),
    (GIT, "git maintenance start"),
    (GIT, "git repack --expire-to=/tmp/x"),
    (GIT, "git log 12>/dev/null"),
    (GIT, "git stash drop 12>&1"),
    ("Bash(scripts/*)", "scripts/../../../../usr/bin/id"),
    ("Bash(./scripts/*:*)", "./scripts/../evil"),
    ("Bash(python scripts/*)", "python scripts/../../evil.py"),
    ("Bash(rm build/*)", "rm build/../x"),
    ("Bash(rm build/*)", "rm build/.."),
    ("Bash(cat ../*)", "cat ../../x"),
    ("Bash(cp src/* build/*)", "cp src/a build/../x"),
    ("Bash(exec:*) Bash(git:*)", "exec -a git-config git alias.zz '!./evil'"),
    ("Bash(env:*) Bash(git:*)", "env a.b=c git status"),
    ("Bash(env:*) Bash(git:*)", "env 1=2 git status"),
    ("Bash(npm run test:*)", "npm run test --script-shell=./evil"),
    ("Bash(npm run test:*)", "npm run test --prefix other"),
    ("Bash(make test:*)", "make test SHELL=./evil"),
    ("Bash(make test:*)", "make test CC=./evil"),
    ("Bash(make test:*)", "make test -f other.mk"),
    ("Bash(make test:*)", "make test --eval='x:;evil'"),
    ("Bash(make test:*)", "make test -C /tmp/x"),
    ("Bash(make test:*)", "make test *"),
    ("Bash(go test:*)", "go test -exec ./evil ./..."),
    ("Bash(go build:*)", "go build -toolexec=./evil ./..."),
    ("Bash(cargo test:*)", "cargo test --config 'build.rustc=\"./evil\"'"),
    ("Bash(gcc:*)", "gcc -wrapper ./evil main.c"),
    ("Bash(apt-get update:*)", "apt-get update -o APT::Update::Pre-Invoke::=evil"),
    ("Bash(sudo apt:*)", "sudo apt update -o APT::Update::Pre-Invoke::=evil"),
    ("Bash(cmake:*)", "cmake -E env evil"),
    ("Bash(tcpdump:*)", "tcpdump -z ./evil"),
    ("Bash(pandoc:*)", "pandoc --filter ./evil a.md"),
    ("Bash(gtar:*)", "gtar xf a --to-command=evil"),
    ("Bash(bsdtar:*)", "bsdtar -xf a --use-compress-program evil"),
    ("Bash(gfind:*)", "gfind . -exec evil {} +"),
    ("Bash(uniq:*)", "uniq a b"),
    ("Bash(uniq:*)", "uniq *"),
    ("Bash(shuf:*)", "shuf -o c a"),
    ("Bash(tree:*)", "tree -o c"),
    ("Bash(ssh:*)", "ssh -o UserKnownHostsFile=x host"),
    ("Bash(find:*)", "find . -name -exec -o -exec rm x ';'"),
    ("Bash(perf:*)", "perf stat evil"),
    ("Bash(make test*)", "make test SHELL=./evil"),
    ("Bash(go test*)", "go test -exec ./evil"),
    ("Bash(make test:*)", "make test --fi evil.mk"),
    ("Bash(make test:*)", "make test --fil=evil.mk"),
    ("Bash(make test:*)", "make test --mak=evil.mk"),
    ("Bash(make test:*)", "make test 'X!=touch p'"),
    ("Bash(make test:*)", "make test 'SHELL = ./evil'"),
    ("Bash(make test:*)", "make test 'a$(shell touch p)=1'"),
    ("Bash(make test:*)", "make test 'a-b:=$(shell touch p)'"),
    ("Bash(npm run test:*)", "npm run test --script-sh=./evil"),
    ("Bash(npm run test:*)", "npm run test -script-shell=./evil"),
    ("Bash(npm run test:*)", "npm run test -prefix other"),
    ("Bash(gcc:*)", "gcc --prefix=./ev/ -c a.c"),
    ("Bash(gcc:*)", "gcc *"),
    ("Bash(c++:*)", "c++ -wrapper ./evil a.c"),
    ("Bash(gcc-12:*)", "gcc-12 -wrapper ./evil a.c"),
    ("Bash(clang:*)", "clang --ld-path=./evil a.c"),
    ("Bash(cmake --build:*)", "cmake --build . -Pe.cmake"),
    ("Bash(uniq:*)", "uniq - out"),
    ("Bash(uniq:*)", "uniq -- -a out"),
    ("Bash(cat docs/*)", "cat docs/{..,.}/secret"),
    ("Bash(cat docs/*)", "cat docs/$'..'/secret"),
    ("Bash(rm build/*)", "rm build/{a,../../b}"),
    ("Bash(cat docs/*)", "for d in ..; do cat docs/$d/secret; done"),
    ("Bash(cat docs/*)", "cat docs/.?/x"),
    ("Bash(cat docs/*)", "cat docs/.*/x"),
    (GIT, "git --work-tree=x=. checkout-index -f hooks/post-commit"),
    (GIT, "git worktree add .git/x="),
    (GIT, "git mv a .git/hooks/b=c"),
    ("Bash(pandoc:*)", "pandoc -L evil.lua a.md"),
    ("Bash(go vet:*)", "go vet -vettool=./evil"),
    ("Bash(ld-linux-x86-64.so.2:*)", "ld-linux-x86-64.so.2 /bin/evil"),
]

DENY = "Bash(rm:*) Bash(curl:*) Bash(git push:*)"

FORBIDDEN = [
    "GIT_SSH_COMMAND='rm x' git fetch ssh://h/x",
    "EDITOR='rm x' git commit",
    "GIT_EXTERNAL_DIFF='rm x' git diff HEAD~1",
    "PAGER=$x git log",
    "env GIT_EDITOR='rm x' git commit",
    "sudo EDITOR='rm x' git commit",
    "export GIT_EDITOR='rm x'; git commit",
    "declare -x GIT_EDITOR='rm x'; git commit",
    "export PS4='$(rm x)'; set -x; true",
    "PS4='$(rm x)'; set -x; true",
    "read -r PS4 <<< '$(rm x)'; set -x; true",
    "printf -v PS4 '%s' '$(rm x)'; set -x; true",
    "for PS4 in '$(rm x)'; do set -x; true; done",
    "BASH_ENV=./pay bash -c true",
    "BASH_CMDS[foo]=/bin/rm; foo x",
    "BASH_ALIASES[foo]=rm; shopt -s expand_aliases\nfoo x",
    "TAR_OPTIONS='--checkpoint=1 --checkpoint-action=exec=rm' tar cf a b",
    "MAKEFLAGS='--eval=x' make",
    "LD_PRELOAD=./x.so ls",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.p GIT_CONFIG_VALUE_0=push git p",
    'GIT_CONFIG_PARAMETERS="x" git zz',
    "find . -name -exec -o -exec rm x \\;",
    "env a.b=c rm x",
    "env 1=2 rm x",
    "sudo a.b=c rm x",
    "printf -v 'a[$(rm x)]' x",
    "v='a[$(rm x)]'; printf -v \"$v\" x",
    "v='-va[$(rm x)]'; printf \"$v\" x",
    "v='a[$(rm x)]'; read \"$v\" <<< 1",
    "v='a[$(rm x)]'; declare \"$v=1\"",
    "v='a[$(rm x)]'; declare -i n=v",
    "declare -i n; n='a[$(rm x)]'",
    "v='a[$(rm x)]'; unset \"$v\"",
    "/usr/lib/git-core/git-push b.git",
    "git-push origin main",
    "exec -a git-push git origin",
    "x86_64 rm x",
    "i386 rm x",
    "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
    "perf stat rm x",
    "yash -c 'rm x'",
    "gtimeout 5 rm x",
    "gxargs rm",
    "uv run rm x",
    "uv run --with y rm x",
    "poetry run rm x",
    "npm exec rm x",
    "npx --yes rm x",
    "bundle exec rm x",
    "[[ $(rm x) ]]",
    "[[ a < <(rm x) ]]",
    "[[ -f x ]] && rm x",
    "[[ a ]]\nrm x",
    "[[ -v 'a[$(rm x)]' ]]",
    "[[ $v -eq 1 ]]",
    "[[ v -eq 1 ]]",
    "[[ a =~ b ]] ; rm x",
    "[[ a ; rm x ]]",
    "[[ a || rm ]]",
    "v=rm; [[ a || $v ]]",
    "[[ a ']]' ]] ; rm x",
    "cat <<EOF\n$(rm x)\nEOF",
    "cat <<EOF\n`rm x`\nEOF",
    "cat <<EOF\n${a[$(rm x)]}\nEOF",
    "cat <<EOF\n$((a[$(rm x)]))\nEOF",
    "cat <<EOF\n$USER\nEOF\nrm x",
    "echo ${x/a/$(rm x)}",
    "echo ${x[$(rm x)]}",
    "echo ${x:a[$(rm x)]}",
    "echo ${!x}",
    "mapfile -C 'rm x' -c 1 a",
    "mapfile 'a[$(rm x)]'",
    "mapfile PS4",
    "v='; rm x'; EDITOR=\"true $v\" git commit",
    'v=rm; EDITOR="env $v" git commit',
    "for v in '; rm x'; do EDITOR=\"true $v\" git commit; done",
    "v='; rm x'; export EDITOR=\"true $v\"; git commit",
    "cat <<EOF\n\\\\$(rm x)\nEOF",
    "cat <<EOF\n${y:-$(rm x)}\nEOF",
    "cat <<EOF\nx\\\nEOF\nrm x\nEOF",
    "echo $((a[$(rm x)]))",
    "echo $((a))",
    "echo ${arr[a]}",
    "echo ${x//$(rm x)/}",
    'export EDITOR; : "${EDITOR:=rm x}"; git commit',
    "a=(['b[$(rm x)]']=1)",
    "v='b[$(rm x)]'; a=([v]=1)",
    "declare -a 'x=($(rm x))'",
    "v='($(rm x))'; declare -a \"x=$v\"",
    "x=(); declare 'x=($(rm x))'",
    "EDITOR=r EDITOR+=m git commit",
    "export EDITOR=r; EDITOR+='m x'; git commit",
    "env 'BASH_FUNC_ls%%=() { rm x; }' bash -c ls",
    "set -k; git commit EDITOR='rm x'",
    "set -o keyword; git commit EDITOR='rm x'",
    "set -o history -H\necho rm x\n^echo^^",
    "echo $(cat <<EOF)\n'\nEOF\nrm x\n#'",
    "GIT_SSH_COMMAND=env git fetch rm:x",
    "NPM_CONFIG_SCRIPT_SHELL=./x npm test",
    "CC='rm x' make",
    "GH_BROWSER='rm x' gh browse",
    "RUSTC_WRAPPER=rm cargo build",
    "npm exec -c 'rm x'",
    "mise exec node@20 -- rm x",
    "uv -q run rm x",
    "poetry -C sub run rm x",
    "cross-env EDITOR='rm x' git commit",
    "/lib64/ld64.so.2 /bin/rm x",
    "/lib/libc.musl-x86_64.so.1 /bin/rm x",
    "SHELL=rm make",
]

NOT_FORBIDDEN = [
    "CI=1 npm test",
    "PAGER=cat git log",
    "GIT_EDITOR= git commit -m x",
    "GIT_EDITOR=true git rebase --continue",
    "PYTHONPATH=. pytest",
    "export CI=1 NODE_ENV=test",
    "export PATH",
    "env FOO=bar ls",
    'while IFS= read -r line; do echo "$line"; done',
    "printf '%s\\n' a b",
    "printf -v out '%s' x",
    "declare -r a=1",
    "find . -name '*.py' -exec cat {} +",
    "git stash push",
    "uv run pytest",
    "uv run --frozen pytest -q",
    "npx prettier .",
    "make -C sub CC=clang",
    "npm --prefix web test",
    "[[ $HOME == /root ]] && echo there",
    "[[ -f x && ! -d y || -n $z ]] && echo there",
    "if [[ $# -lt 1 ]]; then echo usage; fi",
    'for x in "${all[@]}"; do echo "${x/a/b}" "${x:0:3}" "${x^^}"; done',
    "cat <<EOF\nhello $USER and ${HOME}, 5 $\nEOF",
    "mapfile -t lines < names.txt",
    "cat <<EOF\ncost \\$5, $1 and ${y:-z}\nEOF",
    'echo "${arr[0]} ${1:-x} ${@:2} ${x//,/ } $((1 + 2))"',
    "ENV=prod npm start",
    "NODE_OPTIONS=--max-old-space-size=4096 npm run build",
    "MAKEFLAGS=-j8 make",
    "LD_LIBRARY_PATH=./lib ./app",
    "GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null git log",
    "PS1='$ '",
    "SHELL=/bin/bash npm test",
    'GIT_SSH_COMMAND="ssh -i $HOME/.ssh/k" git fetch',
    'EDITOR="$HOME/bin/ed" git commit',
    "a[0]=1",
    "a=(x y [5]=z)",
    "gcc src/*.c",
    "cmake -E make_directory x",
    "cmake -P x.cmake",
    "uv run --frozen pytest tests -k at",
    "npx --yes create-app --shell fish",
    "read -p 'Proceed? [y/N] ' a",
    "export MSG='[INFO] hi'",
    '[ "$x" = "[a]" ]',
    '[ -n "${CI:-}" ]',
    'i=0; [ "$i" -lt 5 ]',
    "set -a; set +k",
    "git commit -m '\U0001f469\u200d\U0001f4bb'",
]


@pytest.mark.covers("O-33")
@pytest.mark.each(("rules", "command"), ALLOWED)
def test_what_is_meant_by_a_rule_is_allowed(rules: str, command: str) -> None:
    match = permits(parse_rules(rules), "Bash", {"command": command}, workspace="/nowhere")
    assert match.allowed, match.reason


@pytest.mark.covers("O-33")
@pytest.mark.each(("rules", "command"), REFUSED)
def test_a_disguise_is_no_way_round_a_rule(rules: str, command: str) -> None:
    assert not permits(parse_rules(rules), "Bash", {"command": command}, workspace="/nowhere").allowed


@pytest.mark.each("command", FORBIDDEN)
def test_what_is_forbidden_is_seen_in_every_disguise(command: str) -> None:
    assert forbids(parse_rules(DENY), "Bash", {"command": command}, workspace="/nowhere") is not None


@pytest.mark.each("command", NOT_FORBIDDEN)
def test_what_only_looks_like_a_disguise_is_not_forbidden(command: str) -> None:
    assert forbids(parse_rules(DENY), "Bash", {"command": command}, workspace="/nowhere") is None


@pytest.mark.each(
    ("rule", "command"),
    [
        ("Bash(curl * | python)", "curl x | python -"),
        ("Bash(curl | python)", "curl x | python -"),
        ("Bash(git add:*)", "git stage x"),
    ],
)
def test_a_rule_that_forbids_means_every_argument(rule: str, command: str) -> None:
    assert forbids(parse_rules(rule), "Bash", {"command": command}, workspace="/nowhere") is not None


@pytest.mark.parametrize(
    ("arguments", "is_allowed"),
    [
        ({"command": "git mv post-commit lnk/hooks/post-commit"}, False),
        ({"command": "git -C lnk/hooks checkout x"}, False),
        ({"command": "git -C lnk -C hooks checkout x"}, False),
        ({"command": "git status", "cwd": "lnk/hooks"}, False),
        ({"command": "cd lnk/hooks && git status"}, False),
        ({"command": "cd src && git mv ../post-commit ../lnk/hooks/post-commit"}, False),
        ({"command": "cd src && cd ../lnk && git status"}, False),
        ({"command": "git mv post-commit ln?/hooks"}, False),
        ({"command": "git mv post-commit ln?/hooks/post-commit"}, False),
        ({"command": "git mv post-commit {lnk,lnk}/hooks/"}, False),
        ({"command": "cd $PWD/lnk && git status"}, False),
        ({"command": "cd src && git mv a b"}, True),
        ({"command": "git mv post-commit src/hooks"}, True),
        ({"command": "cd src && git status"}, True),
        ({"command": "git status", "cwd": "src"}, True),
    ],
)
def test_a_link_is_no_way_into_the_files_of_a_repository(
    arguments: dict[str, str], is_allowed: bool, tmp_path: Path
) -> None:
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    (tmp_path / "src").mkdir()
    (tmp_path / "lnk").symlink_to(".git")
    rules = parse_rules("Bash(git:*) Bash(cd:*)")
    assert permits(rules, "Bash", arguments, workspace=str(tmp_path)).allowed is is_allowed


@in_part
@pytest.mark.each(
    ("before", "unit", "count"), [("npx -x", " a", 4_000), ("npx -x " * 5, "a ", 1_000), ("", "npx ", 1_000)]
)
def test_words_that_may_be_programs_take_bounded_time(before: str, unit: str, count: int, part: float) -> None:
    command = before + unit * int(count * part)
    start = time.process_time()
    forbids(parse_rules(DENY), "Bash", {"command": command}, workspace="/nowhere")
    assert time.process_time() - start < 5 * part
