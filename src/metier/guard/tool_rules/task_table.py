"""The options and words that a rule which names a task covers: one row for each program and task.

An option that is not in a row is not covered, so a row lists only options that choose among what the task does or how
it reports: none that names another folder, another file of definitions, another program, a variable, or a file to
write (the few of git that write one take a rule for `Write` too). Every one of them is an option that the program has;
a shortened spelling is none of the list. What is said of a program holds for each of its tasks too.

- `-v` takes no value (`--watch=false` says no more than yes or no); `--[no-]edit` is `--edit` and `--no-edit`.
- `-n=` takes any value, `-j=#` a number, `--color=~` one plain word, `-f=/` a path inside the workspace,
  `-o=%` a form of output that is read from no file, `-mod=readonly|vendor` one of these words.
- `-O?` and `--abbrev?#` take a value only where it is part of the word, and `-T=+` one there too although other letters
  may not.
- `+pytest` is a list that stands on a line of its own; `npm i|install` is two rows.
- `words=`, `behind=`, `rest=`, `style=` and `anywhere` are the fields of `TaskRow`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from metier._lazy import dataclass, field
from metier.guard.shell.options import read_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Words = Literal["none", "tasks", "packages", "inside", "names", "remotes", "local", "any"]
Style = Literal["flags", "letters", "names"]

_TABLE = """
+git: words=names behind=words anywhere
+git-remote: words=remotes behind=words anywhere
+runner: --[no-]watch --watchAll --run --ci --bail?# --verbose --silent --quiet --[no-]coverage --runInBand
    --passWithNoTests --testNamePattern= -t= --grep= --maxWorkers=~ --forceExit --detectOpenHandles --[no-]color
    --updateSnapshot --onlyChanged --listTests --no-cache --testTimeout=# --timeout=# --retries=# --headless
    --max-warnings=# --check --noEmit --help --version
+script: +runner -g= -u
+pytest: -k= -m= -x -v -q -s -l -h -V -n=~ -r=~ --markers --exitfirst --maxfail=# --strict --strict-config
    --strict-markers --fixtures --fixtures-per-test --capture=~ --runxfail --lf --last-failed --ff --failed-first --nf
    --new-first --cache-clear --lfnf=~ --last-failed-no-failures=~ --sw --stepwise --sw-skip --stepwise-skip
    --durations=# --durations-min=# --verbose --no-header --no-summary --quiet --verbosity=# --disable-warnings
    --[no-]showlocals --tb=~ --show-capture=~ --full-trace --color=~ --code-highlight=~ -W=~ --max-warnings=#
    --collect-only --co --ignore= --ignore-glob= --deselect= --noconftest --keep-duplicates
    --continue-on-collection-errors --doctest-modules --doctest-report=~ --doctest-ignore-import-errors
    --doctest-continue-on-failure --version --help --assert=~ --setup-only --setup-show --setup-plan --log-level=~
    --log-cli-level=~ --numprocesses=~ --dist=~ --cov= --cov-report=~ --cov-fail-under=# --cov-branch --cov-append
    --no-cov --timeout=# --reruns=# --hypothesis-seed=# --hypothesis-show-statistics --benchmark-skip --benchmark-only
    --asyncio-mode=~
+libtest: --nocapture --no-capture --test-threads=# --ignored --include-ignored --exact --skip= --list --show-output -q
    --quiet --format=~ --color=~ --test --bench --shuffle --shuffle-seed=#
+npm-install: -D --save-dev -E --save-exact -O --save-optional -P --save-prod --[no-]save --omit=~ --include=~ --dry-run
    --legacy-peer-deps --strict-peer-deps --prefer-dedupe --package-lock-only --no-package-lock --no-bin-links
+pnpm-install: -D --save-dev -E --save-exact -O --save-optional -P --save-prod --prod --dev --no-optional
    --[no-]frozen-lockfile --lockfile-only --offline --prefer-offline --ignore-scripts --force
+yarn-install: -D --dev -E --exact -P --peer -O --optional --immutable --frozen-lockfile --check-files --offline
    --prefer-offline --ignore-scripts --production --non-interactive --pure-lockfile --silent --json
+cargo-build: -p= --package= --workspace --all --exclude= --lib --bins --bin= --examples --example= --tests --test=
    --benches --bench= --all-targets --doc -F= --features= --all-features --no-default-features -j=# --jobs=# -r
    --release --profile=~ --target=~ --message-format=~ --keep-going --no-run --no-fail-fast --ignore-rust-version
    --future-incompat-report --no-deps
+uv: -q -v -h --quiet --verbose --help --color=~ --offline --no-progress --no-cache
+uv-sync: --frozen --locked --no-sync --exact --extra= --all-extras --no-extra= --group= --no-group= --only-group=
    --all-groups --no-default-groups --[no-]dev --only-dev --package= --all-packages --isolated --no-editable -p=#
    --python=#
