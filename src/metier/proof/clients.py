"""The client programs that can run trials: how each is started headless, and how its output is read.

The output gives the answer, the model, tokens and cost. Tool calls are never taken from it: they are in the records of
our guard, which decides about them through the hooks of `metier protect`.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from metier._json_object import text_at, value_at
from metier._lazy import dataclass, field
from metier.errors import InvalidArgument, PartMissing
from metier.library.clients import CLIENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Event = dict[str, Any]
"""One line of JSON that a client prints."""
Servers = Mapping[str, Sequence[str]]
"""MCP servers by their names, each with the command that starts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOutput:
    """The statements of a client about its run."""

    answer: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    turns: int = 0
    calls: int = 0
    """The tool calls that it tells of."""
    ends: int = 0
    """How often it says that it is done: more than once, if a program that it started writes into its output, too."""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProgram:
    """A client program. It gets the prompt as its input, and one `{value}` of the trial in each of its options."""

    package: str
    """Its name in npm."""
    arguments: Sequence[str]
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further arguments for the values that a trial has: `model`, `cost`, `turns`, `servers`."""
    keys: Sequence[str]
    """The variables of the user that hold keys: one of them must be set, and it gets no other variables of theirs."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """The variables of the user that hold addresses of models, with the usual ones."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The variables that it is given."""
    file: str = ""
    """The file of its settings in its home, as `CLIENTS` writes paths."""
    settings: Callable[[Mapping[str, str], Servers], str] = lambda _values, _servers: ""
    """The text of that file, by addresses and values, and with MCP servers."""
    read: Callable[[Sequence[Event]], ClientOutput]


def _total(events: Iterable[object], *paths: tuple[str, ...]) -> float:
    """The sum of the numbers at some places."""
    values = [value_at(event, *path) for event in events for path in paths]
    return float(sum(value for value in values if type(value) in (int, float) and 0 < value < 1e15))


def _of(events: Iterable[Event], *kinds: str) -> list[Event]:
    return [event for event in events if event.get("type") in kinds]


_CLAUDE_ERRORS = {
    "error_max_turns": "turns: it made as many requests as the case allows.",
    "error_max_budget_usd": "budget: it spent what the trial may cost.",
}


def _read_claude(events: Sequence[Event]) -> ClientOutput:
    messages, ends = [event.get("message") for event in _of(events, "assistant")], _of(events, "result")
    end = ends[-1] if ends else {}
    models = list((value_at(end, "modelUsage") or {}).values()) if isinstance(value_at(end, "modelUsage"), dict) else []
    parts = [part for one in messages if isinstance(content := value_at(one, "content"), list) for part in content]
    subtype = text_at(end, "subtype")
    error = f"model: {text_at(end, 'result') or subtype}" if end.get("is_error") else ""
    return ClientOutput(
        answer=text_at(end, "result"),
        model=next((text_at(event, "model") for event in _of(events, "system") if text_at(event, "model")), ""),
        input_tokens=int(_total(models, ("inputTokens",), ("cacheReadInputTokens",), ("cacheCreationInputTokens",))),
        output_tokens=int(_total(models, ("outputTokens",))),
        cost=_total([end], ("total_cost_usd",)) if ends else None,
        turns=len({text_at(one, "id") for one in messages}),
        calls=sum(text_at(part, "type") == "tool_use" for part in parts),
        ends=len(ends),
        error=_CLAUDE_ERRORS.get(subtype, error),
    )


def _read_codex(events: Sequence[Event]) -> ClientOutput:
    items, ends = [event.get("item") for event in _of(events, "item.completed")], _of(events, "turn.completed")
    failures = [f"model: {text_at(event, 'error', 'message')}" for event in _of(events, "turn.failed")]
    return ClientOutput(
        answer=next((text_at(one, "text") for one in reversed(items) if text_at(one, "type") == "agent_message"), ""),
        input_tokens=int(_total(ends, ("usage", "input_tokens"))),
        output_tokens=int(_total(ends, ("usage", "output_tokens"))),
        calls=sum(text_at(one, "type") in ("command_execution", "file_change", "mcp_tool_call") for one in items),
        ends=len(ends),
        error=failures[-1] if failures else "",
    )


