"""The environment of a job: its variables, its search path, and the interpreter of its script."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING

from metier._lazy import pattern
from metier._paths import CREATE
from metier.errors import InvalidArgument, ScriptUnsupported

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


MAX_VARIABLES = 64
MAX_VALUE_BYTES = 64 * 1024

_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_WINDOWS_NEEDS = ("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT")
"""Without these hardly a program starts on Windows."""

_STEERING = {
    *_WINDOWS_NEEDS,
    "PATH", "HOME", "USERPROFILE", "SHELL", "ENV", "IFS", "PS4", "CDPATH", "SHELLOPTS", "BASHOPTS", "GLOBIGNORE",
    "PROMPT_COMMAND", "ZDOTDIR", "TMPDIR", "TMP", "TEMP", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESSOPEN",
    "LESSCLOSE", "BROWSER", "GCONV_PATH", "LOCPATH", "NLSPATH", "HOSTALIASES", "RESOLV_HOST_CONF", "GLIBC_TUNABLES",
    "TERMINFO", "TERMCAP", "TERMPATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH",
    "MAVEN_OPTS", "MAKEFLAGS", "GNUMAKEFLAGS", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_HOME", "WGETRC", "OPENSSL_CONF",
    "OPENSSL_MODULES", "KRB5_CONFIG", "TAR_OPTIONS", "RSYNC_RSH", "RSYNC_CONNECT_PROG", "SUDO_ASKPASS", "AWKPATH",
    "AWKLIBPATH", "LESS", "SKILL_DIR", "SKILL_ROOT", "WORKSPACE", "SESSION_ID",
}  # fmt: skip
_STEERING_PREFIXES = (
    "LD_", "DYLD_", "PYTHON", "NODE_", "NPM_", "BASH_", "GIT_", "SSH_", "PERL", "RUBY", "GEM_", "BUNDLE_", "LUA_",
    "PHP", "PIP_", "UV_", "DENO_", "BUN_", "MALLOC_", "XDG_", "DOCKER_", "CLAUDE_", "HERMES_", "METIER_",
)  # fmt: skip
"""Variables by which a value decides which code a program loads, where it connects to, or whose files it takes for
its own; and those that only this side sets."""

_COMMITTER = {
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE",
}  # fmt: skip
"""Variables of git that name the committer, and steer nothing."""

INPUT_PREFIXES = ("ARG_", "INPUT_", "PARAM_", "SKILL_")
"""Beginnings of variables that mean nothing to any program but to a script that asks for them."""


def job_environment(
    extra: Mapping[str, str] | None = None,
    *,
    names: Collection[str] | None = None,
    workspace: str,
    skill_dir: str | None = None,
    session_id: str | None = None,
) -> dict[str, str]:
    """The whole environment of a job; `extra` are variables that a caller or a model asks for, which are checked.

    Nobody can set a variable that steers programs. A variable of a model must have one of `names`, or begin like an
    input: no list of harmful variables could be complete, as every program has its own. `names=None` is for the host.
    Nothing is inherited but the paths of programs and temporary files, and the time zone. Home is the workspace.

    >>> env = job_environment({"INPUT_LIMIT": "3"}, names=["API_KEY"], workspace="/project", skill_dir="/skills/csv")
    >>> env["HOME"], env["SKILL_DIR"], env["INPUT_LIMIT"]
    ('/project', '/skills/csv', '3')
    >>> try:
    ...     job_environment({"ZIPOPT": "-TT sh"}, names=["API_KEY"], workspace="/project")
    ... except InvalidArgument as error:
    ...     print(error.hint)
    What can be set is API_KEY, and names that begin with ARG_, INPUT_, PARAM_ or SKILL_.
    """
    return {
        **base_environment(workspace),
        **skill_variables(workspace=workspace, skill_dir=skill_dir, session_id=session_id),
        **_check_variables(extra or {}, names),
    }


def base_environment(workspace: str) -> dict[str, str]:
    """The few variables that every job gets."""
    scratch = temporary_folder()
    env = {
        "PATH": search_path(),
        "HOME": workspace,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": os.environ.get("TZ", "UTC"),
        "TMPDIR": scratch,
        # A script that imports its neighbour must not leave compiled files in the skill.
        "PYTHONDONTWRITEBYTECODE": "1",
        # Its home is a workspace, where another script may have put modules for it to find.
        "PYTHONNOUSERSITE": "1",
    }
    if sys.platform == "darwin":
        env["LANG"] = env["LC_ALL"] = "en_US.UTF-8"
    if sys.platform == "win32":
        env.update({name: os.environ[name] for name in _WINDOWS_NEEDS if name in os.environ})
        env.update({"USERPROFILE": workspace, "TEMP": scratch, "TMP": scratch, "PYTHONUTF8": "1"})
    return env


def search_path() -> str:
    """The search path for programs: the absolute folders of this process's `PATH`.

    An empty or relative folder there would mean the working folder, where anybody may have put a program.
    """
    folders = os.environ.get("PATH", "").split(os.pathsep)
    kept = [folder for folder in folders if os.path.isabs(folder)]
    return os.pathsep.join(kept) or _DEFAULT_PATH


def skill_variables(
    *,
    workspace: str,
    skill_dir: str | None = None,
    session_id: str | None = None,
    plugin_root: str | None = None,
    project_dir: str | None = None,
) -> dict[str, str]:
    """The folders of a skill, its workspace and its project, under all the names that authors use for them.

    >>> skill_variables(workspace="/project")
    {'WORKSPACE': '/project', 'CLAUDE_PROJECT_DIR': '/project'}
    """
    values = {"WORKSPACE": workspace, "CLAUDE_PROJECT_DIR": project_dir or workspace}
    if skill_dir is not None:
        names = ("SKILL_DIR", "SKILL_ROOT", "CLAUDE_SKILL_DIR", "HERMES_SKILL_DIR", "CLAUDE_PLUGIN_ROOT")
        values.update(dict.fromkeys(names, skill_dir))
    if plugin_root is not None:
        values["CLAUDE_PLUGIN_ROOT"] = plugin_root
    if session_id is not None:
        values.update(dict.fromkeys(("SESSION_ID", "CLAUDE_SESSION_ID"), session_id))
    return values


def _check_variables(extra: Mapping[str, str], names: Collection[str] | None) -> dict[str, str]:
    if len(extra) > MAX_VARIABLES:
        raise InvalidArgument(
            f"{len(extra)} environment variables are too many.", hint=f"At most {MAX_VARIABLES} are passed."
        )
    for name, value in extra.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidArgument(
                f"{str(name)[:80]!r} is no name of an environment variable.",
                hint="Names are letters, digits and underscores, and do not begin with a digit.",
            )
        if _steers(name):
            raise InvalidArgument(
                f"The environment variable {name} may not be set.",
                hint="It decides which code programs load or where they connect. Pass the value under another name.",
                name=name,
            )
        if names is not None and name not in names and not name.startswith(INPUT_PREFIXES):
            raise InvalidArgument(
                f"The environment variable {name} may not be set.", hint=_format_permitted(names), name=name
            )
        if not isinstance(value, str) or "\0" in value or not _fits(value):
            raise InvalidArgument(
                f"The value of the environment variable {name} cannot be passed.",
                hint=f"Values are text without NUL, of at most {MAX_VALUE_BYTES} bytes.",
                name=name,
            )
    return dict(extra)


def _format_permitted(names: Collection[str]) -> str:
    inputs = f"names that begin with {', '.join(INPUT_PREFIXES[:-1])} or {INPUT_PREFIXES[-1]}"
    declared = sorted(name for name in names if not _steers(name))
    if not declared:
        return f"Only {inputs} can be set."
    more = f" and {len(declared) - 10} more" if len(declared) > 10 else ""
    return f"What can be set is {', '.join(declared[:10])}{more}, and {inputs}."


def _steers(name: str) -> bool:
    # On Windows names have no case, and some programs read `http_proxy` where others read `HTTP_PROXY`.
    upper = name.upper()
    return upper not in _COMMITTER and (upper in _STEERING or upper.startswith(_STEERING_PREFIXES))


def _fits(value: str) -> bool:
    try:
        return len(value) <= MAX_VALUE_BYTES and len(value.encode()) <= MAX_VALUE_BYTES
    except UnicodeEncodeError:
        return False


INTERPRETERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        ".py": ("python3",),
        ".sh": ("bash",),
        ".bash": ("bash",),
        ".js": ("node",),
        ".mjs": ("node",),
    }
)
"""Extension, in lower case, to the command that a script's path is appended to. An entry for "" is for the rest."""
_MOST_STEPS = 32
"""Links from one program to the next that are followed; the kernel gives up at 40."""