+docker-out: -a -q -f= -n=# -l -s --all --quiet --filter= --format= --last=# --latest --no-trunc --size --digests
+docker-logs: -f -n=~ -t --follow --tail=~ --since= --until= --timestamps --details --no-color --no-log-prefix
+docker-build: -t= -q --tag= --quiet --no-cache --pull --target= --platform= --label= --progress=~ --rm --force-rm
+kubectl-apply: -f=/ -k=/ -o=~ -R -l= --filename=/ --kustomize=/ --output=~ --recursive --selector= --dry-run=~
    --server-side --validate=~ --wait --timeout= --field-manager=
+dotnet: -c=~ --configuration=~ -v=~ --verbosity=~ -f= --framework= --no-build --no-restore --no-dependencies --nologo
    --filter= --list-tests -t --blame --force --help -h
+bazel: -k -s -j= -c=~ --keep_going --nokeep_going --verbose_failures --subcommands --jobs= --color=~ --curses=~
    --show_progress --noshow_progress --test_output=~ --test_filter= --cache_test_results=~ --nocache_test_results
    --runs_per_test= --flaky_test_attempts= --test_timeout= --test_size_filters= --test_tag_filters=
    --build_tag_filters= --build_tests_only --compilation_mode=~ --announce_rc --output=~
+starter: -y -q -s --yes --no --quiet --silent
+plain: -q -v --[no-]quiet --[no-]verbose
+shown: --[no-]color?~ --[no-]column? --[no-]abbrev?#
+diff: +shown -p -u -s -a -b -w -z -R -D -W -B? -M? -C? -U=# -l=# -S= -G= -X? --[no-]patch --unified=# --raw
    --patch-with-raw --patch-with-stat --stat? --stat-width=# --stat-name-width=# --stat-count=# --numstat --shortstat
    --compact-summary --summary --dirstat? --cumulative --name-only --name-status --word-diff?~ --word-diff-regex=
    --color-words? --[no-]color-moved?~ --color-moved-ws= --[no-]renames --find-renames? --find-copies?
    --find-copies-harder --[no-]rename-empty --break-rewrites? --irreversible-delete --check --full-index --binary
    --diff-filter=~ --pickaxe-all --pickaxe-regex --find-object= --minimal --patience --histogram --diff-algorithm=~
    --anchored= --[no-]indent-heuristic --text --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change
    --ignore-all-space --ignore-blank-lines --ignore-matching-lines= -I= --inter-hunk-context=# --function-context
    --ws-error-highlight=~ --[no-]relative? --no-ext-diff --no-textconv --ignore-submodules?~ --submodule?~
    --src-prefix= --dst-prefix= --line-prefix= --no-prefix --default-prefix --ita-invisible-in-index --exit-code
    --output= --quiet -q -c -m --cc --combined-all-paths --diff-merges=~ --no-diff-merges --dd --remerge-diff
+picked: -0 -1 -2 -3 -4 -5 -6 -7 -8 -9 -n=# -i -E -F --max-count=# --skip=# --since= --after= --until= --before=
    --author= --committer= --grep= --grep-reflog= --all-match --invert-grep --regexp-ignore-case --basic-regexp
    --extended-regexp --fixed-strings --perl-regexp --[no-]merges --min-parents=# --max-parents=# --first-parent
    --exclude-first-parent-only --not --all --branches? --tags? --remotes? --glob= --exclude= --exclude-hidden=~
    --reflog --alternate-refs --ignore-missing --bisect --cherry --cherry-mark --cherry-pick --left-only --right-only
    --left-right --boundary --simplify-by-decoration --show-pulls --full-history --dense --sparse --simplify-merges
    --ancestry-path? --date-order --author-date-order --topo-order --reverse --no-walk?~ --do-walk --in-commit-order
    --since-as-filter=
+log: +diff +picked -g -t -L= --follow --[no-]decorate?~ --decorate-refs= --decorate-refs-exclude= --clear-decorations
    --source --[no-]mailmap --[no-]use-mailmap --full-diff --log-size --oneline --[no-]graph --pretty? --format=
    --[no-]abbrev-commit --encoding=~ --[no-]expand-tabs?# --[no-]notes? --show-notes --show-signature --relative-date
    --date= --parents --children --walk-reflogs --merge --root
+signed: -S? --[no-]gpg-sign? --[no-]signoff --[no-]verify
+strategy: -s=~ -X= --strategy=~ --strategy-option=
+listed: --format= --sort= --count=# --points-at= --merged? --no-merged? --contains? --no-contains? --ignore-case -i
    --omit-empty
+fetch: +plain -a -f -k -t -n -p -P -u -4 -6 -j=# -o= --[no-]all --append --atomic --depth=# --deepen=# --shallow-since=
    --shallow-exclude= --unshallow --update-shallow --negotiation-tip= --dry-run --force --keep --multiple --prune
    --prune-tags --[no-]tags --refetch --jobs=# --no-auto-maintenance --no-auto-gc --[no-]recurse-submodules?~
    --set-upstream --[no-]progress --server-option= --ipv4 --ipv6 --[no-]show-forced-updates --no-write-fetch-head
