"""Rules that name a task: options, words and folders that lead out of it, in every spelling.

The tables are a fixed list of attempts: for each program the ordinary work that goes on, the options that leave the
task with a value for each, and attempts that are no options. `spellings` writes every option in the ways that option
readers know.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.guard.tool_rules.matching import permits
from metier.guard.tool_rules.task_table import LISTS, ROWS, Style, Words, list_of, row_of
from metier.skill.tool_rules import parse_rules


class Program(NamedTuple):
    """What is tried with one program."""

    rule: str
    ordinary: str
    """Commands, with ` | ` between them."""
    leaving: str
    """Options that leave the task, with a value where they take one."""
    others: str
    """Whole commands that leave it otherwise."""
    before: str = ""
    """The task with an ordinary option."""


TABLE = {
    "npm": Program(
        "npm run test",
        """
            npm run test | npm run test:unit | npm run test --silent | npm run test -s --if-present |
            npm run test -- --watch=false | npm run test:unit -- --coverage -t 'adds numbers' src/a.test.js |
            npm run test --workspace=web
        """,
        """
            -C docs | --prefix docs | --script-shell ./evil | --userconfig evil | --globalconfig evil |
            --shell ./evil | --node-options --require=./evil.js | --logs-dir out | --cache out | --location global |
            -g | --global | --git ./evil | --editor ./evil | --init-module ./evil.js
        """,
        """
            npm run test -sC docs | npm run test -dC docs | npm run test -lC docs | npm run test -pC=docs |
            npm run test -- --config evil.js | npm run test -- --import data:text/javascript,evil |
            npm run test -- -r ./evil.js | npm run test -- /tmp/evil.test.js | npm run test -- ../evil.test.js |
            npm run test ../evil | npm run test --pref docs | npm run test * | npm run test -- * | npm run test $X |
            npm run test {a,--prefix=b} | npm run tests | npm run test --loglevel silent -C docs
        """,
    ),
    "pnpm": Program(
        "pnpm test",
        """
            pnpm test | pnpm test --silent | pnpm test -- --watch=false | pnpm test src/a.test.ts --coverage |
            pnpm test:unit
        """,
        """
            -C docs | --dir docs | --prefix docs | --script-shell ./evil | --config evil.js |
            --config.script-shell=./evil | --filter ./docs | -F ./docs | --store-dir out | --modules-dir out |
            --lockfile-dir out | -g | --global | --shell-emulator | --workspace-dir docs | --use-node-version 1 |
            --node-options=--require=./evil
        """,
        """
            pnpm test -sC docs | pnpm test -sCdocs | pnpm test -- --config evil.js | pnpm test -- -r ./evil.js |
            pnpm test ../evil | pnpm test /tmp/evil | pnpm test * | pnpm test ~/evil | pnpm test @evil |
            pnpm test https://example.org/evil.js
        """,
    ),
    "yarn": Program(
        "yarn test",
        """
            yarn test | yarn test --watch=false | yarn test src/a.test.js -t adds | yarn test --coverage --ci
        """,
        """
            --cwd docs | --script-shell ./evil | --config evil.js | --use-yarnrc evil | --modules-folder out |
            --cache-folder out | --global-folder out | --preferred-cache-folder out | --link-folder out |
            --require ./evil.js | -r ./evil.js | --reporters ./evil.js | --globalSetup ./evil.js | --rootDir docs |
            --outputFile out | --registry http://evil | -c evil.js | --project docs
        """,
        """
            yarn test -- --config evil.js | yarn test ../evil | yarn test /tmp/evil | yarn test * |
            yarn test --watch --cwd=docs | yarn test -t x --cwd docs
        """,
    ),
    "bun": Program(
        "bun run test",
        """
            bun run test | bun run test --silent | bun run test src/a.test.ts | bun run test --watch
        """,
        """
            --cwd docs | --config evil.toml | -c evil.toml | --preload ./evil.ts | -r ./evil.ts |
            --require ./evil.ts | --shell system | --filter docs | -F docs | --env-file evil |
            --tsconfig-override evil | --import ./evil.ts | -e evil | --eval evil | -p evil | --print evil |
            --inspect 0.0.0.0 | --define a=b | -d a=b
        """,
        """
            bun run test --preload=./evil | bun run test -- --config evil.js | bun run test ../evil | bun run test *
        """,
    ),
    "make": Program(
        "make test",
        """
            make test | make test -j4 | make test -j 4 -k | make test -sj4 | make test --jobs=4 --keep-going |
            make test -Oline | make test --dry-run
        """,
        """
            -C docs | --directory docs | -f evil.mk | --file evil.mk | --makefile evil.mk | -I evil |
            --include-dir evil | -E x:=$(evil) | --eval x:=1 | -o x | --old-file x | -W x | --what-if x |
            --assume-new x | --new-file x | -e | --environment-overrides
        """,
        """
            make test MAKEFILES=evil.mk | make test SHELL=./evil | make test CC=./evil | make test X=y |
            make test X:=y | make test 'X!=evil' | make test X+=y | make test -- X=y | make test install |
            make test -j deploy | make test -k deploy | make test .SHELLFLAGS=-c | make test MAKEFLAGS=-Cdocs |
            make test * | make test $X | make test -kf evil.mk | make test -skCdocs
        """,
    ),
    "cargo": Program(
        "cargo test",
        """
            cargo test | cargo test --release --lib name | cargo test -p core -- --nocapture --test-threads=1 |
            cargo test -q --workspace --all-features | cargo test -vv -j4 |
            cargo test --target wasm32-unknown-unknown
        """,
        """
            -C docs | --manifest-path docs/Cargo.toml | --config build.rustc=./evil | --target-dir out |
            -Z unstable-options | --artifact-dir out | --out-dir out | --lockfile-path docs/Cargo.lock |
            --unit-graph | --target evil.json | --target ./evil.json
        """,
        """
            cargo test -qC docs | cargo test -qCdocs | cargo test -- --logfile out | cargo test -- --logfile=out |
            cargo test -- -Zunstable-options | cargo test --release --manifest-path=docs/Cargo.toml | cargo test * |
            cargo test {a,--config=b} | cargo test -vZ x | cargo test -rC=docs
        """,
    ),
    "go": Program(
        "go test",
        """
            go test ./... | go test ./... -run X -v -count=1 | go test -race -short ./pkg/a |
            go test -bench=. -benchmem | go test --run TestX -timeout 30s | go test -cover ./...
        """,
        """
            -C docs | -exec ./evil | -toolexec ./evil | -overlay evil.json | -modfile evil.mod | -vettool ./evil |
            -coverprofile out | -cpuprofile out | -memprofile out | -blockprofile out | -mutexprofile out |
            -trace out | -outputdir out | -o out | -c | -ldflags -extld=./evil | -gcflags -x | -asmflags -x |
            -gccgoflags -x | -compiler gccgo | -pkgdir out | -args -test.coverprofile=out | -pgo evil |
            -test.coverprofile=out
        """,
        """
            go test /tmp/evil | go test ../evil | go test ../... | go test * | go test -v -exec=./evil ./... |
            go test ~/evil
        """,
    ),
    "mvn": Program(
        "mvn test",
        """
            mvn test | mvn test -q -Dtest=X | mvn test -B -ntp -pl core -am | mvn test -T4 -DskipITs=true |
            mvn test -o -e
        """,
        """
            -f docs/pom.xml | --file docs/pom.xml | -s evil.xml | --settings evil.xml | -gs evil.xml |
            --global-settings evil.xml | -t evil.xml | --toolchains evil.xml | -gt evil.xml | -l out |
            --log-file out | -D exec.executable=./evil | -Dexec.executable=./evil | -Dmaven.repo.local=out |
            -Dmaven.ext.class.path=evil.jar | -DargLine=-javaagent:evil.jar |
            -Dmaven.multiModuleProjectDirectory=docs | -P evil | --activate-profiles evil | -b evil | --builder evil |
            --define a=b
        """,
        """
            mvn test deploy | mvn test exec:exec | mvn test -qf docs/pom.xml | mvn test -qfdocs/pom.xml | mvn test * |
            mvn test evil:evil:1:run | mvn test -fdocs
        """,
    ),
    "gradle": Program(
        "gradle test",
        """
            gradle test | gradle test --info | gradle test --tests 'a.b.C' -q | gradle test --no-daemon --stacktrace |
            gradle test -x lint --continue | gradle test --max-workers=4
        """,
        """
            -I evil.gradle | --init-script evil.gradle | -p docs | --project-dir docs | -b evil.gradle |
            --build-file evil.gradle | -c evil.gradle | --settings-file evil.gradle | -D a=b |
            -Dorg.gradle.java.home=evil | -P a=b | -Pevil=1 | --system-prop a=b | --project-prop a=b | -g out |
            --gradle-user-home out | --include-build docs | --project-cache-dir out | --write-locks | -M sha256 |
            --scan | --foreground | --export-keys
        """,
        """
            gradle test publish | gradle test :evil:run | gradle test -qI evil.gradle | gradle test -qIevil.gradle |
            gradle test * | gradle test -ip docs
        """,
    ),
    "just": Program(
        "just test",
        """
            just test | just test --quiet | just test -v | just test --dry-run | just test --color never
        """,
        """
            -f evil.just | --justfile evil.just | -d docs | --working-directory docs | --set a b | --shell ./evil |
            --shell-arg -c | -c evil | --command evil | --dotenv-path evil | -E evil | --dotenv-filename evil |
            --chooser ./evil | --choose | -g | --global-justfile | -e | --edit | --init | --fmt | --shell-command |
            --tempdir out
        """,
        """
            just test deploy | just test a=b | just test -qf evil.just | just test -qfevil.just | just test * |
            just test -- deploy
        """,
    ),
    "uv": Program(
        "uv run pytest",
        """
            uv run pytest | uv run pytest -q -x -k 'a and b' tests/ | uv run pytest tests/test_a.py::test_b |
            uv run pytest --cov=src --cov-report=term-missing
        """,
        """
            -c evil.ini | --config-file evil.ini | --rootdir docs | -p evil | -o python_files=evil |
            --override-ini a=b | --junitxml out | --junit-xml out | --basetemp out | --log-file out | --confcutdir / |
            --pastebin all | --cov-config evil | --cov-report=html:out | --debug out | --import-mode importlib |
            --pdbcls a:b | --pdb
        """,
        """
            uv run pytest /tmp/evil | uv run pytest ../evil | uv run pytest @evil | uv run pytest -qp evil |
            uv run pytest -qcevil.ini | uv run pytest --pyargs evil | uv run pytest * |
            uv run pytest -W error::evil.X
        """,
    ),
    "uv before": Program(
        "uv run",
        """
            uv run pytest | uv run --frozen pytest -x | uv run --group dev --python 3.12 mypy src
        """,
        """
            --directory docs | --project docs | --env-file evil | --config-file evil | --with evil | -w evil |
            --with-requirements evil | --with-editable evil | --index http://evil | -i http://evil | -f http://evil |
            --cache-dir out | -p ./evil | --python ./evil | -s | --script | --default-index http://evil
        """,
        """
            uv run -qp ./evil x | uv run --python=./evil x
        """,
        before="uv run --frozen",
    ),
    "pytest": Program(
        "python -m pytest",
        """
            python -m pytest | python -m pytest -q -x -k name tests/ |
            python -m pytest -n 4 --tb=short tests/a.py::test_b | python -m pytest -vv --lf --durations=5 |
            python -m pytest -rA -m 'not slow'
        """,
        """
            -c evil.ini | --config-file evil.ini | --rootdir docs | -p evil | -o python_files=evil |
            --override-ini a=b | --junitxml out | --junit-xml out | --basetemp out | --log-file out | --confcutdir / |
            --pastebin all | --cov-config evil | --cov-report html:out | --rsyncdir / | --tx ssh=evil | --px evil |
            --trace | --pdb
        """,
        """
            python -m pytest /tmp/evil | python -m pytest ../evil | python -m pytest @evil |
            python -m pytest -xp evil | python -m pytest tests/../../evil | python -m pytest ~/evil |
            python -m pytest $HOME/evil | python -m pytest -- /tmp/evil
        """,
    ),
    "docker": Program(
        "docker run",
        """
            docker run --rm alpine ls -la / | docker run -it --name x -e A=b alpine sh -c 'ls' |
            docker run -d --pull=always x
        """,
        """
            -v /:/host | --volume /:/host | --mount type=bind,src=/,dst=/x | --privileged | --cap-add ALL |
            --pid host | --ipc host | --network host | --net host | --security-opt seccomp=unconfined |
            --device /dev/sda | --env-file /etc/passwd | --cidfile out | --volumes-from x | --userns host |
            --uts host | --label-file x | --runtime evil | --add-host a:b | -p 80:80 | -P
        """,
        """
            docker run -itv /:/host alpine | docker run -v/:/host alpine | docker run --rm -v=/:/host alpine
        """,
        before="docker run --rm",
    ),
    "docker build": Program(
        "docker build",
        """
            docker build . | docker build -t x:1 . | docker build --no-cache --pull -q ./sub
        """,
        """
            -f evil | --file evil | -o out | --output out | --build-arg a=b | --secret id=x,src=/etc/shadow |
            --ssh default | --iidfile out | --metadata-file out | --cache-to type=local,dest=out |
            --build-context a=/ | --network host | --allow security.insecure | --add-host a:b
        """,
        """
            docker build / | docker build .. | docker build - | docker build https://example.org/evil.git |
            docker build -qf evil .
        """,
    ),
    "kubectl": Program(
        "kubectl get",
        """
            kubectl get pods -n x -o json | kubectl get -A pods --watch |
            kubectl get pods -o jsonpath='{.items[*].x}' | kubectl get deploy,svc -l app=x --sort-by=.metadata.name
        """,
        """
            --kubeconfig evil | --context evil | --cluster evil | --user evil | --server http://evil |
            -s http://evil | --token x | --as root | --as-group x | --raw /api | -f evil.yml | --filename evil.yml |
            -k docs | --kustomize docs | --cache-dir out | --profile-output out | --log-file out |
            --certificate-authority evil | --client-key evil | --insecure-skip-tls-verify | --tls-server-name x |
            --password x | --log-dir out
        """,
        """
            kubectl get pods * | kubectl get pods -ws http://evil | kubectl get pods -Af evil.yml
        """,
    ),
    "kubectl apply": Program(
        "kubectl apply",
        """
            kubectl apply -f deploy/a.yml -n x | kubectl apply -k deploy --dry-run=client
        """,
        """
            -f /etc/x | -f https://example.org/evil.yml | -f ../evil.yml | --filename=/etc/x | -k ../x |
            --context evil | --kubeconfig evil | --prune-allowlist evil | --force
        """,
        """
            kubectl apply -f - | kubectl apply -Rf /etc/x | kubectl apply -f ~/evil.yml
        """,
    ),
}

GIT_ORDINARY = [
    ("git status", "git status --short --branch"),
    ("git log", "git log --oneline -n 5 -- src"),
    ("git diff", "git diff --stat HEAD~1 -- ."),
    ("git add", "git add -A src"),
    ("git commit", "git commit -am 'x: y'"),
    ("git push", "git push -u origin HEAD"),
    ("git fetch", "git fetch --all --prune"),
    ("git rebase", "git rebase --onto main topic"),
    ("git format-patch", "git format-patch --stdout -1"),
]
GIT_LEAVING = """
    log --output=out | log --output out | log --outp=out | log --output-directory=out | log * | log {a,--output=b} |
    diff --output=out | diff --output out | diff --outp=out | diff --output-directory=out | diff * | show --output=out |
    show --output out | show --outp out | show * | stash show --output=out | fetch --upload-pack=./evil x |
    fetch --upload-pack ./evil x | fetch --upload=./evil x | fetch ext::./evil | pull --upload-pack=./evil x |
    pull --upload-pack ./evil x | pull --strategy=./evil | pull -s ./evil | ls-remote --upload-pack=./evil x |
    ls-remote --exec ./evil x | ls-remote ext::./evil | clone --upload-pack=./evil x | clone -u ./evil x |
    clone -qu ./evil x | clone -c core.fsmonitor=./evil x | clone --config=a.b=c x | clone --template=evil x |
    clone --separate-git-dir=out x | clone ext::./evil | push --receive-pack=./evil | push --exec=./evil |
    push --exe ./evil | push ext::./evil | rebase -x ./evil | rebase -ix ./evil | rebase --exec ./evil |
    rebase --exe=./evil | rebase -s ./evil | rebase -qs./evil | grep -O./evil x | grep -nO./evil x |
    grep --open-files-in-pager=./evil x | grep --open x | archive -o out HEAD | archive -oout HEAD |
    archive --output=out HEAD | archive --remote=x --exec=./evil HEAD | format-patch -o out -1 |
    format-patch -qo out -1 | format-patch --output-dir=out -1 |
    bisect run ./evil | submodule foreach ./evil | config core.pager ./evil |
    bundle create out HEAD | apply --unsafe-paths p | init --template=evil | worktree add .git/hooks |
    mv x .git/hooks/y | read-tree --index-output=out HEAD | fast-export --export-marks=out HEAD
