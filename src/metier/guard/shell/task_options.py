"""The options that a rule which names a task covers: one row for each program and task.

An option that is not in a row is not covered, so a row lists only options that choose among what the task does or how
it reports: none that names another folder, another file of definitions, another program, a variable, or a file to
write. Every one of them is an option that the program has; a shortened spelling is none of the list.

- `-v` takes no value (`--watch=false` says no more than yes or no).
- `-n=` takes any value, `-j=#` a number, `--color=~` one plain word, `-f=/` a path inside the workspace,
  `-o=%` a form of output that is read from no file.
- `-O?` takes a value only where it is part of the word, and `-T+` one there too although other letters may not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Words = Literal["none", "tasks", "packages", "inside", "local", "any"]
Style = Literal["flags", "letters", "names"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a program may be given for one task, beside what the rule itself spells out."""

    options: str = ""
    words: Words = "inside"
    """Words that are no options: none, further tasks (only where the rule names none, and no variables), names of
    packages, those that stay inside the workspace (`local` where others would be fetched), or any."""
    behind: str = ""
    """What may stand behind `--`: `any`, a list in `PASSED`, the words of another program (`program`), or nothing."""
    rest: str = ""
    """The same for what follows the first word, where options of the program itself end there."""
    style: Style = "letters"
    """Whether a hyphen is followed by letters (`-xvf a`), by a name (`-ntp`), or by one that may have two hyphens."""
    is_local: bool = True
    """Whether what the task does is written down in the folder where it runs."""


_RUNNER = """
    --watch --no-watch --watchAll --run --ci --bail --bail=# --verbose --silent --quiet --coverage --no-coverage
    --runInBand --passWithNoTests --testNamePattern= -t= --grep= --maxWorkers=~ --forceExit --detectOpenHandles
    --color --no-color --updateSnapshot --onlyChanged --listTests --no-cache --testTimeout=# --timeout=# --retries=#
    --headless --max-warnings=# --check --noEmit --help --version
"""
_SCRIPT = _RUNNER + "-g= -u"
_PYTEST = """
    -k= -m= -x -v -q -s -l -h -V -n=~ -r=~ --markers --exitfirst --maxfail=# --strict --strict-config --strict-markers
    --fixtures --fixtures-per-test --capture=~ --runxfail --lf --last-failed --ff --failed-first --nf --new-first
    --cache-clear --lfnf=~ --last-failed-no-failures=~ --sw --stepwise --sw-skip --stepwise-skip --durations=#
    --durations-min=# --verbose --no-header --no-summary --quiet --verbosity=# --disable-warnings --showlocals
    --no-showlocals --tb=~ --show-capture=~ --full-trace --color=~ --code-highlight=~ -W=~ --max-warnings=#
    --collect-only --co --ignore= --ignore-glob= --deselect= --noconftest --keep-duplicates
    --continue-on-collection-errors --doctest-modules --doctest-report=~ --doctest-ignore-import-errors
    --doctest-continue-on-failure --version --help --assert=~ --setup-only --setup-show --setup-plan --log-level=~
    --log-cli-level=~ --numprocesses=~ --dist=~ --cov= --cov-report=~ --cov-fail-under=# --cov-branch --cov-append
    --no-cov --timeout=# --reruns=# --hypothesis-seed=# --hypothesis-show-statistics --benchmark-skip --benchmark-only
    --asyncio-mode=~
"""
_LIBTEST = """
    --nocapture --no-capture --test-threads=# --ignored --include-ignored --exact --skip= --list --show-output
    -q --quiet --format=~ --color=~ --test --bench --shuffle --shuffle-seed=#
"""
PASSED: Mapping[str, str] = {
    "clippy": "-A= -D= -F= -W=",
    "libtest": _LIBTEST,
    "pytest": _PYTEST,
    "rustfmt": "--check -l -q -v --color=~ --edition=#",
    "script": _SCRIPT,
}
"""Options of the programs that tasks start, as far as they are known: those of test runners, for scripts."""