+merge: +plain +signed +strategy -n -e -m= --[no-]commit --[no-]edit --cleanup=~ --[no-]ff --ff-only --[no-]log?#
    --[no-]stat --compact-summary --[no-]squash --allow-unrelated-histories --abort --continue --quit --[no-]autostash
    --[no-]rerere-autoupdate --[no-]progress --[no-]overwrite-ignore --[no-]verify-signatures --into-name=
+pick: +signed -s -e -n -x -m=# -X= --strategy=~ --strategy-option= --[no-]edit --cleanup=~ --mainline=# --no-commit
    --ff --abort --continue --quit --skip --allow-empty --allow-empty-message --keep-redundant-commits --empty=~
    --[no-]rerere-autoupdate --reference
+paths: --pathspec-from-file=/ --pathspec-file-nul
+switch: +plain -f -t -m -d -l --force --[no-]track?~ --[no-]guess --merge --conflict=~ --detach --[no-]progress
    --ignore-other-worktrees --[no-]overwrite-ignore --[no-]recurse-submodules --orphan= --discard-changes
+clippy: -A= -D= -F= -W=
+rustfmt: --check -l -q -v --color=~ --edition=#
ant: words=tasks style=names -q -quiet -v -verbose -d -debug -e -emacs -k -keep-going -S -silent -noinput -p
    -projecthelp -h -help
bazel: words=any +bazel
bazel run: words=any behind=any +bazel
bun: behind=script --silent --if-present +runner
bun add|install|update: words=packages +yarn-install
bun test: -t= --test-name-pattern= --bail?# --only --todo --concurrent --randomize --seed=# --timeout=# --rerun-each=#
    --max-concurrency=# --coverage --update-snapshots -u --watch --dots
bun x: behind=program rest=program +starter
bundle: --quiet --verbose --no-color --jobs=# --retry=# --local --help
bundle exec: behind=program rest=program
bunx: behind=program rest=program +starter
cargo: words=any -v -q -h --verbose --quiet --help --color=~ --locked --offline --frozen
cargo bench|test: words=any behind=libtest +cargo-build
cargo build|check: words=any +cargo-build
cargo clippy: words=any behind=clippy +cargo-build
cargo doc: words=any +cargo-build --document-private-items
cargo fmt: words=none behind=rustfmt -p= --package= --all --check
cargo metadata: words=none +cargo-build --format-version=#
cargo run: words=any behind=any +cargo-build
cargo tree: words=any +cargo-build -d -e= -f= -i= --edges= --invert= --depth=# --duplicates --prefix=~ --charset=~
cargo update: words=any -p= --package= --dry-run --precise= --recursive --workspace
cmake: words=tasks style=names -Wdev -Wno-dev -Wdeprecated -Wno-deprecated --fresh --log-level=~ --warn-uninitialized
    --clean-first --config=~ --parallel=# -j=+# -v --verbose -DCMAKE_BUILD_TYPE=~ -DBUILD_SHARED_LIBS=~
    -DBUILD_TESTING=~ -DCMAKE_EXPORT_COMPILE_COMMANDS=~ -DCMAKE_VERBOSE_MAKEFILE=~ -L -LA -LH -N
composer: words=names behind=script style=names -q -v -vv -vvv -n -h --quiet --verbose --no-interaction --[no-]ansi
    --[no-]dev --dry-run --no-progress --prefer-dist --prefer-stable --optimize-autoloader --no-scripts --no-plugins
    --no-cache --profile --timeout=# --no-audit --format=~
deno: -q --quiet --no-prompt --cached-only --frozen --[no-]check
deno run: rest=any
deno task: rest=script
deno test: -q --quiet --filter= --parallel --fail-fast?# --no-run --doc --trace-leaks --shuffle?# --reporter=~
    --[no-]check --cached-only --frozen --permit-no-files --ignore= --no-prompt
docker: words=any anywhere
docker build: words=local +docker-build
docker builder|buildx|container|image|network|volume: words=any anywhere
docker builder build: words=local +docker-build
docker buildx b|build: words=local +docker-build
docker compose: words=any -d -q --detach --quiet --[no-]build --force-recreate --no-recreate --remove-orphans --no-deps
    --wait --wait-timeout=# --pull=~ --quiet-pull --no-color --no-log-prefix --timeout=# --abort-on-container-exit
    --no-start --all -a --services --format= --status=~ --filter= --no-cache --progress=~ --ansi=~
