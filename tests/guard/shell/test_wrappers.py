"""What commands start or write beside what their programs do, as rules see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metier.guard.tool_rules.matching import forbids, permits
from metier.skill.tool_rules import parse_rules

GIT = "Bash(git:*)"

ALLOWED = [
    ("Bash(caffeinate:*) Bash(git:*)", "caffeinate -i git status"),
    ("Bash(ls:*)", "ls [a-z]*.py"),
    ("Bash(cat:*)", "cat x[0-9].txt"),
    ("Bash(echo:*) Write", "echo hi > a.txt"),
    (GIT, "git log $BRANCH"),
    (GIT, 'git add "$FILE"'),
    (GIT, "git add *"),
    (GIT, "git add *.py"),
    (GIT, "git rm *.py"),
    (GIT, "git mv *.py src/"),
    (GIT, "git checkout -- *"),
    (GIT, "git diff src/*.py"),
    (GIT, "git diff -- *.py"),
    (GIT, "git log -1 -- *.py"),
    (GIT, 'git log --oneline -- "$FILE"'),
    (GIT, "git diff ./*"),
    (GIT, "git grep foo -- '*.py'"),
    (GIT, "git grep -n foo -- *.py"),
    (GIT, 'git log --author="$USER"'),
    (GIT, "git log --output-indicator-new=+"),
    (GIT, "git push origin $BRANCH"),
    (GIT, "git stash"),
    (GIT, "git worktree add ../x main"),
    (GIT, 'for f in *.py; do git add "$f"; done'),
    (GIT, 'for f in *.py; do git mv "$f" old/; done'),
    (GIT, 'for f in src/*.py; do git diff "$f"; done'),
    (GIT, "for b in main dev; do git checkout $b && git pull origin $b; done"),
    (GIT, "git config --global --list"),
    (GIT, "git config -f .gitmodules --get-regexp path"),
    (GIT, "git config user.name 'A B'"),
    (GIT, "git config --get remote.origin.url"),
    (GIT, "git remote -v"),
    (GIT, "git bisect good $X"),
    (GIT, "git submodule update --init --recursive"),
    (GIT, "git clone https://x/y.git"),
    (GIT, "git log --format='%h' --since=1.week -- src"),
    (GIT, "git show HEAD:a.py"),
    (GIT, "git cherry-pick abc"),
    (GIT, "git add -- -x"),
    (GIT, "git archive HEAD"),
    (GIT, "git bundle create - HEAD"),
    (GIT, 'git -C "$DIR" status'),
    (GIT, "git --git-dir=.git --work-tree=. status"),
    (GIT, "git format-patch -1 --stdout"),
    ("Bash(find:*)", "find . -name *.py"),
    ("Bash(find:*)", "find $DIR -name x"),
    ("Bash(find:*)", 'find "$PWD" -name x'),
    ("Bash(find:*)", "find ~/x -type f"),
    ("Bash(find:*)", "find . -name '*.py' -delete"),
    ("Bash(find:*)", "for d in src lib; do find $d -name x; done"),
    ("Bash(find:*)", 'for d in */; do find "$d" -name x; done'),
    ("Bash(find:*)", "find src/* -newer x"),
    ("Bash(printf:*)", "printf '%s\\n' [x]"),
    ("Bash(printf:*)", 'printf "%d %s\\n" 5 "$X"'),
    ("Bash(test:*)", "test -f a && test -d 'b' "),
    ("Bash([:*) Bash(git:*)", 'for f in a b; do [ -f "$f" ] && git add $f; done'),
    ("Bash([:*) Bash(read:*)", 'read x; [ "$x" = y ]'),
    ("Bash(set:*) Bash(git:*)", "set -euo pipefail; git status"),
    ("Bash(cd:*) Bash(./run.sh)", "cd /nowhere && ./run.sh"),
    ("Bash(export FOO=1) Bash(git:*)", "export FOO=1; git status"),
    ("Bash(sort:*)", "sort -k2,2 -t, x"),
    ("Bash(sort:*)", "sort -rn a.txt"),
    ("Bash(sort:*) Write(out/**)", "sort -o out/x y"),
    ("Bash(git:*) Write(out/**)", "git log --output=out/x"),
    ("Bash(tar:*)", "tar czf x.tgz src/*"),
    ("Bash(tar:*)", "tar -xzf a.tgz -C /tmp/x"),
    ("Bash(ssh:*)", "ssh -vp 22 -i ~/.ssh/key user@host 'ls -la'"),
    ("Bash(ssh:*)", "ssh host tar -I x"),
    ("Bash(scp:*)", "scp -P 22 a.txt host:b"),
    ("Bash(rsync:*)", "rsync -av --delete ./a/ host:b/"),
    ("Bash(wget:*)", "wget -qO- https://x"),
    ("Bash(install:*)", "install -m 755 a b"),
    ("Bash(man:*)", "man ls"),
    ("Bash(timeout 60 git:*)", "timeout 60 git status"),
    ("Bash(sudo apt:*)", "sudo apt install x"),
    ("Bash(zip:*)", "zip -r a.zip src"),
    ("Bash(git:*) Bash(read:*)", 'git ls-files | while read -r f; do git add "$f"; done'),
    ("Bash(bash:*)", "bash ./x.sh"),
    ("Bash(cat:*)", "cat *.txt | cat"),
    ("Bash(sort:*)", "sort -- *.txt"),
    ("Bash(rg:*)", "rg foo src/*.py"),
    ("Bash(rg:*)", 'rg "$X" .'),
    ("Bash(unset:*)", "unset x"),
    ("Bash(export:*)", "export -p"),
]

REFUSED = [
    ("Bash(find:*)", "find . -[e]xec rm {} ';'"),
    ("Bash(caffeinate:*) Bash(git:*)", "caffeinate -i rm x"),
    ("Bash(tmux:*)", "tmux new 'rm x'"),
    ("Bash(valgrind:*) Bash(git:*)", "valgrind rm x"),
    ("Bash(setuidgid:*) Bash(git:*)", "setuidgid me rm x"),
    ("Bash(rsync:*)", "rsync --rsync-path='sh -c id' a h:b"),
    ("Bash(echo:*) Edit", "echo hi > a.txt"),
    ("Bash(echo:*) Edit(*.md)", "echo hi >> a.md"),
    (GIT, "git grep -${Z}O./p foo"),
    (GIT, "git fetch --${Z}upload-pack=./p ."),
    (GIT, "git fetch ${Z}--upload-pack=./p ."),
    (GIT, "git log --${Z}output=x"),
    (GIT, "git log ${Z}--output=x"),
    (GIT, "git log --out=x"),
    (GIT, "git log --output x"),
    (GIT, "git log -p --output=.git/config"),
    (GIT, "git blame --output=x f"),
    (GIT, "git shortlog --output=x HEAD"),
    (GIT, "git cherry-pick --output=x HEAD"),
    (GIT, "git archive -o x HEAD"),
    (GIT, "git archive --o=x HEAD"),
    (GIT, "git archive -vox HEAD"),
    (GIT, "git bundle create x HEAD"),
    (GIT, "git format-patch -o x -1"),
    (GIT, "git format-patch -1 --output-directory=x"),
    (GIT, "git mv a .git/hooks/pre-commit"),
    (GIT, "git mv a .gi?/x"),
    (GIT, "git mv a .g{it,x}/x"),
    (GIT, "git mv a .g${Z}it/hooks/x"),
    (GIT, "git --work-tree=.git checkout -- hooks/x"),
    (GIT, "git -C .git --git-dir=. checkout -- hooks/x"),
    (GIT, "git -C sub --work-tree=. checkout x"),
    (GIT, "git checkout-index --prefix=.git/ hooks/x"),
    (GIT, "git checkout-index --pre=x/ -a"),
    (GIT, "git worktree add .git/hooks x"),
    (GIT, "git clone . .git/hooks"),
    (GIT, "git init --separate-git-dir=x"),
    (GIT, "git pull -- --upload-pack=./p ."),
    (GIT, "git request-pull HEAD -- --upload-pack=./p"),
    (GIT, "git subtree pull --prefix=x --upload-pack=./p main"),
    (GIT, "git diff *"),
    (GIT, "git grep *"),
    (GIT, "git log *"),
    (GIT, "git fetch *"),
    (GIT, "git grep foo$IFS-O./p"),
    (GIT, "git submodule x${IFS}foreach y"),
    (GIT, "git submodule ${Z}foreach y"),
    (GIT, "git submodule fore${Z}ach y"),
    (GIT, "git bisect ${Z}run x"),
    (GIT, "git config core.fsmonitor x --get"),
    (GIT, "git config --comment list core.fsmonitor x"),
    (GIT, "git config branch.x.remote ext::sh"),
    (GIT, "git -c branch.x.remote=ext::sh fetch"),
    (GIT, "for a in foreach; do git submodule $a x; done"),
    (GIT, "for a in sub; do git ${a}module foreach x; done"),
    (GIT, "for a in -Ocurl; do git grep $a x; done"),
    (GIT, "for a in 'x -Ocurl'; do git grep $a x; done"),
    (GIT, "for a in *; do git grep $a x; done"),
    (GIT, 'for a in *; do git grep "$a" x; done'),
    (GIT, "for a in x y; do for b in run z; do git bisect $b $a; done; done"),
    (GIT, "git log $'--output=x'"),
    (GIT, "git mailinfo a b"),
    (GIT, "git interpret-trailers --in-place --trailer x f"),
    ("Bash(find:*)", "find .${IFS}-exec${IFS}touch${IFS}x${IFS}\\;"),
    ("Bash(find:*)", "find . -ex${Z}ec touch x \\;"),
    ("Bash(find:*)", "find . ${Z}-exec touch x \\;"),
    ("Bash(find:*)", "find . *"),
    ("Bash(find:*)", "find . -e*"),
    ("Bash(find:*)", "find . -fprintf x y"),
    ("Bash(find:*)", "find . -fls x"),
    ("Bash(find:*)", "for a in *; do find $a -name x; done"),
    ("Bash(find:*)", "find -files0-from x -exec rm {} +"),
    ("Bash(find:*)", "find $PWD -name x"),
    ("Bash(find:*)", "find . -name $_"),
    ("Bash(printf:*) Bash(ls:*)", "printf '123%n' PATH; ls"),
    ("Bash(printf:*) Bash(ls:*)", "printf $Z -v PATH .; ls"),
    ("Bash(printf:*) Bash(ls:*)", "printf -- '%n' PATH"),
    ("Bash(unset:*) Bash(ls:*)", "unset PATH; ls"),
    ("Bash(test:*)", "for x in 'b[$(touch P)]'; do test -v BASH_VERSINFO[x]; done"),
    ("Bash(test:*)", "test -v b[x]"),
    ("Bash([:*) Bash(read:*)", 'read x y; [ "$x" "$y" ]'),
    ("Bash(set:*)", "set -oo pipefail keyword"),
    ("Bash(set:*)", "set -o allexport"),
    ("Bash(shopt:*)", "shopt -so keyword"),
    ("Bash(bash:*) Bash(git:*)", "bash -o keyword -c 'git status'"),
    ("Bash(bash:*)", "bash dev/stdin <<< x"),
    ("Bash(bash:*)", "bash ./stdin <<< x"),
    ("Bash(bash:*)", "bash /proc/self/fd/0"),
    ("Bash(bash:*)", "bash ../../proc/self/fd/0"),
    ("Bash(bash:*)", "bash fd/0"),
    ("Bash(source:*)", "source //dev//stdin"),
    ("Bash(declare:*) Bash(read:*)", "declare -i x; read x"),
    ("Bash(eval:*) Bash(read:*) Bash(git:*)", "eval 'read x'; git grep $x y"),
    ("Bash(command:*) Bash(read:*) Bash(git:*)", "command -p command read x; git grep $x y"),
    ("Bash(time:*) Bash(read:*) Bash(git:*)", "time -p read x; git grep $x y"),
    ("Bash(git -c core.pager=cat:*)", "git -c core.pager=cat -c alias.x='!touch' x"),
    ("Bash(nice env:*)", "nice env sh -c x"),
    ("Bash(sudo timeout 5 bash -c:*)", "sudo timeout 5 bash -c 'x'"),
    ("Bash(env:*) Bash(./run.sh)", "env -C evil ./run.sh"),
    ("Bash(find:*) Bash(./run.sh:*)", "find . -execdir ./run.sh {} \\;"),
    ("Bash(cd:*) Bash(python3 scripts/x.py:*)", "cd evil && python3 scripts/x.py"),
    ("Bash(eval:*) Bash(cd:*) Bash(./r)", "eval 'cd x'; ./r"),
    ("Bash(sort:*)", "sort -o .git/config x"),
    ("Bash(sort:*)", "sort -uo x y"),
    ("Bash(sort:*)", "sort --out=x y"),
    ("Bash(sort:*)", "sort ${Z}-ox y"),
    ("Bash(ssh:*)", "ssh -PoProxyCommand=x host"),
    ("Bash(ssh:*)", "ssh host -oProxyCommand=x"),
    ("Bash(ssh:*)", "ssh host $Z -oProxyCommand=x"),
    ("Bash(tar:*)", "tar cf x *"),
    ("Bash(tar:*)", "tar cf -- *"),
    ("Bash(tar:*)", "tar --file=evil:/x -c y"),
    ("Bash(tar:*)", "tar ${Z}--to-command=x -xf y"),
    ("Bash(env:*) Bash(git:*)", "env -C .git git --git-dir=. checkout -- hooks/x"),
    ("Bash(cd:*) Bash(git:*)", "cd .git && git --git-dir=. checkout -- hooks/x"),
    ("Bash(zip:*)", "zip -rT${Z}T x a.zip f"),
    ("Bash(xargs:*) Bash(git:*)", "xargs git log"),
    ("Bash(rsync:*)", "rsync -T -- -e x a b"),
    (GIT, "git log -*"),
    (GIT, "git log -$Z-output=x"),
    (GIT, "git show -c x -*"),
    (GIT, "git grep -n* foo"),
    (GIT, "git archive -v* HEAD"),
    ("Bash(sort:*)", "sort -n* x"),
    ("Bash(tar:*)", "tar -c* x"),
    ("Bash(zip:*)", "zip -rT* x"),
    ("Bash(ssh:*)", "ssh -v* host"),
    ("Bash(fd:*)", "fd -* x"),
    ("Bash(fd:*)", "fd ${Z}-x touch"),
    ("Bash(printf:*)", "printf -* x"),
    ("Bash(jobs:*)", "jobs -x touch y"),
    # What a real shell was once made to start so.
    ("Bash(find:*)", "for a in exec; do find . -maxdepth 0 -$a touch PWNED \\; ; done"),
    (GIT, "for a in foreach; do git submodule $a 'touch PWNED'; done"),
    (GIT, "for a in x./p; do git rebase -$a HEAD~1; done"),
    (GIT, "for a in upload-pack=./p; do git ls-remote --$a .; done"),
    (GIT, "for a in run; do git bisect start HEAD HEAD~1; git bisect $a touch PWNED; done"),
    (GIT, "git ls-remote -o -- --upload-pack='touch PWNED;' ."),
    (GIT, "git grep -e -- -O'touch PWNED;' foo"),
    (GIT, "git grep -e foo --and -e -- -O'touch PWNED;'"),
    (GIT, "git fetch -o -- --upload-pack='touch PWNED;' ."),
    (GIT, "git clone -b -- -u 'touch PWNED;' . x"),
    (GIT, "git push -o -- --receive-pack='touch PWNED;' . master"),
    (GIT, "git rebase -X -- -x 'touch PWNED' HEAD~1"),
    (GIT, "git rebase --onto -- -x 'touch PWNED' HEAD~1"),
    (GIT, "git config core.fsmonitor 'touch PWNED' -- --get && git status"),
    (GIT, "git config core.fsmonitor 'touch PWNED;' -- -l && git status"),
    (GIT, "git config --comment list core.fsmonitor 'touch PWNED;' && git status"),
    (
        GIT,
        "git log -1 --format='[core]%n fsmonitor=touch PWNED' --output=.git/config && git status",
    ),
    (GIT, "git log --output='-Otouch PWNED;' && git grep foo -*"),
    (GIT, "git subtree add --prefix=zz -- '--upload-pack=touch PWNED;' origin"),
    (GIT, "git subtree add --prefix=zz '--upload-pack=touch PWNED;' origin"),
    (GIT, "git citool"),
    ("Bash(sort:*)", "sort -T -- --compress-program=./p -S 1k f"),
    ("Bash(tar:*)", "tar -C . -X -- --to-command='touch PWNED' -cf /dev/null f"),
    ("Bash(tar:*)", "tar -cf x.tar f && tar -xf x.tar -b 1 --transform -- --to-command='touch PWNED'"),
    ("Bash(tar:*)", "tar -cf x.tar f && tar -xf x.tar --exclude -- --to-command='touch PWNED'"),
    ("Bash(tar:*)", "tar cf /dev/null *"),
    ("Bash(ssh:*)", "ssh -voProxyCommand='touch PWNED' host"),
    ("Bash(ssh:*)", "ssh -l -- -oProxyCommand='touch PWNED' host"),
    ("Bash(ssh:*)", "ssh -- -oProxyCommand='touch PWNED' host"),
    ("Bash(scp:*)", "scp -D 'touch PWNED' f h:y"),
    ("Bash(scp:*)", "scp -voProxyCommand='touch PWNED' f h:y"),
    ("Bash(split:*)", "split --additional-suffix -- --filter='touch PWNED' f"),
    ("Bash(rsync:*)", "rsync -T -- -e 'touch PWNED' f h:y"),
    ("Bash(wget:*)", "wget -O -- -e use_askpass=./p http://127.0.0.1:1/"),
    ("Bash(test:*)", "for x in 'b[$(touch PWNED)]'; do test -v 'BASH_VERSINFO[x]'; done"),
    ("Bash([:*)", "for x in 'b[$(touch PWNED)]'; do [ -v 'PIPESTATUS[x]' ]; done"),
    ("Bash(unset:*)", "for x in 'b[$(touch PWNED)]'; do unset 'PIPESTATUS[x]'; done"),
    ("Bash(read:*) Bash(test:*)", "read x <<'E'\nb[$(touch PWNED)]\nE\ntest -v 'BASH_VERSINFO[x]'"),
    ("Bash(let:*)", "for x in 'b[$(touch PWNED)]'; do let x; done"),
    ("Bash(bash:*) Bash(git:*)", "bash -kc 'git diff HEAD~1 GIT_EXTERNAL_DIFF=\"touch PWNED;\"'"),
    ("Bash(set:*) Bash(git:*)", "set -k; git diff HEAD~1 GIT_EXTERNAL_DIFF='touch PWNED;'"),
    ("Bash(bash:*)", "bash //dev/stdin <<< 'touch PWNED'"),
    ("Bash(source:*)", "source //dev/stdin <<< 'touch PWNED'"),
    ("Bash(timeout 60 git:*)", "timeout 60 git -c alias.x='!touch PWNED' x"),
    ("Bash(sudo env:*)", "sudo env sh -c 'touch PWNED'"),
    ("Bash(nice env:*)", "nice env sh -c 'touch PWNED'"),
    ("Bash(./b)", "./b\xa0"),
    ("Bash(./b)", "./b\r"),
    ("Bash(command:*) Bash(cd:*) Bash(git:*) Write(out/**)", "command cd out; git log -1 > out/PWNED"),
    ("Bash(command:*) Bash(read:*) Bash(git:*)", "command read x <<< '-O./p'; git grep foo $x"),
    ("Bash(read:*) Bash(git:*)", "read -rax <<< '-O./p'; git grep foo $x"),
    ("Bash(install:*)", "install -s --strip-program=./p f g"),
    ("Bash(diff3:*)", "diff3 --diff-program=./p f f f"),
    ("Bash(find:*)", "find . -maxdepth 0 -ex* touch PWNED \\;"),
    (GIT, "git config core.fsmonitor 'touch PWNED;' --get && git status"),
    (GIT, "git grep -e -- -O'touch PWNED;' -e foo"),
    (GIT, "git grep -f -- -O'touch PWNED;' -e foo"),
    (GIT, "git log --output='-Otouch PWNED;' && git grep -* foo"),
    ("Bash(read:*) Bash(git:*)", "read -rax <<< '-O./p'; git grep $x foo"),
    ("Bash(command:*) Bash(read:*) Bash(git:*)", "command read x <<< '-O./p'; git grep $x foo"),
    ("Bash(getopts:*) Bash(git:*)", "getopts x: o -x-O./p; git grep $OPTARG foo"),
    ("Bash(sort:*)", "sort -T. --field-separator , -S 1k -k -- --compress-program=./p f"),
    ("Bash(sort:*)", "sort -S 1k -T -- --compress-program=./p f"),
    ("Bash(zip:*)", "zip -qTTT './p' a.zip f"),
    ("Bash(zip:*)", "zip -qT -b . -TT './p' a.zip f"),
    ("Bash(zip:*)", "zip -T -q -rTT './p' a.zip f"),
    ("Bash(man:*)", "man -C ./m.conf ls"),
    ("Bash(man:*)", "man -C ./m.conf -l f"),
    ("Bash(scp:*)", "scp -D ./p f h:y"),
    ("Bash(wget:*)", "wget -O -- --use-askpass=./p http://127.0.0.1:1/"),
    ("Bash(wget:*)", "wget -O x -- --use-askpass=./p http://127.0.0.1:1/"),
    ("Bash(sdiff:*)", "sdiff --diff-program=./p f f"),
    ("Bash(xargs:*) Bash(git log:*)", "xargs git log <<< -1"),
    ("Bash(git log:*)", "git log -1 > /dev/tcp/127.0.0.1/1"),
    ("Bash(git:*) Read", "git status\\\n;touch PWNED"),
    ("Bash(cd:*) Bash(./run.sh)", "cd evil && ./run.sh"),
    ("Bash(git * main)", "git -c alias.x=!touch x main"),
    ("Bash(* --version)", "find . -maxdepth 0 -exec touch PWNED \\; --version"),
    ("Bash(bash:*) Bash(git:*)", "bash -c 'git $0' 'submodule'"),
    ("Bash(bash:*) Bash(git:*)", "bash -c 'git submodule $0 \"touch PWNED\"' foreach"),
    ("Bash(env:*) Bash(git:*)", "env -C .git git status"),
    ("Bash(xargs:*) Bash(git:*)", "xargs -I % git submodule % <<< foreach"),
    ("Bash(xargs:*) Bash(git:*)", "xargs --replace=% git status"),
    ("Bash(xargs:*) Bash(find:*)", "xargs -I% find . -maxdepth 0 -exec % PWNED \\; <<< touch"),
    ("Bash(xargs:*) Bash(find:*)", "xargs -0 -I exe find . -maxdepth 0 -exec git status \\; <<< touch"),
    ("Bash(xargs:*) Bash(git:*)", "xargs -Iz -n1 git subz foreach <<< module"),
    ("Bash(xargs:*) Bash(git:*)", "xargs -rIz git submodule z 'touch PWNED' <<< foreach"),
    ("Bash(xargs:*) Bash(git:*)", "xargs -I -- git submodule -- 'touch PWNED' <<< foreach"),
    ("Bash(find:*) Bash(git:*)", "find f -exec git submodule {} \\;"),
    (GIT, "for a in foreach; do git --no-pager submodule $a 'touch PWNED'; done"),
    (GIT, "git -C sub submodule f?reach 'touch PWNED'"),
    ("Bash(git push:*)", "git push . master --receive-pack='touch PWNED;'"),
    ("Bash(git log:*)", "git log -1 --format='%nx' --output=.git/config"),
    ("Bash(git diff:*)", "git diff --no-index --output=../../../../tmp/zzz a b"),
    ("Bash(echo:*)", "echo a | tee x"),
    (GIT, "git status #\ntouch PWNED"),
    (GIT, "git log <<'A' <<'B'\nB\nA\ntouch PWNED\nB\n"),
    ("Bash(ssh:*)", "ssh -o 'Port=22\nProxyCommand=touch PWNED' host"),
    ("Bash(ssh:*)", "ssh -4 -o User=a -o 'port 22' -I ./x.so host"),
    ("Bash(ssh:*)", "ssh -J 'a' -S none -vo 'ProxyCommand=touch PWNED' host"),
    ("Bash(man:*)", "man --config-file=x ls"),
    ("Bash(tar:*)", "tar --rmt-comm=x"),
    ("Bash(tar:*)", "tar -cf evil:/x --force-loc f"),
    ("Bash(tar:*)", "tar -cf evil:/x f"),
    ("Bash(printf:*)", "for a in v; do printf -$a 'PIPESTATUS[x]' z; done"),
    ("Bash(printf:*)", "for x in 'b[$(touch PWNED)]'; do for a in v; do printf -$a 'PIPESTATUS[x]' z; done; done"),
    ("Bash(printf:*) Bash(git:*)", "for a in v; do printf -$a GIT_EXTERNAL_DIFF 'touch PWNED;'; done; git diff HEAD~1"),
    ("Bash(printf:*) Bash(git:*)", "for a in v; do printf -$a HOME '%s' $PWD; done; git status"),
    ("Bash(printf:*) Bash(ls:*)", "for a in vPATH; do printf -$a '%s' .; done; ls"),
    ("Bash(hash:*) Bash(git:*)", "hash -p ./p git; git status"),
    ("Bash(declare:*) Bash(git:*)", "declare -x GIT_EXTERNAL_DIFF='touch PWNED;'; git diff HEAD~1"),
    ("Bash(export:*) Bash(git:*)", "export GIT_EXTERNAL_DIFF='touch PWNED;'; git diff HEAD~1"),
    ("Bash(read:*) Bash(git:*)", "read HOME <<< .; git status"),
    ("Bash(read:*) Bash(git:*)", "read -rp x -aHOME <<< .; git status"),
    ("Bash(read:*) Bash(ls:*)", "read -raPATH <<< .; ls"),
    ("Bash(command:*) Bash(read:*) Bash(ls:*)", "for a in PATH; do read $a <<< .; done; ls"),
    ("Bash(read:*) Bash(ls:*)", "for a in PATH; do read $a <<< .; done; ls"),
    ("Bash(wait:*) Bash(ls:*)", "wait -p PATH; ls"),
    ("Bash(set:*) Bash(git:*)", "set -a; git status"),
    ("Bash(shopt:*) Bash(git:*)", "shopt -s extglob; git status"),
    ("Bash(unset:*) Bash(git:*)", "unset PATH; git status"),
    ("Bash(ls:*)", "for PATH in .; do ls; done"),
    (
        "Bash(git log:*)",
        "git log -1 --format='[diff]%n external=touch PWNED;' --output=.git/config && git log -p --ext-diff",
    ),
    ("Bash(git log:*)", "git log -1 --format=x --output=../PWNED_outside"),
    (
        "Bash(git show:*)",
        "git show -s --format='[diff]%n external=touch PWNED;' --output=.git/config HEAD && git show --ext-diff",
    ),
    ("Bash(git fetch:*)", "git fetch -o -- --upload-pack='touch PWNED;' ."),
    ("Bash(git grep:*)", "git grep -e -- -O'touch PWNED;' -e foo"),
    ("Bash(git submodule:*)", "git submodule fore?ch 'touch PWNED'"),
    ("Bash(ls:*) Bash(test:*)", "for x in 'b[$(touch PWNED)]'; do test -v 'BASH_VERSINFO[x]' && ls; done"),
]

FORBIDDEN = [
    ("Bash(curl:*)", "x=-exec; find . $x curl {} \\;"),
    ("Bash(curl:*)", "printf -v x -- -exec; find . $x curl {} +"),
    ("Bash(curl:*)", "for a in exec; do find . -$a curl x \\; ; done"),
    ("Bash(curl:*)", "for a in foreach; do git submodule $a 'curl x'; done"),
    ("Bash(curl:*)", "find . ${Z}-exec curl x \\;"),
    ("Bash(curl:*)", "tar cf x *"),
    ("Bash(curl:*)", "git grep -e -- -Ocurl x"),
    ("Bash(curl:*)", "bash //dev/stdin <<< 'curl x'"),
    ("Bash(curl:*)", "./b\u00a0"),
    ("Bash(./b)", "./b\t"),
    ("Write(x)", "git log --output=x"),
    ("Write(x)", "git archive -o x HEAD"),
    ("Write(x)", "find . -fprint x"),
    ("Write(/etc/**)", "cd /etc && echo x > y"),
    ("Write(/etc/**)", "command cd /etc; echo x > y"),
    ("Write(/etc/**)", "cd /; cd etc; echo x > y"),
    ("Write(/etc/**)", "cd $X && echo x > y"),
]

NOT_FORBIDDEN = [
    ("Bash(curl:*)", "export A=1; make"),
    ("Bash(curl:*)", "set -a; make"),
    ("Bash(curl:*)", "git add *"),
    ("Bash(curl:*)", "cd sub && ./run.sh"),
    ("Bash(curl:*)", 'while read -r f; do cat "$f"; done < x'),
    ("Bash(curl:*)", "git log --output=x"),
    ("Write(/etc/**)", "cd src && echo x > y"),
    ("Write(/etc/**)", "cd $X && echo x > /tmp/y"),
]


@pytest.mark.covers("O-33")
@pytest.mark.each(("rules", "command"), ALLOWED)
def test_what_a_command_starts_and_writes_may_be_inside_the_rules(rules: str, command: str) -> None:
    match = permits(parse_rules(rules), "Bash", {"command": command}, workspace="/nowhere")
    assert match.allowed, match.reason


@pytest.mark.covers("O-33")
@pytest.mark.each(("rules", "command"), REFUSED)
def test_nothing_is_started_or_written_that_is_not_inside_the_rules(rules: str, command: str) -> None:
    match = permits(parse_rules(rules), "Bash", {"command": command}, workspace="/nowhere")
    assert not match.allowed
    assert match.reason.isprintable()


@pytest.mark.each(("rules", "command"), FORBIDDEN)
def test_what_is_forbidden_is_seen_through_options_and_folders(rules: str, command: str) -> None:
    assert forbids(parse_rules(rules), "Bash", {"command": command}, workspace="/nowhere") is not None


@pytest.mark.each(("rules", "command"), NOT_FORBIDDEN)
def test_what_only_changes_the_shell_is_not_forbidden(rules: str, command: str) -> None:
    match = forbids(parse_rules(rules), "Bash", {"command": command}, workspace="/nowhere")
    assert match is None, match.reason


@pytest.mark.each(
    ("rules", "arguments", "is_allowed"),
    [
        ("Bash(./run.sh)", {"command": "./run.sh"}, True),
        ("Bash(./run.sh)", {"command": "./run.sh", "cwd": "."}, True),
        ("Bash(./run.sh)", {"command": "./run.sh", "cwd": "evil"}, False),
        ("Bash(./run.sh:*)", {"command": ["./run.sh", "x"], "cwd": "evil"}, False),
        ("Bash(python3 scripts/x.py:*)", {"command": "python3 scripts/x.py", "cwd": "evil"}, False),
        ("Bash(python3:*)", {"command": "python3 scripts/x.py", "cwd": "evil"}, True),
        ("Bash(make)", {"command": "make", "cwd": "evil"}, True),
        ("Bash(git:*)", {"command": "git status", "cwd": ".git"}, False),
        ("Bash(git:*)", {"command": "git status", "cwd": "\ud800"}, True),
        ("Bash(git:*) Write(out/**)", {"command": "git log --output=x", "cwd": "out"}, True),
        ("Bash(git:*) Write(out/**)", {"command": "git -C out log --output=x", "cwd": "out"}, False),
        ("Bash(git:*) Write", {"command": "git log --output=x"}, True),
        ("Bash(git:*) Write", {"command": "git log --output=.git/config"}, False),
        ("Bash(git:*) Write", {"command": "git log --output=/nowhere/.GIT/config"}, False),
        ("Bash(git log --output=x.txt)", {"command": "git log --output=x.txt"}, True),
    ],
)
def test_the_folder_of_a_call_counts(rules: str, arguments: dict[str, Any], is_allowed: bool) -> None:
    assert permits(parse_rules(rules), "Bash", arguments, workspace="/nowhere").allowed is is_allowed


def test_a_program_is_the_same_after_going_to_the_folder_that_one_is_in(tmp_path: Path) -> None:
    rules = parse_rules("Bash(cd:*) Bash(./run.sh) Bash(git:*) Write(out/**)")
    for command, is_allowed in [
        (f"cd {tmp_path} && ./run.sh", True),
        (f"cd {tmp_path} && git log > out/x", True),
        (f"cd {tmp_path}/sub && ./run.sh", False),
        ("cd sub && ./run.sh", False),
        (f"cd {tmp_path} && cd sub && ./run.sh", False),
    ]:
        match = permits(rules, "Bash", {"command": command}, workspace=str(tmp_path))
        assert match.allowed is is_allowed, command


def test_a_link_into_a_repository_is_no_way_to_write_there(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "way").symlink_to(tmp_path / ".git")
    rules = parse_rules("Bash(git:*) Write")
    assert not permits(rules, "Bash", {"command": "git log --output=way/config"}, workspace=str(tmp_path)).allowed


def test_many_loops_take_bounded_time() -> None:
    values = " ".join(f"v{i}" for i in range(5))
    command = f"for a in {values}; do for b in {values}; do {'git log $a $b; ' * 200}done; done"
    assert permits(parse_rules(GIT), "Bash", {"command": command}).allowed
    values = " ".join(f"v{i}" for i in range(100))
    command = f"for a in {values}; do for b in {values}; do git log $a $b; done; done"
    assert not permits(parse_rules(GIT), "Bash", {"command": command}).allowed


@pytest.mark.covers("SEC-2")
@pytest.mark.each(
    ("command", "written"),
    [
        ("xxd a b", "b"),
        ("xxd -c 8 a b", "b"),
        ("xxd -r -p - b", "b"),
        ("uniq a b", "b"),
        ("less -O b a", "b"),
        ("less -ob a", "b"),
        ("less --log-file=b a", "b"),
        ("less -NO b a", "b"),
        ("sort -o b a", "b"),
        ("sort -uob a", "b"),
        ("sort --outp=b a", "b"),
        ("shuf -ob a", "b"),
        ("iconv -f utf8 -ob a", "b"),
        ("tree -o b", "b"),
        ("curl -o b https://x.y", "b"),
        ("curl -sSLo b https://x.y", "b"),
        ("curl --output b https://x.y", "b"),
        ("curl --output=b https://x.y", "b"),
        ("curl -D b https://x.y", "b"),
        ("curl -c b https://x.y", "b"),
        ("curl --trace-ascii b https://x.y", "b"),
        ("curl --stderr b https://x.y", "b"),
        ("curl --libcurl b https://x.y", "b"),
        ("gpg -do b a", "b"),
        ("xmllint --output b a", "b"),
        ("sdiff -o b a c", "b"),
        ("tcpdump -nw b", "b"),
        ("openssl rand -out b 5", "b"),
        ("nmap -oN b x", "b"),
        ("http -o b x.y", "b"),
        ("journalctl --cursor-file=b", "b"),
    ],
)
def test_a_reader_writes_only_what_may_be_written(command: str, written: str) -> None:
    program = command.split()[0]
    for more, is_allowed in [("", False), (f"Write({written})", True), ("Write", True), ("Write(other)", False)]:
        rules = parse_rules(f"Bash({program}:*) {more}")
        assert permits(rules, "Bash", {"command": command}, workspace="/nowhere").allowed is is_allowed, more
    assert forbids(parse_rules(f"Write({written})"), "Bash", {"command": command}, workspace="/nowhere")


@pytest.mark.covers("SEC-2")
@pytest.mark.each(
    "command",
    ["curl -O https://x.y/z", "curl -sSLO https://x.y/z", "curl -OJ https://x.y", "curl -K a", "curl --config a",
     "curl --remote-name https://x.y/z", "curl -w '%output{b}x' https://x.y", "tree -RL 2", "file -C -m a",
     "yq -i .a b", "http --download x.y"],
)  # fmt: skip
def test_a_reader_that_names_no_file_may_write_any(command: str) -> None:
    program = command.split()[0]
    for more, is_allowed in [("", False), ("Write", True), ("Write(b)", False)]:
        rules = parse_rules(f"Bash({program}:*) {more}")
        assert permits(rules, "Bash", {"command": command}, workspace="/nowhere").allowed is is_allowed, more
    assert forbids(parse_rules("Write(b)"), "Bash", {"command": command}, workspace="/nowhere")
    assert not forbids(parse_rules("Bash(rm:*)"), "Bash", {"command": command}, workspace="/nowhere")


@pytest.mark.each(
    "command",
    ["curl -s -H 'Host: o' -XPOST -dfoo https://x.y", "curl --cookie a=b https://x.y", "curl -o - https://x.y",
     "curl -o /dev/null https://x.y", "curl --connect-timeout 5 https://x.y", "sort -k2 -t, a", "xxd -l 16 a",
     "less -N a", "tree -L 2", "gpg --verify a", "openssl dgst -sha256 a", "tcpdump -w - -c 1"],
)  # fmt: skip
def test_a_reader_that_only_reads_needs_nothing_more(command: str) -> None:
    rules = parse_rules(f"Bash({command.split()[0]}:*)")
    match = permits(rules, "Bash", {"command": command}, workspace="/nowhere")
    assert match.allowed, match.reason