_NPM = """
    -s --silent -q --quiet -d -dd -ddd --verbose --loglevel=~ --if-present --ignore-scripts --foreground-scripts -w=
    --workspace= -ws --workspaces --include-workspace-root --color --no-color --progress --no-progress --no-fund
    --no-audit --no-update-notifier --offline --prefer-offline --json -l --long --parseable --depth=#
"""
_NPM_INSTALL = """
    -D --save-dev -E --save-exact -O --save-optional -P --save-prod --save --no-save --omit=~ --include=~ --dry-run
    --legacy-peer-deps --strict-peer-deps --prefer-dedupe --package-lock-only --no-package-lock --no-bin-links
"""
_PNPM = "-s --silent --if-present --color --no-color --stream --aggregate-output --reporter=~ --loglevel=~ --no-bail"
_PNPM_INSTALL = """
    -D --save-dev -E --save-exact -O --save-optional -P --save-prod --prod --dev --no-optional --frozen-lockfile
    --no-frozen-lockfile --lockfile-only --offline --prefer-offline --ignore-scripts --force
"""
_YARN_INSTALL = """
    -D --dev -E --exact -P --peer -O --optional --immutable --frozen-lockfile --check-files --offline --prefer-offline
    --ignore-scripts --production --non-interactive --pure-lockfile --silent --json
"""
_BUN = "--silent --if-present"
_BUN_TEST = """
    -t= --test-name-pattern= --bail --bail=# --only --todo --concurrent --randomize --seed=# --timeout=# --rerun-each=#
    --max-concurrency=# --coverage --update-snapshots -u --watch --dots
"""
_CARGO = "-v -q -h --verbose --quiet --help --color=~ --locked --offline --frozen"
_CARGO_BUILD = """
    -p= --package= --workspace --all --exclude= --lib --bins --bin= --examples --example= --tests --test= --benches
    --bench= --all-targets --doc -F= --features= --all-features --no-default-features -j=# --jobs=# -r --release
    --profile=~ --target=~ --message-format=~ --keep-going --no-run --no-fail-fast --ignore-rust-version
    --future-incompat-report --no-deps
"""
_GO = """
    -a -n -p=# -race -msan -asan -cover -covermode=~ -coverpkg= -v -work -x -buildmode=~ -buildvcs=~ -json -linkshared
    -mod=~ -modcacherw -tags= -trimpath
"""
_GO_TEST = """
    -run= -skip= -bench= -benchtime= -benchmem -count=# -cpu= -failfast -fullpath -fuzz= -fuzztime= -fuzzminimizetime=
    -list= -parallel=# -short -shuffle=~ -timeout= -vet=~
"""
_MAVEN = """
    -q -B -e -X -U -o -N -V -h -C -c -nsu -ntp -am -amd -fae -ff -fn --quiet --batch-mode --errors --debug
    --update-snapshots --offline --non-recursive --show-version --help --strict-checksums --lax-checksums
    --no-snapshot-updates --no-transfer-progress --also-make --also-make-dependents --fail-at-end --fail-fast
    --fail-never --color=~ -T=+ --threads= -pl= --projects= -rf= --resume-from= -Dtest= -Dit.test= -DskipTests
    -DskipITs -Dmaven.test.skip -Dmaven.test.failure.ignore -DfailIfNoTests -Dsurefire.failIfNoSpecifiedTests
    -Dgroups= -DexcludedGroups= -Dstyle.color=~
"""
_GRADLE = """
    -q -i -d -w -s -S -m -a -t -h --quiet --info --debug --warn --stacktrace --full-stacktrace --console=~
    --warning-mode=~ --continue --dry-run --offline --parallel --no-parallel --build-cache --no-build-cache
    --configuration-cache --no-configuration-cache --configure-on-demand --no-configure-on-demand --daemon --no-daemon
    --max-workers=# --rerun-tasks --rerun --refresh-dependencies --tests= -x= --exclude-task= --no-rebuild --fail-fast
    --no-scan --priority=~ --continuous --help
"""
_JUST = """
    -q -v -n -u -h --quiet --verbose --dry-run --color=~ --command-color=~ --highlight --no-highlight --timestamp --one
    --yes --explain --no-deps --unsorted --unstable --no-aliases --no-dotenv --help
"""
_UV = "-q -v -h --quiet --verbose --help --color=~ --offline --no-progress --no-cache"
_UV_SYNC = """
    --frozen --locked --no-sync --exact --extra= --all-extras --no-extra= --group= --no-group= --only-group=
    --all-groups --no-default-groups --dev --no-dev --only-dev --package= --all-packages --isolated --no-editable
    -p=# --python=#
"""
_UV_ADD = "-U --upgrade --dev --optional= --no-deps --dry-run --raw"
_DOCKER_OUT = "-a -q -f= -n=# -l -s --all --quiet --filter= --format= --last=# --latest --no-trunc --size --digests"
_DOCKER_LOGS = "-f -n=~ -t --follow --tail=~ --since= --until= --timestamps --details --no-color --no-log-prefix"
_DOCKER_RUN = """
    -i -t -d -q -e= -w= -l= --rm --interactive --tty --detach --quiet --env= --workdir= --label= --name= --init
    --platform= --pull=~ --entrypoint= --read-only --memory= --cpus=# --stop-timeout=#
"""
_DOCKER_BUILD = "-t= -q --tag= --quiet --no-cache --pull --target= --platform= --label= --progress=~ --rm --force-rm"
_COMPOSE = """
    -d -q --detach --quiet --build --no-build --force-recreate --no-recreate --remove-orphans --no-deps --wait
    --wait-timeout=# --pull=~ --quiet-pull --no-color --no-log-prefix --timeout=# --abort-on-container-exit --no-start
    --all -a --services --format= --status=~ --filter= --no-cache --progress=~ --ansi=~
"""
_KUBECTL = "-n= --namespace= -v=# --v=# -h --help --request-timeout="
_KUBECTL_SEEN = """
    -A -o=% -l= -L= -w --all-namespaces --output=% --selector= --field-selector= --label-columns= --watch --watch-only
    --show-labels --sort-by= --no-headers --ignore-not-found --chunk-size=# --show-kind --show-managed-fields
    --show-events --recursive --api-version= --api-group= --namespaced --verbs= --subresource=~ --containers
    --sum --use-protocol-buffers --allow-missing-template-keys
"""
_KUBECTL_LOGS = """
    -f -c= -l= -p --follow --container= --selector= --previous --tail=# --since= --since-time= --timestamps
    --all-containers --prefix --limit-bytes=# --max-log-requests=# --ignore-errors
"""
_KUBECTL_APPLY = """
    -f=/ -k=/ -o=~ -R -l= --filename=/ --kustomize=/ --output=~ --recursive --selector= --dry-run=~ --server-side
    --validate=~ --wait --timeout= --field-manager=
"""
_KUBECTL_DELETE = (
    "-f=/ -k=/ -l= -R --filename=/ --all --selector= --field-selector= --dry-run=~ --wait --timeout= --now"
)
_HELM = """
    -n= -o=~ -A -q -a -l= -h --namespace= --output=~ --all-namespaces --short --all --debug --selector= --no-headers
    --max=# --revision=# --dry-run --dry-run=~ --wait --timeout= --help --strict --quiet --deployed --failed --pending
"""
_TERRAFORM = """
    -no-color -json -input=~ -lock=~ -lock-timeout= -parallelism=# -refresh=~ -refresh-only -detailed-exitcode
    -compact-warnings -concise -check -recursive -diff -upgrade -target= -help
"""
_DENO_TEST = """
    -q --quiet --filter= --parallel --fail-fast --fail-fast=# --no-run --doc --trace-leaks --shuffle --shuffle=#
    --reporter=~ --check --no-check --cached-only --frozen --permit-no-files --ignore= --no-prompt
"""
_DOTNET = """
    -c=~ --configuration=~ -v=~ --verbosity=~ -f= --framework= --no-build --no-restore --no-dependencies --nologo
    --filter= --list-tests -t --blame --force --help -h
"""
_POETRY = "-n -q -v -h --no-interaction --quiet --verbose --no-ansi --ansi --no-cache --help"
_BAZEL = """
    -k -s -j= -c=~ --keep_going --nokeep_going --verbose_failures --subcommands --jobs= --color=~ --curses=~
    --show_progress --noshow_progress --test_output=~ --test_filter= --cache_test_results=~ --nocache_test_results
    --runs_per_test= --flaky_test_attempts= --test_timeout= --test_size_filters= --test_tag_filters=
    --build_tag_filters= --build_tests_only --compilation_mode=~ --announce_rc --output=~
"""
_STARTER = "-y -q -s --yes --no --quiet --silent"