def command_for(path: str, interpreters: Mapping[str, tuple[str, ...]] = INTERPRETERS) -> tuple[str, ...]:
    """The command that runs a script, with its path at the end.

    A script needs no execute permission and its first line is not read: the extension decides, in any case. More
    languages are a larger table: `{**INTERPRETERS, ".rb": ("ruby",)}`.

    >>> command_for("/skills/x/scripts/fill.rb", {".rb": ("no-such-ruby", "-w")})
    ('no-such-ruby', '-w', '/skills/x/scripts/fill.rb')
    """
    extension = os.path.splitext(path.strip())[1].lower()
    command = interpreters.get(extension) or interpreters.get("")
    if not command:
        raise ScriptUnsupported(
            f"Unsupported script type {extension or 'without an extension'}: {os.path.basename(path)[:80]!r}.",
            hint=f"Scripts are run by their extension: {', '.join(sorted(filter(None, interpreters)))}.",
            path=path,
            extension=extension,
        )
    program, *options = command
    return (find_program(program), *options, path)


def program_of(path: str) -> str:
    """The name of the program that runs a script, by its extension; empty if none does.

    >>> program_of("scripts/fill.PY"), program_of("notes.md")
    ('python3', '')
    """
    return next((command[0] for extension, command in INTERPRETERS.items() if path.lower().endswith(extension)), "")