def _read_gemini(events: Sequence[Event]) -> ClientOutput:
    calls, ends = _of(events, "tool_use"), _of(events, "result")
    end = ends[-1] if ends else {}
    last = events[events.index(calls[-1]) :] if calls else events
    kind = "turns" if text_at(end, "error", "type") == "FatalTurnLimitedError" else "model"
    return ClientOutput(
        answer="".join(text_at(one, "content") for one in _of(last, "message") if one.get("role") == "assistant"),
        model=next((text_at(event, "model") for event in _of(events, "init")), ""),
        input_tokens=int(_total(ends, ("stats", "input_tokens"))),
        output_tokens=int(_total(ends, ("stats", "output_tokens"))),
        calls=len(calls),
        ends=len(ends),
        error=f"{kind}: {text_at(end, 'error', 'message')}" if end.get("status") == "error" else "",
    )


def _read_opencode(events: Sequence[Event]) -> ClientOutput:
    begun, steps = _of(events, "step_start"), [event.get("part") for event in _of(events, "step_finish")]
    last = events[events.index(begun[-1]) :] if begun else events
    names = [text_at(one, "error", "data", "message") or text_at(one, "error", "name") for one in _of(events, "error")]
    cache = (("tokens", "cache", "read"), ("tokens", "cache", "write"))
    return ClientOutput(
        answer="".join(text_at(one, "part", "text") for one in _of(last, "text")),
        input_tokens=int(_total(steps, ("tokens", "input"), *cache)),
        output_tokens=int(_total(steps, ("tokens", "output"), ("tokens", "reasoning"))),
        cost=_total(steps, ("cost",)) if steps else None,
        turns=len(steps),
        calls=len(_of(events, "tool_use")),
        ends=sum(text_at(step, "reason") != "tool-calls" for step in steps),
        error=f"model: {names[-1]}" if names else "",
    )


def _codex_settings(values: Mapping[str, str], servers: Servers) -> str:
    """The configuration of Codex, which takes no address of a model from a variable."""
    # Texts and lists of texts are the same in TOML as in JSON.
    started = "".join(
        f"[mcp_servers.{json.dumps(name)}]\ncommand = {json.dumps(words[0])}\nargs = {json.dumps(words[1:])}\n"
        for name, words in servers.items()
    )
    return f"""\
model_provider = "metier"
web_search = "disabled"
check_for_update_on_startup = false
[features]
apps = false
plugins = false
[analytics]
enabled = false
[feedback]
enabled = false
[otel]
exporter = "none"
[history]
persistence = "none"
[model_providers.metier]
name = "metier"
base_url = {json.dumps(values["OPENAI_BASE_URL"])}
env_key = "OPENAI_API_KEY"
wire_api = "responses"
{started}"""


def _gemini_settings(values: Mapping[str, str], servers: Servers) -> str:
    started = {name: {"command": words[0], "args": words[1:], "trust": True} for name, words in servers.items()}
    return json.dumps(
        {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "model": {"maxSessionTurns": int(values["turns"])},
            "mcpServers": started,
        }
    )


def _opencode_settings(values: Mapping[str, str], servers: Servers) -> str:
    started = {name: {"type": "local", "command": list(words), "enabled": True} for name, words in servers.items()}
    addresses = {"anthropic": values["ANTHROPIC_BASE_URL"], "openai": values["OPENAI_BASE_URL"]}
    return json.dumps(
        {
            "share": "disabled",
            "autoupdate": False,
            "agent": {"build": {"steps": int(values["turns"])}},
            "mcp": started,
            "provider": {name: {"options": {"baseURL": url}} for name, url in addresses.items() if url},
        }
    )