docker compose cp: words=names
docker compose exec: rest=any -T -d -e= -u= -w= --env= --user= --workdir= --index=#
docker compose logs: words=any +docker-logs
docker compose run: rest=any -T -d -e= -u= -w= --rm --name= --env= --user= --workdir= --no-deps --build
docker container cp: words=names anywhere
docker container ls: words=any anywhere +docker-out
docker cp: words=names anywhere
docker exec: words=any rest=any anywhere -i -t -d -e= -u= -w= --interactive --tty --detach --env= --user= --workdir=
docker image build: words=local +docker-build
docker image ls: words=any anywhere +docker-out
docker images|ps: words=any anywhere +docker-out
docker inspect: words=any anywhere -f= -s --format= --size --type=~
docker logs: words=any anywhere +docker-logs
docker network ls: words=any anywhere +docker-out
docker run: words=any rest=any anywhere -i -t -d -q -e= -w= -l= --rm --interactive --tty --detach --quiet --env=
    --workdir= --label= --name= --init --platform= --pull=~ --entrypoint= --read-only --memory= --cpus=#
    --stop-timeout=#
docker volume ls: words=any anywhere +docker-out
dotnet: style=names +dotnet
dotnet run: behind=any style=names +dotnet
git: words=names anywhere -P --no-pager --no-optional-locks --no-replace-objects --no-lazy-fetch --no-advice
    --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs
git add: +git +plain +paths -n -f -u -A -N -p -e -i --dry-run --force --sparse --interactive --patch --update --[no-]all
    --[no-]ignore-removal --intent-to-add --refresh --ignore-errors --ignore-missing --renormalize --chmod=~
git am: +git +plain +signed -s -k -b -3 -i -c -u -m -n -p=# --keep --keep-non-patch --[no-]keep-cr --[no-]scissors
    --message-id --[no-]3way --whitespace=~ --interactive --abort --continue --skip --quit --show-current-patch?~
    --committer-date-is-author-date --ignore-date --ignore-whitespace
git apply: +git +plain -p=# -C=# -R -N -3 -z --stat --numstat --summary --check --index --cached --intent-to-add --3way
    --reverse --reject --allow-empty --recount --whitespace=~ --ignore-space-change --ignore-whitespace --include=
    --exclude= --unidiff-zero --allow-binary-replacement --binary --apply --directory=/
git archive: +git -v -o= --output= -0 -1 -2 -3 -4 -5 -6 -7 -8 -9 -l --list --verbose --format= --prefix=
    --worktree-attributes --mtime=
git bisect: +git --no-checkout --first-parent --term-good=~ --term-bad=~ --term-new=~ --term-old=~
git blame: +git -b -c -l -s -e -w -f -n -p -t -k -L= -M? -C? -S=/ --root --show-stats --reverse --first-parent
    --porcelain --line-porcelain --incremental --encoding=~ --date= --[no-]progress --score-debug --show-name
    --show-number --show-email --ignore-rev= --ignore-revs-file=/ --color-lines --color-by-age --abbrev=# --since=
git branch: +git +plain +shown +listed -a -r -l -d -D -m -M -c -C -f -t -u= --all --remotes --list --delete --move
    --copy --force --[no-]track?~ --show-current --set-upstream-to= --unset-upstream --create-reflog
    --recurse-submodules
git cat-file: +git -t -s -e -p -Z -z --batch? --batch-check? --batch-all-objects --buffer --follow-symlinks --unordered
    --allow-unknown-type --[no-]mailmap --use-mailmap
git check-ignore: +git +plain -z -n --non-matching --no-index --stdin
git checkout: +git +switch +paths -b= -B= -p -2 -3 --ours --theirs --patch --[no-]overlay --ignore-skip-worktree-bits
git cherry: +git +plain --abbrev?#
git cherry-pick|revert: +git +pick
git clean: +git -d -f -i -n -q -e= -x -X --force --interactive --dry-run --quiet --exclude=
git clone: +git-remote +plain -l -s -n -o= -b= -j=# -4 -6 --depth=# --shallow-since= --shallow-exclude= --[no-]tags
    --jobs=# --recurse-submodules? --[no-]progress --ipv4 --ipv6 --server-option= --[no-]local --no-hardlinks
    --no-checkout --bare --mirror --branch= --origin= --[no-]single-branch --[no-]shallow-submodules --remote-submodules
    --sparse --filter= --revision= --also-filter-submodules
git commit: +git +plain +signed +paths -s -a -p -z -n -e -i -o -m= -C= -F=/ -u? --all --patch --reuse-message= --fixup=
    --squash= --reset-author --short --branch --porcelain --long --null --file=/ --author= --date= --message= --trailer=
    --allow-empty --allow-empty-message --cleanup=~ --[no-]edit --amend --no-post-rewrite --include --only
    --untracked-files?~ --dry-run --[no-]status
git config: +git -l -z --local --get --get-all --get-regexp --get-urlmatch --list --name-only --show-origin --show-scope
    --null --bool --int --type=~ --path --add --unset --unset-all --replace-all --default= --all --value=
    --[no-]includes --worktree
git count-objects: +git -v -H --verbose --human-readable
git describe: +git --dirty? --broken? --all --tags --contains --abbrev=# --candidates=# --exact-match --debug --long
    --match= --exclude= --always --first-parent