"""


def items(text: str) -> list[str]:
    """What a text of the table lists."""
    return " ".join(text.split()).split(" | ")


def spellings(key: str, option: str) -> Iterator[str]:
    """An option in the ways that option readers know: apart, joined, shortened, in a cluster, with another hyphen."""
    name, blank, value = option.partition(" ")
    known, style = row_of(key).options, row_of(key).style
    yield option
    if not blank:
        return
    yield f"{name}={value}"
    if name.startswith("--"):
        yield f"{name[:-1]} {value}"
        yield f"{name[:-1]}={value}"
        if style != "letters":
            yield f"{name[1:]} {value}"
    elif len(name) == 2:
        yield f"{name}{value}"
        for letter in "sqvkd":
            # The rest of a cluster is the value of a letter that takes one.
            if not known.get(f"-{letter}"):
                yield f"-{letter}{name[1:]} {value}"
                yield f"-{letter}{name[1:]}{value}"
    else:
        yield f"-{name} {value}"
        yield f"-{name}={value}"


def key_of(task: str) -> str:
    """The row that a task is read by."""
    words = task.removeprefix("python -m ").removeprefix("uv run pytest") or "pytest"
    return words if words in ROWS else words.split()[0]


def attempts(program: Program) -> list[str]:
    """Every command that leaves the task of a program."""
    found = [
        f"{before} {each}"
        for option in items(program.leaving)
        for each in spellings(key_of(program.rule), option)
        for before in (program.rule, program.before or items(program.ordinary)[1].partition(" -- ")[0])
    ]
    return list(dict.fromkeys([*found, *items(program.others)]))


def match(rule: str, command: str, workspace: str = "/nowhere") -> str:
    """Why a command is refused; nothing when it is allowed."""
    found = permits(parse_rules(f"Bash({rule})"), "Bash", {"command": command}, workspace=workspace)
    return "" if found.allowed else found.reason


@pytest.mark.covers("SEC-2")
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.each("name", TABLE)
def test_no_option_and_no_word_leaves_the_task_that_a_rule_names(name: str, every: int) -> None:
    program = TABLE[name]
    tried = attempts(program)
    assert len(tried) >= 40
    assert [command for command in tried[::every] if not match(f"{program.rule}:*", command)] == []


@pytest.mark.covers("SEC-2")
def test_no_option_of_git_leaves_the_subcommand_that_a_rule_names() -> None:
    tried = [(text.split()[0], f"git {text}") for text in items(GIT_LEAVING)]
    assert len(tried) >= 40
    assert [command for task, command in tried if not match(f"git {task}:*", command)] == []
    assert [command for task, command in GIT_ORDINARY if match(f"{task}:*", command)] == []


@pytest.mark.covers("SEC-2")
@pytest.mark.each("name", TABLE)
def test_ordinary_work_at_a_task_goes_on(name: str) -> None:
    program = TABLE[name]
    reasons = {command: match(f"{program.rule}:*", command) for command in items(program.ordinary)}
    assert {command: reason for command, reason in reasons.items() if reason} == {}


@pytest.mark.covers("SEC-2")
@pytest.mark.each(
    ("rule", "command", "is_allowed"),
    [
        ("npm:*", "npm run test -sC docs", True),
        ("make:*", "make test MAKEFILES=evil.mk -C docs deploy", True),
        ("npm run test -C:*", "npm run test -C docs", True),
        ("npm run test -C docs:*", "npm run test -C docs --silent", True),
        ("npm run test -C docs:*", "npm run test -C other", False),
        ("npm run test -- --config:*", "npm run test -- --config evil.js", True),
        ("make -C docs:*", "make -C docs test", True),
        ("make -C docs test:*", "make -C docs test -j4", True),
        ("make -C docs test:*", "make -C docs test -C ..", False),
        ("make test V=1", "make test V=1", True),
        ("make test V=1", "make test V=1 -j4", False),
        ("make * test", "make -j4 test", True),
        ("make * test", "make evil test", False),
        ("make * test", "make -f evil.mk test", False),
        ("make t*t", "make tevil sett", False),
        ("make build-*", "make build-all -j2", True),
        ("make build-*", "make build-all evil", False),
        ("npm run *", "npm run build --silent", True),
        ("npm run *", "npm run build --prefix docs", False),
        ("npm run test*", "npm run test-all --prefix docs", False),
        ("kubectl --context prod get:*", "kubectl --context prod get pods -o json", True),
        ("kubectl --context prod get:*", "kubectl --context prod get pods --context dev", False),
        ("kubectl -n dev get:*", "kubectl -n dev get pods -o json", True),
        ("kubectl -n dev get:*", "kubectl -n dev get pods -n prod", False),
        ("kubectl -n dev get:*", "kubectl -n dev get pods --namespace=prod", False),
        ("nox -s test:*", "nox -s test -s deploy", False),
        ("tox -e py:*", "tox -e py -e deploy", False),
        ("docker compose:*", "docker compose up -d --build", True),
        ("docker compose:*", "docker compose logs -f web", True),
        ("docker compose:*", "docker compose -f logs up", False),
        ("docker compose:*", "docker compose -f evil.yml up", False),
        ("docker ps:*", "docker ps -a --format '{{.Names}}'", True),
        ("docker ps:*", "docker ps -aqf name=x", True),
        ("docker ps:*", "docker ps --config evil", False),
        ("docker image:*", "docker image build -f evil .", False),
        ("docker-compose up:*", "docker-compose up -d", True),
        ("docker-compose up:*", "docker-compose up -f evil.yml", False),
        ("podman run:*", "podman run -v /:/host alpine", False),
        ("docker run:*", "docker run $X -v /:/host alpine", False),
        ("docker run:*", "docker run $X alpine", False),
        ("docker run:*", 'docker run alpine ls "$X"', True),
        ("tofu plan:*", "tofu plan -chdir=docs", False),
        ("docker compose -f dev.yml:*", "docker compose -f dev.yml up -d", True),
        ("timeout 60 npm run test:*", "timeout 60 npm run test --prefix docs", False),
        ("timeout 60 npm run test:*", "timeout 60 npm run test --silent", True),
        ("./gradlew test:*", "./gradlew test --info", True),
        ("./gradlew test:*", "./gradlew test -I evil.gradle", False),
        ("./mvnw test:*", "./mvnw test -f docs", False),
        ("python3 -mpytest tests:*", "python3 -mpytest tests -p evil", False),
        ("uv run python -m pytest:*", "uv run python -m pytest -p evil", False),
        ("uv run ruff check:*", "uv run ruff check --select E .", True),
        ("poetry run pytest:*", "poetry run pytest -c evil.ini", False),
        ("bundle exec rake test:*", "bundle exec rake test -f evil.rb", False),
        ("npx jest:*", "npx jest --config x", True),
        ("tox -e py:*", "tox -e py -- -k name -x", True),
        ("tox -e py:*", "tox -e py -c evil.ini", False),
        ("tox -e py:*", "tox -e py -- -p evil", False),
        ("nox -s test:*", "nox -s test deploy", False),
        ("cargo clippy:*", "cargo clippy --all-targets -- -D warnings", True),
        ("cargo clippy:*", "cargo clippy -- -C linker=./evil", False),
        ("cargo run:*", "cargo run --release -- --port 80 --config x", True),
        ("cargo run:*", "cargo run --manifest-path docs/Cargo.toml", False),
        ("go run ./cmd/x:*", "go run ./cmd/x --config a", True),
        ("go run ./cmd/x:*", "go run ./cmd/x -exec ./evil", True),
        ("go run:*", "go run -exec ./evil ./cmd/x", False),
        ("go build:*", "go build -o /usr/bin/x ./...", False),
        ("dotnet test:*", "dotnet test -c Release --no-build --filter X", True),
        ("dotnet test:*", "dotnet test -p:X=y", False),
        ("dotnet test:*", "dotnet test /p:X=y", False),
        ("dotnet test:*", "dotnet test --logger trx", False),
        ("deno test:*", "deno test --filter x tests/", True),
        ("deno test:*", "deno test --allow-run", False),
        ("deno test:*", "deno test --config evil.json", False),
        ("bazel test:*", "bazel test //... --test_output=errors", True),
        ("bazel test:*", "bazel test //... --run_under=./evil", False),
        ("cmake --build build:*", "cmake --build build -j4", True),
        ("cmake --build build:*", "cmake --build build --target install", False),
        ("cmake --build build:*", "cmake --build build -- -f evil.mk", False),
        ("ninja test:*", "ninja test -C docs", False),
        ("ninja test:*", "ninja test -j4", True),
        ("meson test:*", "meson test --wrapper ./evil", False),
        ("helm template:*", "helm template x ./chart --post-renderer ./evil", False),
        ("helm template:*", "helm template x ./chart -n y", True),
        ("helm template:*", "helm template x ./chart --output-dir out", False),
        ("terraform plan:*", "terraform plan -no-color -input=false", True),
        ("terraform plan:*", "terraform plan -out=x", False),
        ("terraform plan:*", "terraform plan -var-file=evil", False),
        ("composer test:*", "composer test -d docs", False),
        ("composer test:*", "composer test --working-dir=docs", False),
        ("rake test:*", "rake test -n X=1", False),
        ("rake test:*", "rake test --trace", True),
        ("ant test:*", "ant test -f evil.xml", False),
        ("ant test:*", "ant test -Da=b", False),
        ("ant test:*", "ant test -quiet", True),
        ("sbt test:*", "sbt test 'run evil'", False),
        ("pipenv run pytest:*", "pipenv run pytest -q", True),
        ("pipenv run pytest:*", "pipenv run pytest --rootdir=/", False),
        ("yarn run test:*", "yarn run test --cwd docs", False),
        ("bun test:*", "bun test --preload ./evil.ts", False),
        ("bun test:*", "bun test -t name --bail", True),
        ("for x in a b; do pytest $x; done", "for x in a b; do pytest $x; done", True),
    ],
)
def test_a_rule_covers_what_it_spells_out_and_what_stays_inside_the_task(
    rule: str, command: str, is_allowed: bool
) -> None:
    assert (not match(rule, command)) is is_allowed, match(rule, command)


@pytest.mark.covers("SEC-2")
def test_the_values_of_a_loop_are_held_against_the_task() -> None:
    rule = "python -m pytest:*"
    assert not match(rule, "for f in tests/a.py tests/b.py; do python -m pytest $f; done")
    assert match(rule, "for f in tests -pevil; do python -m pytest $f; done")
    assert match(rule, "for f in tests ../evil; do python -m pytest $f; done")


@pytest.mark.covers("SEC-2")
def test_a_task_is_another_one_in_another_folder(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    rules = parse_rules("Bash(npm run test:*) Bash(cd:*) Bash(kubectl get:*) Bash(cd docs && npm test)")
    for arguments, is_allowed in [
        ({"command": "npm run test"}, True),
        ({"command": "npm run test", "cwd": str(tmp_path)}, True),
        ({"command": "npm run test", "cwd": "docs"}, False),
        ({"command": "npm run test", "workdir": "/"}, False),
        ({"command": "cd docs && npm run test"}, False),
        ({"command": f"cd {tmp_path} && npm run test"}, True),
        ({"command": "kubectl get pods", "cwd": "docs"}, True),
        ({"command": "cd docs && npm test"}, True),
    ]:
        assert permits(rules, "Bash", arguments, workspace=str(tmp_path)).allowed is is_allowed, arguments


@pytest.mark.covers("SEC-2")
def test_a_path_that_a_link_leads_out_of_the_workspace_is_no_part_of_the_task(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "tests").mkdir(parents=True)
    (work / "way").symlink_to(tmp_path)
    assert not match("python -m pytest:*", "python -m pytest tests", str(work))
    assert not match("python -m pytest:*", f"python -m pytest {work}/tests", str(work))
    assert match("python -m pytest:*", "python -m pytest way/evil", str(work))
    assert match("python -m pytest:*", "python -m pytest way", str(work))


@pytest.mark.covers("SEC-2")
def test_a_refusal_names_the_option_and_what_would_allow_it() -> None:
    reason = match("npm run test:*", "npm run test -sC docs")
    assert "`-sC`" in reason and "Bash(npm run test:*) names a task" in reason and "Bash(npm:*)" in reason


def test_every_row_belongs_to_a_program_that_has_one() -> None:
    for key in ROWS:
        row, words = row_of(key), key.split()
        assert all(" ".join(words[:count]) in ROWS for count in range(1, len(words))), key
        assert row.behind in {"", "any", "program", "words", *LISTS}, key
        assert row.rest in {"", "any", "program", *LISTS}, key
        assert all(name.startswith("-") and len(name) > 1 for name in row.options), key
        assert row.words in get_args(Words) and row.style in get_args(Style), key
    assert all(list_of(row_of(key).behind).options for key in ROWS if row_of(key).behind in LISTS)


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
DANGEROUS = {
    "make test": ["-C", "-f", "-I", "-E", "--directory", "--file", "--makefile", "--include-dir", "--eval"],
    "npm run test": ["-C", "--prefix", "--script-shell", "--userconfig", "--node-options", "--logs-dir"],
    "cargo test": ["-C", "-Z", "--manifest-path", "--config", "--target-dir"],
    "gradle test": ["-I", "-p", "-b", "-c", "-g", "-D", "-P", "--init-script", "--project-dir"],
    "python -m pytest": ["-c", "-p", "-o", "--rootdir", "--junitxml", "--basetemp", "--config-file"],
    "kubectl get": ["-s", "-f", "-k", "--kubeconfig", "--context", "--raw"],
    "docker run": ["-v", "-p", "-P", "--volume", "--mount", "--privileged", "--cidfile"],
    "just test": ["-f", "-d", "-c", "-E", "--set", "--shell", "--justfile"],
    "uv run": ["-w", "-i", "-f", "-s", "--directory", "--project", "--with"],
}


@pytest.mark.covers("SEC-2")
@given(data=st.data())
def test_no_spelling_of_an_option_that_leaves_a_task_is_allowed(data: st.DataObject) -> None:
    task = data.draw(st.sampled_from(sorted(DANGEROUS)))
    option = data.draw(st.sampled_from(DANGEROUS[task]))
    known = row_of(key_of(task)).options
    flags = [name for name, kind in known.items() if not kind]
    letters = [name[1] for name in flags if len(name) == 2]
    value = data.draw(
        st.text(alphabet="abcxyz./=", min_size=1, max_size=6).filter(lambda text: not text.startswith("="))
    )
    joint = data.draw(st.sampled_from(["", " ", "="]))
    if option.startswith("--"):
        written = option[: data.draw(st.integers(min_value=5, max_value=len(option)))]
        joint = joint or "="
        if written in known:
            return
    else:
        written = "-" + "".join(data.draw(st.lists(st.sampled_from(letters or [""]), max_size=3))) + option[1]
    before = data.draw(st.lists(st.sampled_from(flags), max_size=2)) if flags else []
    after = data.draw(st.lists(st.sampled_from(flags), max_size=2)) if flags else []
    command = " ".join([task, *before, f"{written}{joint}{value}", *after, "alpine"])
    assert match(f"{task}:*", command), command


@given(
    st.sampled_from(["make test", "npm run test", "cargo test", "go test", "mvn test", "gradle test", "just test"]),
    st.text(alphabet=LETTERS + "-", min_size=1, max_size=8),
)
@pytest.mark.covers("SEC-2")
def test_an_option_that_is_in_no_row_is_never_covered(task: str, name: str) -> None:
    known = row_of(key_of(task)).options
    command = f"{task} --{name.strip('-') or 'x'}"
    listed = {option.lstrip("-") for option in known}
    assert (command.rpartition("--")[2] in listed) or match(f"{task}:*", command), command