CLIENT_PROGRAMS: Mapping[str, ClientProgram] = {
    "claude-code": ClientProgram(
        package="@anthropic-ai/claude-code",
        arguments=(
            *("-p", "--output-format", "stream-json", "--verbose", "--no-session-persistence"),
            # The guard decides about calls. Settings that a case brings along could switch its hooks off.
            *("--permission-mode", "bypassPermissions", "--setting-sources", "user", "--strict-mcp-config"),
        ),
        options={
            "model": ("--model", "{model}"),
            "turns": ("--max-turns", "{turns}"),
            "cost": ("--max-budget-usd", "{cost}"),
            "servers": ("--mcp-config", "{servers}"),
        },
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        addresses={"ANTHROPIC_BASE_URL": ""},
        variables={
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            # A trial is over when the program ends, and no message comes later.
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
            "MCP_CONNECTION_NONBLOCKING": "0",
            # Without it, root gets no such permissions.
            "IS_SANDBOX": "1",
        },
        read=_read_claude,
    ),
    "codex": ClientProgram(
        package="@openai/codex",
        arguments=(
            *("exec", "--json", "--skip-git-repo-check", "--ephemeral", "-s", "danger-full-access"),
            # A person reviews hooks in its terminal; these are the ones that were just written.
            *("--dangerously-bypass-hook-trust", "-"),
        ),
        options={"model": ("-m", "{model}")},
        keys=("OPENAI_API_KEY",),
        addresses={"OPENAI_BASE_URL": "https://api.openai.com/v1"},
        file="{codex}/config.toml",
        settings=_codex_settings,
        read=_read_codex,
    ),
    "gemini": ClientProgram(
        package="@google/gemini-cli",
        arguments=("--yolo", "--output-format", "stream-json"),
        options={"model": ("-m", "{model}")},
        keys=("GEMINI_API_KEY",),
        addresses={"GOOGLE_GEMINI_BASE_URL": ""},
        variables={
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            # It starts itself again for more memory, and then waits for an answer for ever where it would end.
            "GEMINI_CLI_NO_RELAUNCH": "1",
        },
        file=".gemini/settings.json",
        settings=_gemini_settings,
        read=_read_gemini,
    ),
    "opencode": ClientProgram(
        package="opencode-ai",
        # Without a title, it asks a model for one.
        arguments=("run", "--format", "json", "--title", "trial"),
        options={"model": ("-m", "{model}")},
        keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "OPENCODE_API_KEY"),
        addresses={"ANTHROPIC_BASE_URL": "", "OPENAI_BASE_URL": ""},
        variables={
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            # It would fetch types for plugins at every start.
            "npm_config_registry": "http://127.0.0.1:9/",
            "npm_config_fetch_retries": "0",
        },
        file="{config}/opencode/opencode.json",
        settings=_opencode_settings,
        read=_read_opencode,
    ),
}
"""The clients that can run trials, by their names in `metier.library.clients`."""


def client_program(name: str) -> ClientProgram:
    """The row of a client; raises `InvalidArgument` for a client that cannot run trials."""
    if name not in CLIENT_PROGRAMS:
        raise InvalidArgument(
            f"{name[:100]!r} is no client that can run trials.", hint=f"Name one of {', '.join(CLIENT_PROGRAMS)}."
        )
    return CLIENT_PROGRAMS[name]


def client_command(name: str) -> list[str]:
    """The command that starts a client: `$METIER_CLIENT_CLAUDE_CODE` and so on, else its program on PATH.

    Raises `PartMissing` where it is not installed.
    """
    variable = f"METIER_CLIENT_{name.upper().replace('-', '_')}"
    program = client_program(name)
    named = shlex.split(os.environ.get(variable, ""))
    found = shutil.which(named[0] if named else CLIENTS[name].programs[0])
    if found is None:
        raise PartMissing(
            f"{CLIENTS[name].title} is not installed.",
            hint=f"`npm install -g {program.package}` installs it; {variable} names it where it is not on PATH.",
        )
    return [os.path.abspath(found), *named[1:]]


def installed_clients() -> tuple[str, ...]:
    """The clients that can run trials here."""
    found = []
    for name in CLIENT_PROGRAMS:
        try:
            client_command(name)
        except PartMissing:
            continue
        found.append(name)
    return tuple(found)