git diff: +git +diff -1 -2 -3 -0 --cached --staged --merge-base --base --ours --theirs
git diff-tree: +git +diff +picked -r -t --root --stdin --no-commit-id --merge-base --pretty? --format= --always
git difftool: +git -y -d --cached --staged --[no-]prompt --[no-]dir-diff --trust-exit-code --tool-help
git fetch: +git-remote +fetch
git for-each-ref: +git +listed -s -p --shell --perl --python --tcl --color=~ --exclude= --stdin --include-root-refs
git format-patch: +git +diff +picked -N -k -n -v=# -o= --output-directory= --signoff --stdout --[no-]numbered
    --start-number=# --numbered-files --keep-subject --subject-prefix= --rfc --reroll-count=# --[no-]cover-letter --to=
    --cc? --from? --no-signature --signature= --suffix= --zero-commit --base= --always --thread
git fsck: +git +plain --tags --root --unreachable --cache --no-reflogs --[no-]full --connectivity-only --strict
    --lost-found --[no-]dangling --[no-]progress --name-objects
git gc: +git +plain --aggressive --auto --[no-]detach --[no-]prune? --force --keep-largest-pack
git grep: +git +shown -a -I -i -w -v -h -H -E -G -P -F -n -l -L -z -o -c -p -W -q -r -A=# -B=# -C=# -e= -m=# -f=/ --text
    --ignore-case --word-regexp --invert-match --full-name --extended-regexp --basic-regexp --perl-regexp
    --fixed-strings --line-number --column --files-with-matches --name-only --files-without-match --null --only-matching
    --count --break --heading --show-function --context=# --after-context=# --before-context=# --function-context
    --max-count=# --max-depth=# --[no-]recursive --threads=# --and --or --not --all-match --quiet --cached --untracked
    --[no-]exclude-standard --recurse-submodules --no-textconv
git init: +git -q -b= --quiet --bare --initial-branch= --object-format=~ --ref-format=~ --shared?~
git log|show|whatchanged: +git +log
git ls-files: +git -c -d -m -o -i -s -u -k -z -t -v -f -x= -X=/ --cached --deleted --modified --others --ignored --stage
    --unmerged --killed --directory --no-empty-directory --eol --deduplicate --exclude= --exclude-from=/
    --exclude-per-directory= --exclude-standard --error-unmatch --full-name --recurse-submodules --abbrev?# --format=
    --sparse
git ls-remote: +git-remote -b -h -t -q -o= --branches --heads --tags --refs --quiet --exit-code --get-url --sort=
    --symref --server-option=
git ls-tree: +git -d -r -t -l -z --long --name-only --name-status --object-only --abbrev?# --full-name --full-tree
    --format=
git merge: +git +merge -F=/ --file=/
git merge-base: +git -a --all --octopus --is-ancestor --independent --fork-point
git mv: +git -f -k -n -v --force --dry-run --verbose --sparse
git name-rev: +git --tags --refs= --exclude= --all --annotate-stdin --name-only --no-undefined --always
git notes: +git -f -m= -F=/ -C= -c= --force --message= --file=/ --allow-empty --ref= --ignore-missing --stdin
git pull: +git-remote +fetch +merge -r --[no-]rebase?~
git push: +git-remote +plain -f -d -n -u -4 -6 -o= --all --branches --prune --mirror --delete --tags --follow-tags
    --dry-run --porcelain --force --[no-]force-with-lease? --force-if-includes --[no-]signed?~ --[no-]atomic
    --push-option= --set-upstream --[no-]thin --[no-]progress --recurse-submodules=~ --no-recurse-submodules
    --[no-]verify --ipv4 --ipv6
git range-diff: +git +diff --creation-factor=# --no-dual-color --left-only --right-only --[no-]notes?
git rebase: +git +plain +signed +strategy -i -m -r -f -k -n -C=# --onto= --keep-base --continue --skip --abort --quit
    --edit-todo --show-current-patch --merge --apply --empty=~ --[no-]keep-empty --interactive --allow-empty-message
    --[no-]autosquash --[no-]autostash --[no-]fork-point --force-rebase --no-ff --ignore-whitespace --whitespace=~
    --[no-]rebase-merges?~ --reset-author-date --ignore-date --committer-date-is-author-date --[no-]stat --root
    --[no-]update-refs --[no-]reschedule-failed-exec
git reflog: +git +log --expire= --expire-unreachable= --updateref --rewrite --stale-fix --dry-run --verbose
    --single-worktree
git remote: +git-remote -v -n -p -f -t= -m= --verbose --all --push --delete --add --prune --dry-run --[no-]tags --auto
git reset: +git -q -N -p +paths --[no-]quiet --soft --mixed --hard --merge --keep --patch --[no-]refresh --intent-to-add
    --[no-]recurse-submodules
git restore: +git +plain +paths -s= -p -S -W -2 -3 -m --source= --patch --worktree --staged --ours --theirs --merge
    --conflict=~ --ignore-unmerged --ignore-skip-worktree-bits --[no-]overlay --[no-]progress --[no-]recurse-submodules
git rev-list: +git +log --count --objects --objects-edge --unpacked --timestamp --header --use-bitmap-index
    --disk-usage?~ --stdin --quiet --[no-]object-names --filter= --[no-]commit-header