ROWS: Mapping[str, Row] = {
    "ant": Row(
        options="-q -quiet -v -verbose -d -debug -e -emacs -k -keep-going -S -silent -noinput -p -projecthelp -h -help",
        words="tasks",
        style="names",
    ),
    "bazel": Row(options=_BAZEL, words="any"),
    "bazel run": Row(options=_BAZEL, words="any", behind="any"),
    "bun": Row(options=_BUN + _RUNNER, behind="script"),
    "bun add": Row(options=_YARN_INSTALL, words="packages"),
    "bun install": Row(options=_YARN_INSTALL, words="packages"),
    "bun test": Row(options=_BUN_TEST),
    "bun x": Row(options=_STARTER, rest="program", behind="program"),
    "bundle": Row(options="--quiet --verbose --no-color --jobs=# --retry=# --local --help"),
    "bundle exec": Row(rest="program", behind="program"),
    "bunx": Row(options=_STARTER, rest="program", behind="program"),
    "cargo": Row(options=_CARGO, words="any"),
    "cargo bench": Row(options=_CARGO_BUILD, words="any", behind="libtest"),
    "cargo build": Row(options=_CARGO_BUILD, words="any"),
    "cargo check": Row(options=_CARGO_BUILD, words="any"),
    "cargo clippy": Row(options=_CARGO_BUILD, words="any", behind="clippy"),
    "cargo doc": Row(options=_CARGO_BUILD + "--document-private-items", words="any"),
    "cargo fmt": Row(options="-p= --package= --all --check", words="none", behind="rustfmt"),
    "cargo metadata": Row(options=_CARGO_BUILD + "--format-version=#", words="none"),
    "cargo run": Row(options=_CARGO_BUILD, words="any", behind="any"),
    "cargo test": Row(options=_CARGO_BUILD, words="any", behind="libtest"),
    "cargo tree": Row(
        options=_CARGO_BUILD + "-d -e= -f= -i= --edges= --invert= --depth=# --duplicates --prefix=~ --charset=~",
        words="any",
    ),
    "cargo update": Row(options="-p= --package= --dry-run --precise= --recursive --workspace", words="any"),
    "cmake": Row(
        options="""
            -Wdev -Wno-dev -Wdeprecated -Wno-deprecated --fresh --log-level=~ --warn-uninitialized --clean-first
            --config=~ --parallel=# -j=+# -v --verbose -DCMAKE_BUILD_TYPE=~ -DBUILD_SHARED_LIBS=~ -DBUILD_TESTING=~
            -DCMAKE_EXPORT_COMPILE_COMMANDS=~ -DCMAKE_VERBOSE_MAKEFILE=~ -L -LA -LH -N
        """,
        words="tasks",
        style="names",
    ),
    "composer": Row(
        options="""
            -q -v -vv -vvv -n -h --quiet --verbose --no-interaction --ansi --no-ansi --no-dev --dev --dry-run
            --no-progress --prefer-dist --prefer-stable --optimize-autoloader --no-scripts --no-plugins --no-cache
            --profile --timeout=# --no-audit --format=~
        """,
        words="any",
        behind="script",
        style="names",
    ),
    "deno": Row(options="-q --quiet --no-prompt --cached-only --frozen --check --no-check"),
    "deno run": Row(rest="any"),
    "deno task": Row(rest="script"),
    "deno test": Row(options=_DENO_TEST),
    "docker": Row(words="any", is_local=False),
    "docker build": Row(options=_DOCKER_BUILD, words="local"),
    "docker builder": Row(words="any", is_local=False),
    "docker builder build": Row(options=_DOCKER_BUILD, words="local"),
    "docker buildx": Row(words="any", is_local=False),
    "docker buildx b": Row(options=_DOCKER_BUILD, words="local"),
    "docker buildx build": Row(options=_DOCKER_BUILD, words="local"),
    "docker compose": Row(options=_COMPOSE, words="any"),
    "docker compose exec": Row(options="-T -d -e= -u= -w= --env= --user= --workdir= --index=#", rest="any"),
    "docker compose logs": Row(options=_DOCKER_LOGS, words="any"),
    "docker compose run": Row(
        options="-T -d -e= -u= -w= --rm --name= --env= --user= --workdir= --no-deps --build", rest="any"
    ),
    "docker exec": Row(
        options="-i -t -d -e= -u= -w= --interactive --tty --detach --env= --user= --workdir=",
        rest="any",
        words="any",
        is_local=False,
    ),
    "docker container": Row(words="any", is_local=False),
    "docker container ls": Row(options=_DOCKER_OUT, words="any", is_local=False),
    "docker image": Row(words="any", is_local=False),
    "docker image build": Row(options=_DOCKER_BUILD, words="local"),
    "docker image ls": Row(options=_DOCKER_OUT, words="any", is_local=False),
    "docker images": Row(options=_DOCKER_OUT, words="any", is_local=False),
    "docker network": Row(words="any", is_local=False),
    "docker network ls": Row(options=_DOCKER_OUT, words="any", is_local=False),
    "docker ps": Row(options=_DOCKER_OUT, words="any", is_local=False),
    "docker volume": Row(words="any", is_local=False),
    "docker volume ls": Row(options=_DOCKER_OUT, words="any", is_local=False),
    "docker inspect": Row(options="-f= -s --format= --size --type=~", words="any", is_local=False),
    "docker logs": Row(options=_DOCKER_LOGS, words="any", is_local=False),
    "docker run": Row(options=_DOCKER_RUN, words="any", rest="any", is_local=False),
    "dotnet": Row(options=_DOTNET, style="names"),
    "dotnet run": Row(options=_DOTNET, style="names", behind="any"),
    "go": Row(options=_GO, style="flags"),
    "go clean": Row(options="-i -r -cache -testcache -fuzzcache -modcache", style="flags"),
    "go doc": Row(options="-all -c -cmd -short -src -u", style="flags", words="any"),
    "go env": Row(options="-json -changed", style="flags"),
    "go fmt": Row(options="-n -x", style="flags"),
    "go get": Row(options="-t -u -u=~", style="flags", words="any"),
    "go list": Row(options="-m -e -f= -deps -test -u -versions -find", style="flags", words="any"),
    "go mod": Row(options="-e -go=# -compat=# -vendor -m", style="flags", words="any"),
    "go run": Row(style="flags", rest="any"),
    "go test": Row(options=_GO_TEST, style="flags"),
    "go vet": Row(options="-c=#", style="flags"),
    "gradle": Row(options=_GRADLE, words="tasks"),
    "hatch": Row(options="-q -v --quiet --verbose --no-color --no-interactive"),
    "hatch run": Row(rest="program"),
    "helm": Row(options=_HELM),
    "just": Row(options=_JUST, words="tasks"),
    "kubectl": Row(options=_KUBECTL, words="any", is_local=False),
    "kubectl apply": Row(options=_KUBECTL_APPLY),
    "kubectl create": Row(options=_KUBECTL_APPLY),
    "kubectl delete": Row(options=_KUBECTL_DELETE, words="any"),
    "kubectl diff": Row(options=_KUBECTL_APPLY),
    "kubectl exec": Row(
        options="-i -t -q -c= --stdin --tty --quiet --container= --pod-running-timeout=",
        words="any",
        behind="any",
        is_local=False,
    ),
    **{
        f"kubectl {task}": Row(options=_KUBECTL_SEEN, words="any", is_local=False)
        for task in ("api-resources", "describe", "events", "explain", "get", "top", "version")
    },
    "kubectl logs": Row(options=_KUBECTL_LOGS, words="any", is_local=False),
    "make": Row(
        options="""
            -b -m -B -d -i -j=# -k -l=# -L -n -O? -p -q -r -R -s -S -t -w -h --always-make --debug? --ignore-errors
            --jobs=# --keep-going --load-average=# --max-load=# --check-symlink-times --just-print --dry-run --recon
            --output-sync? --print-data-base --question --no-builtin-rules --no-builtin-variables --silent --quiet
            --no-silent --no-keep-going --stop --touch --trace --print-directory --no-print-directory
            --warn-undefined-variables --help
        """,
        words="tasks",
    ),
    "meson": Row(
        options="""
            -v -q -j=# -t=# --verbose --quiet --print-errorlogs --no-rebuild --list --suite= --no-suite= --repeat=#
            --timeout-multiplier=# --num-processes=# --maxfail=# --benchmark --no-stdsplit --clean --jobs=#
        """,
    ),
    "mvn": Row(options=_MAVEN, words="tasks", style="names"),
    "ninja": Row(options="-j=# -k=# -l=# -n -v -h --verbose --quiet --version", words="tasks"),
    "nox": Row(
        options="""
            -l -r -R -N -x -v -h --list
            --reuse-existing-virtualenvs --no-reuse-existing-virtualenvs --stop-on-first-error --no-install
            --install-only --error-on-missing-interpreters --verbose --forcecolor --nocolor --help
        """,
        words="none",
        behind="pytest",
    ),
    "npm": Row(options=_NPM, behind="script", words="any", style="names"),
    "npm ci": Row(options=_NPM_INSTALL, words="none", style="names"),
    "npm exec": Row(options=_STARTER, rest="program", behind="program", style="names"),
    **{
        f"npm {task}": Row(options=_NPM_INSTALL, words="packages", style="names")
        for task in [
            "add",
            "i",
            "in",
            "ins",
            "inst",
            "insta",
            "instal",
            "install",
            "isnt",
            "isnta",
            "isntal",
            "isntall",
        ]
    },
    "npm run": Row(behind="script", style="names"),
    "npm run-script": Row(behind="script", style="names"),
    "npm start": Row(behind="script", style="names"),
    "npm test": Row(behind="script", style="names"),
    "npm x": Row(options=_STARTER, rest="program", behind="program", style="names"),
    "npx": Row(options=_STARTER, rest="program", behind="program"),
    "pdm": Row(options="-q -v -h --quiet --verbose --help --no-lock --frozen-lockfile"),
    "pdm run": Row(rest="program"),
    "pipenv": Row(options="-q -v -h --quiet --verbose --help --dev --deploy --ignore-pipfile", words="any"),
    "pipenv run": Row(rest="program", behind="program"),
    "pnpm": Row(options=_PNPM + _RUNNER, behind="script", style="names"),
    "pnpm add": Row(options=_PNPM_INSTALL, words="packages", style="names"),
    "pnpm dlx": Row(options=_STARTER, rest="program", style="names"),
    "pnpm exec": Row(rest="program", behind="program", style="names"),
    "pnpm i": Row(options=_PNPM_INSTALL, words="none", style="names"),
    "pnpm install": Row(options=_PNPM_INSTALL, words="none", style="names"),
    "poetry": Row(options=_POETRY, words="any"),
    "poetry install": Row(
        options="-E= --extras= --all-extras --no-root --only=~ --with=~ --without=~ --sync --dry-run --compile",
        words="none",
    ),
    "poetry run": Row(rest="program", behind="program"),
    "pytest": Row(options=_PYTEST, behind="words"),
    "rake": Row(
        options="-q -s -v -n -t -m -A -T -P -W -j=# -h --quiet --silent --verbose --dry-run --trace --multitask "
        "--jobs=# --tasks --all --help",
        words="tasks",
    ),
    "sbt": Row(
        options="-v --verbose -batch --batch -no-colors --no-colors --color=~ --supershell=~",
        words="tasks",
        style="names",
    ),
    "terraform": Row(options=_TERRAFORM, style="flags"),
    "tox": Row(
        options="""
            -q -v -r -l -n -h -p=~ --recreate --parallel=~ --skip-missing-interpreters=~ --skip-pkg-install
            --listenvs --notest --quiet --verbose --colored=~ --help
        """,
        words="none",
        behind="pytest",
    ),
    "tox r": Row(words="none", behind="pytest"),
    "tox run": Row(words="none", behind="pytest"),
    "uv": Row(options=_UV, words="any"),
    "uv add": Row(options=_UV_SYNC + _UV_ADD, words="any"),
    "uv lock": Row(options="-U --upgrade -P= --upgrade-package= --check --dry-run", words="none"),
    "uv pip": Row(
        options="-U -r=/ --upgrade --requirement=/ --no-deps --dry-run --strict --outdated --format=~", words="any"
    ),
    "uv run": Row(options=_UV_SYNC, rest="program", behind="program"),
    "uv sync": Row(options=_UV_SYNC, words="none"),
    "uv tool": Row(options="", words="any"),
    "uv tool run": Row(rest="program", behind="program"),
    "uvx": Row(options=_UV, rest="program", behind="program"),
    "yarn": Row(options=_SCRIPT, behind="script", style="names"),
    "yarn add": Row(options=_YARN_INSTALL, words="packages", style="names"),
    "yarn dlx": Row(options=_STARTER, rest="program", style="names"),
    "yarn exec": Row(rest="program", behind="program", style="names"),
    "yarn install": Row(options=_YARN_INSTALL, words="none", style="names"),
}
"""The rows, by program and task; what is said of a program holds for each of its tasks too."""

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
def options_of(key: str) -> Mapping[str, str]:
    """The options of a task, with those of its program: by name, with the kind of value that each takes.

    >>> options_of("cargo test")["--jobs"], options_of("cargo test")["--quiet"], "-C" in options_of("cargo test")
    ('=#', '', False)
    """
    first, *tasks = key.split()
    keys = [" ".join([first, *tasks[:count]]) for count in range(len(tasks) + 1)]
    return parsed(" ".join(ROWS[each].options for each in keys if each in ROWS))


@lru_cache(maxsize=64)
def parsed(text: str) -> Mapping[str, str]:
    """The options that a text lists: by name, with the kind of value.

    >>> parsed("-v -n= --bail --bail=#")
    {'-v': '', '-n': '=', '--bail': '?#'}
    """
    found: dict[str, str] = {}
    for token in text.split():
        name, kind, rule = token.partition("=")
        if token.endswith("?"):
            name, kind = token[:-1], "?"
        # What is listed with a value and without takes it only where it is a part of the word.
        kind = "?" if found.get(name) == "" and kind else kind
        found[name] = kind + rule
    return found