def own_python() -> str:
    """The interpreter of this process by its real path, without the virtual environment that it was started from.

    The launcher and the worker of the virtual shell are started by it, with the standard library and nothing else. So
    it does not matter by which links the environment is reached.
    """
    base = getattr(sys, "_base_executable", None)
    found = base if base and os.path.exists(base) else sys.executable or which("python3", search_path())
    return os.path.realpath(found) if found else "python3"


def isolated_python() -> list[str]:
    """The command of a Python without variables, site packages and bytecode of its surroundings."""
    return [own_python(), "-I", "-S", "-B", "-X", "utf8"]


def package_folder() -> str:
    """The folder that this package is imported from."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def environment_python() -> str:
    """The interpreter of this process in its virtual environment, where it has one, with the packages in it."""
    return _in_real_folder(sys.executable) if sys.executable else own_python()


def programs_behind(program: str) -> tuple[str, ...]:
    """A program and each one that it leads to: by links, and by the settings of a virtual environment.

    All of them must be there for the first to start: the interpreter of an environment reads the standard library of
    the one that the environment was made by, even where it is a copy.
    """
    steps: dict[str, None] = {}
    wanted = [program]
    while wanted and len(steps) < _MOST_STEPS:
        step = wanted.pop()
        if step in steps:
            continue
        steps[step] = None
        folder = os.path.dirname(step)
        if os.path.islink(step):
            wanted.append(os.path.normpath(os.path.join(folder, os.readlink(step))))
        if (base := _base_of(os.path.dirname(folder), os.path.basename(step))) is not None:
            wanted.append(base)
    return tuple(dict.fromkeys((*steps, os.path.realpath(program))))


def _base_of(environment: str, name: str) -> str | None:
    """The interpreter that a virtual environment was made by; None for a folder that is no environment."""
    try:
        with open(os.path.join(environment, "pyvenv.cfg"), encoding="utf-8", errors="surrogateescape") as file:
            home = next((line.partition("=")[2].strip() for line in file if line.split("=")[0].strip() == "home"), "")
    except OSError:
        return None
    # A folder without a Python in it is none that anything was made by, whatever the settings say.
    found = (os.path.normpath(os.path.join(home, each)) for each in (name, "python3", "python"))
    return next((path for path in found if os.path.isabs(home) and os.path.isfile(path)), None)


def which(name: str, path: str) -> str | None:
    """`shutil.which`, whose module imports three compressors, for systems without file extensions."""
    if os.name == "nt":
        import shutil

        return shutil.which(name, path=path)
    folders = [""] if os.path.dirname(name) else path.split(os.pathsep) if path else []
    candidates = (os.path.join(folder, name) for folder in folders)
    # A name that no file can have, such as one with a NUL, does not exist, where `access` raises an error.
    found = (one for one in candidates if os.path.exists(one) and os.access(one, os.X_OK) and not os.path.isdir(one))
    return next(found, None)


def temporary_folder() -> str:
    """`tempfile.gettempdir`, whose module takes longer to import than a short command has, if nobody has done so."""
    folder = None if "tempfile" in sys.modules or os.name == "nt" else _first_temporary_folder()
    if folder is not None:
        return folder
    import tempfile

    return tempfile.gettempdir()


@functools.cache
def _first_temporary_folder() -> str | None:
    """The first folder that `tempfile` tries; None where no file can be written to it, so that it tries others."""
    named = next(filter(None, map(os.environ.get, ("TMPDIR", "TEMP", "TMP"))), "/tmp")
    folder = os.path.abspath(named)
    with contextlib.suppress(OSError):
        probe = os.path.join(folder, f"metier-{os.urandom(8).hex()}")
        file = os.open(probe, CREATE, 0o600)
        try:
            os.write(file, b"probe")
            return folder
        finally:
            os.close(file)
            os.unlink(probe)
    return None


def find_program(name: str) -> str:
    """The path of an interpreter by its name; the name itself if there is none."""
    if name == "python3" and sys.platform == "win32":
        return sys.executable  # where `python3` is often a stub that opens a shop
    found = which(name, search_path())
    if name == "python3" and (found is None or _is_script(found)):
        return environment_python()
    return _in_real_folder(found) if found else name


def _in_real_folder(path: str) -> str:
    """A program by the real path of its folder, which a sandbox may show by another name, or not at all.

    The program itself may be a link, by which the interpreter of a virtual environment knows that it is one.
    """
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _is_script(path: str) -> bool:
    """Whether a program is text: the stub of a version manager finds the real one in places that no job sees."""
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False