git rev-parse: +git -q --verify --quiet --short?# --symbolic --symbolic-full-name --abbrev-ref?~ --all --branches?
    --tags? --remotes? --glob= --exclude= --show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir
    --git-common-dir --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository
    --show-superproject-working-tree --show-object-format --show-ref-format --since= --until= --after= --before=
    --revs-only --no-revs --[no-]flags --default= --prefix= --sq --not --git-path= --path-format=~ --disambiguate=
    --local-env-vars
git rm: +git -q -f -n -r +paths --quiet --force --dry-run --cached --ignore-unmatch --sparse
git shortlog: +git +picked -n -s -e -c -w? --numbered --summary --email --format= --group= --date=
git show-branch: +git -r -a -g? --remotes --all --current --topo-order --date-order --sparse --more?# --list
    --merge-base --independent --topics --sha1-name --no-name --reflog? --[no-]color
git show-ref: +git -q -d -s? --head --heads --branches --tags --dereference --hash?# --verify --exists --quiet
    --abbrev?#
git sparse-checkout: +git --[no-]cone --[no-]sparse-index --skip-checks
git stash: +git +diff +picked +paths -k -S -m? --index --[no-]keep-index --staged --include-untracked --all
    --only-untracked --message= --oneline --pretty= --format= --date=
git status: +git +plain +shown -s -b -u? -z --short --[no-]branch --show-stash --porcelain?~ --long --untracked-files?~
    --ignore-submodules?~ --ignored?~ --[no-]ahead-behind --[no-]renames --find-renames?
git submodule: +git-remote +plain -f -b= -N --force --branch= --name= --depth=# --init --remote --no-fetch --checkout
    --rebase --merge --recursive --jobs=# --[no-]single-branch --all --cached --files --summary-limit=# --progress
    --[no-]recommend-shallow --default --filter=
git switch: +git +switch -c= -C= --create= --force-create=
git symbolic-ref: +git -q -d -m= --quiet --delete --short --[no-]recurse
git tag: +git +shown +listed -a -s -f -d -v -l -u= -m= -F=/ -n? -0 -1 -2 -3 -4 -5 -6 -7 -8 -9 -e --annotate --[no-]sign
    --local-user= --force --delete --verify --list --create-reflog --message= --file=/ --edit --cleanup=~ --trailer=
git worktree: +git -f -b= -B= -d -n -v -z -q --force --detach --[no-]checkout --[no-]guess-remote --[no-]track --lock
    --reason= --orphan --dry-run --porcelain --verbose --expire= --quiet --relative-paths
go: style=flags -a -n -p=# -race -msan -asan -cover -covermode=~ -coverpkg= -v -work -x -buildmode=~ -buildvcs=~ -json
    -linkshared -mod=readonly|vendor -modcacherw -tags= -trimpath
go clean: style=flags -i -r -cache -testcache -fuzzcache -modcache
go doc: words=any style=flags -all -c -cmd -short -src -u
go env: style=flags -json -changed
go fmt: style=flags -n -x
go get: words=names style=flags -t -u?~
go list: words=any style=flags -m -e -f= -deps -test -u -versions -find
go mod: words=any style=flags -e -go=# -compat=# -vendor -m
go run: rest=any style=flags
go test: style=flags -run= -skip= -bench= -benchtime= -benchmem -count=# -cpu= -failfast -fullpath -fuzz= -fuzztime=
    -fuzzminimizetime= -list= -parallel=# -short -shuffle=~ -timeout= -vet=~
go vet: style=flags -c=#
gradle: words=tasks -q -i -d -w -s -S -m -a -t -h --quiet --info --debug --warn --stacktrace --full-stacktrace
    --console=~ --warning-mode=~ --continue --dry-run --offline --[no-]parallel --[no-]build-cache
    --[no-]configuration-cache --[no-]configure-on-demand --[no-]daemon --max-workers=# --rerun-tasks --rerun
    --refresh-dependencies --tests= -x= --exclude-task= --no-rebuild --fail-fast --no-scan --priority=~ --continuous
    --help
hatch: -q -v --quiet --verbose --no-color --no-interactive
hatch run: rest=program
helm: -n= -o=~ -A -q -a -l= -h --namespace= --output=~ --all-namespaces --short --all --debug --selector= --no-headers
    --max=# --revision=# --dry-run?~ --wait --timeout= --help --strict --quiet --deployed --failed --pending
just: words=tasks -q -v -n -u -h --quiet --verbose --dry-run --color=~ --command-color=~ --[no-]highlight --timestamp
    --one --yes --explain --no-deps --unsorted --unstable --no-aliases --no-dotenv --help
kubectl: words=any anywhere -n= --namespace= -v=# --v=# -h --help --request-timeout=
kubectl api-resources|describe|events|explain|get|top|version: words=any anywhere -A -o=% -l= -L= -w --all-namespaces
    --output=% --selector= --field-selector= --label-columns= --watch --watch-only --show-labels --sort-by= --no-headers
    --ignore-not-found --chunk-size=# --show-kind --show-managed-fields --show-events --recursive --api-version=
    --api-group= --namespaced --verbs= --subresource=~ --containers --sum --use-protocol-buffers
    --allow-missing-template-keys
kubectl apply|create|diff: +kubectl-apply
kubectl cp: words=names anywhere -c= --container= --no-preserve
kubectl delete: words=any -f=/ -k=/ -l= -R --filename=/ --all --selector= --field-selector= --dry-run=~ --wait
    --timeout= --now
kubectl exec: words=any behind=any anywhere -i -t -q -c= --stdin --tty --quiet --container= --pod-running-timeout=
kubectl logs: words=any anywhere -f -c= -l= -p --follow --container= --selector= --previous --tail=# --since=
    --since-time= --timestamps --all-containers --prefix --limit-bytes=# --max-log-requests=# --ignore-errors
make: words=tasks -b -m -B -d -i -j=# -k -l=# -L -n -O? -p -q -r -R -s -S -t -w -h --always-make --debug?
    --ignore-errors --jobs=# --[no-]keep-going --load-average=# --max-load=# --check-symlink-times --just-print
    --dry-run --recon --output-sync? --print-data-base --question --no-builtin-rules --no-builtin-variables
    --[no-]silent --quiet --stop --touch --trace --[no-]print-directory --warn-undefined-variables --help
meson: -v -q -j=# -t=# --verbose --quiet --print-errorlogs --no-rebuild --list --suite= --no-suite= --repeat=#
    --timeout-multiplier=# --num-processes=# --maxfail=# --benchmark --no-stdsplit --clean --jobs=#
mvn: words=tasks style=names -q -B -e -X -U -o -N -V -h -C -c -nsu -ntp -am -amd -fae -ff -fn --quiet --batch-mode
    --errors --debug --update-snapshots --offline --non-recursive --show-version --help --strict-checksums
    --lax-checksums --no-snapshot-updates --no-transfer-progress --also-make --also-make-dependents --fail-at-end
    --fail-fast --fail-never --color=~ -T=+ --threads= -pl= --projects= -rf= --resume-from= -Dtest= -Dit.test=
    -DskipTests -DskipITs -Dmaven.test.skip -Dmaven.test.failure.ignore -DfailIfNoTests
    -Dsurefire.failIfNoSpecifiedTests -Dgroups= -DexcludedGroups= -Dstyle.color=~
ninja: words=tasks -j=# -k=# -l=# -n -v -h --verbose --quiet --version
nox: words=none behind=pytest -l -r -R -N -x -v -h --list --[no-]reuse-existing-virtualenvs --stop-on-first-error
    --no-install --install-only --error-on-missing-interpreters --verbose --forcecolor --nocolor --help
npm: words=names behind=script style=names -s --silent -q --quiet -d -dd -ddd --verbose --loglevel=~ --if-present
    --ignore-scripts --foreground-scripts -w= --workspace= -ws --workspaces --include-workspace-root --[no-]color
    --[no-]progress --no-fund --no-audit --no-update-notifier --offline --prefer-offline --json -l --long --parseable
    --depth=#
npm add|i|in|ins|inst|insta|instal|install|isnt|isnta|isntal|isntall|it|install-test|link|ln|up|update|upgrade:
    words=packages style=names +npm-install
npm ci: words=none style=names +npm-install
npm exec|x: behind=program rest=program style=names +starter
npm run|run-script|start|test: behind=script style=names
npx: behind=program rest=program +starter
pdm: -q -v -h --quiet --verbose --help --no-lock --frozen-lockfile
pdm add: words=packages -d -G= --dev --group= --no-sync --dry-run
pdm run: rest=program
pipenv: words=names -q -v -h --quiet --verbose --help --dev --deploy --ignore-pipfile
pipenv install: words=packages -r=/ --requirements=/ --skip-lock --categories=
pipenv run: behind=program rest=program
pnpm: behind=script style=names -s --silent --if-present --[no-]color --stream --aggregate-output --reporter=~
    --loglevel=~ --no-bail +runner
pnpm add|up|update: words=packages style=names +pnpm-install
pnpm dlx: rest=program style=names +starter
pnpm exec: behind=program rest=program style=names
pnpm i|install: words=none style=names +pnpm-install
poetry: words=names -n -q -v -h --no-interaction --quiet --verbose --[no-]ansi --no-cache --help
poetry add: words=packages -D -G= -E= --dev --group= --extras= --optional --dry-run --lock
poetry install: words=none -E= --extras= --all-extras --no-root --only=~ --with=~ --without=~ --sync --dry-run --compile
poetry run: behind=program rest=program
pytest: behind=words +pytest
rake: words=tasks -q -s -v -n -t -m -A -T -P -W -j=# -h --quiet --silent --verbose --dry-run --trace --multitask
    --jobs=# --tasks --all --help
sbt: words=tasks style=names -v --verbose -batch --batch -no-colors --no-colors --color=~ --supershell=~
terraform: style=flags -no-color -json -input=~ -lock=~ -lock-timeout= -parallelism=# -refresh=~ -refresh-only
    -detailed-exitcode -compact-warnings -concise -check -recursive -diff -upgrade -target= -help
tox: words=none behind=pytest -q -v -r -l -n -h -p=~ --recreate --parallel=~ --skip-missing-interpreters=~
    --skip-pkg-install --listenvs --notest --quiet --verbose --colored=~ --help
tox r|run: words=none behind=pytest
uv: words=names +uv
uv add: words=packages +uv-sync -U --upgrade --dev --optional= --no-deps --dry-run --raw
uv lock: words=none -U --upgrade -P= --upgrade-package= --check --dry-run
uv pip: words=names -U -r=/ --upgrade --requirement=/ --no-deps --dry-run --strict --outdated --format=~
uv run: behind=program rest=program +uv-sync
uv sync: words=none +uv-sync
uv tool: words=names
uv tool run: behind=program rest=program
uvx: behind=program rest=program +uv
yarn: behind=script style=names +script
yarn add|up|upgrade|link: words=packages style=names +yarn-install
yarn dlx: rest=program style=names +starter
yarn exec: behind=program rest=program style=names
yarn install: words=none style=names +yarn-install
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """The options and words that a program may be given for one task, beside those that the rule spells out."""

    options: Mapping[str, str] = field(default_factory=dict)
    """By name, with the kind of value that each takes: "" for none."""
    words: Words = "inside"
    """Words that are no options: none, further tasks (only where the rule names none, and no variables), names of
    packages, those that stay inside the workspace (`local` where others would be fetched, `names` where they may
    begin with `@` or set a value, `remotes` where they may be addresses too), or any."""
    behind: str = ""
    """The words behind `--`: `any`, a list of the table, the words of another program (`program`), or nothing."""
    rest: str = ""
    """The same for what follows the first word, where options of the program itself end there."""
    style: Style = "letters"
    """Whether a hyphen is followed by letters (`-xvf a`), by a name (`-ntp`), or by one that may have two hyphens."""
    is_local: bool = True
    """Whether what the task does is written down in the folder where it runs."""


_LINES = {
    " ".join((*program, task)): tokens for (*program, tasks), tokens in read_table(_TABLE) for task in tasks.split("|")
}
LISTS = {key[1:]: tokens for key, tokens in _LINES.items() if key.startswith("+")}
ROWS = {key: tokens for key, tokens in _LINES.items() if not key.startswith("+")}
"""The tokens of each list by its name, and of each row by program and task."""
_OPTION = re.compile(r"(--?)(\[no-\])?([^=?]+)((?:[=?].*)?)")

MERE_NAMES = frozenset(
    f"git {task}" for task in ("add", "checkout", "ls-files", "mv", "reset", "restore", "rm", "status")
)
"""Tasks of which no option leads out: a word that names files (`git add *`) may become one."""

_SAME = {
    "bazelisk": "bazel",
    "docker-compose": "docker compose",
    "gmake": "make",
    "gradlew": "gradle",
    "mvnd": "mvn",
    "mvnw": "mvn",
    "podman": "docker",
    "py.test": "pytest",
    "pytest-3": "pytest",
    "tofu": "terraform",
}


def program_of(name: str) -> str:
    """The program that a row is about, by any of its names.

    >>> program_of("gmake"), program_of("git")
    ('make', 'git')
    """
    return _SAME.get(name, name)


@lru_cache(maxsize=256)
def row_of(key: str) -> TaskRow:
    """The row of a program or a task that is in the table, with the options of its program.

    >>> row_of("make").words, row_of("docker ps").is_local
    ('tasks', False)
    >>> row_of("cargo test").options["--jobs"], row_of("cargo test").options["--quiet"]
    ('=#', '')
    """
    program = key.rpartition(" ")[0]
    return _read_row(ROWS[key], row_of(program).options if program else {})


@lru_cache(maxsize=16)
def list_of(name: str) -> TaskRow:
    """A list, as a row of its own."""
    return _read_row(LISTS[name], {})


def _read_row(tokens: Sequence[str], inherited: Mapping[str, str]) -> TaskRow:
    options = dict(inherited)
    fields: dict[str, Any] = {}
    for token in _spelled_out(tokens):
        if option := _OPTION.fullmatch(token):
            hyphens, no, name, kind = option.groups()
            options[hyphens + name] = kind
            if no:
                options[f"--no-{name}"] = ""
        elif token == "anywhere":
            fields["is_local"] = False
        else:
            name, _, value = token.partition("=")
            fields[name] = value
    return TaskRow(options=options, **fields)


def _spelled_out(tokens: Sequence[str]) -> Iterator[str]:
    """The tokens of a row, with those of the lists that it names."""
    for token in tokens:
        yield from _spelled_out(LISTS[token[1:]]) if token.startswith("+") else [token]
