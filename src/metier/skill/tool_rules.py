"""Tool rules: `Tool` or `Tool(pattern)`, as `allowed-tools` and `disallowed-tools` have them, and names of tools."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier._aliases import TOOLS
from metier._lazy import dataclass, pattern, replace
from metier.skill.fields import split_tools

if TYPE_CHECKING:
    from collections.abc import Iterable


_SYNONYMS = {
    "bash": "bash_exec bash_tool exec exec_command execute_bash execute_command local_shell run_bash run_command "
    "run_in_terminal run_shell run_shell_command run_terminal_cmd run_terminal_command runterminalcommand "
    "sandbox_execute sh shell shell_command shell_exec terminal",
    "read": "file_read open_file read_file read_files read_many_files read_text_file readfile view view_file",
    "write": "create_file createfile file_write save_file write_file write_to_file",
    "edit": "apply_diff apply_patch edit_file editfiles file_edit insert_edit_into_file multi_edit "
    "multi_replace_string_in_file multiedit patch_file replace replace_in_file replace_string_in_file search_replace "
    "str_replace str_replace_based_edit_tool str_replace_editor strreplace text_editor update_file",
    "glob": "file_search find_files glob_files glob_tool",
    "grep": "grep_files grep_search grep_tool search_files search_file_content",
    "ls": "dir_list list list_dir list_directory list_files",
    "notebookedit": "edit_notebook edit_notebook_file editnotebook notebook_edit",
    "notebookread": "notebook_read read_notebook",
    "webfetch": "fetch fetch_url fetch_webpage read_url url_fetch web_fetch",
    "websearch": "google_web_search search_web web_search",
    "task": "agent dispatch_agent invoke_agent run_subagent runsubagent spawn_agent subagent",
    "todowrite": "manage_todo_list todo_write update_todos write_todos",
}

_OTHER_TOOLS = (
    "ask_user ask_user_question askuserquestion bashoutput code_execution computer enterplanmode execute_code "
    "exitplanmode killbash killshell listmcpresources lsp memory monitor readmcpresource sendmessage skill "
    "slashcommand task_output taskcreate taskget tasklist taskoutput taskstop taskupdate think todoread toolsearch "
    "get_skill list_skills propose_skill propose_skill_update read_skill read_skill_resource skills_feedback "
    "skills_load skills_read skills_run skills_search skills_unload"
)
"""Tools that agents have under one name, and at the end those that control skills."""

_ALIASES: dict[str, str] = {}
"""Another name of a tool -> the name that rules are compared by."""
for _alias, _name in TOOLS.items():
    if _alias.lower() != _name.lower():
        _ALIASES[_alias.lower()] = _name.lower()
for _name, _synonyms in _SYNONYMS.items():
    _ALIASES |= dict.fromkeys(_synonyms.split(), _name)

_KNOWN_TOOLS = frozenset((*_SYNONYMS, *_OTHER_TOOLS.split()))


def is_known_tool(tool: str) -> bool:
    """Whether a tool, by its canonical name, is one that agents have, or one of an MCP server.

    >>> is_known_tool("bash"), is_known_tool("mcp__files__read"), is_known_tool("frobnicate")
    (True, True, False)
    """
    return tool in _KNOWN_TOOLS or tool == "*" or tool.startswith("mcp__")


def is_patch(tool: str) -> bool:
    """Whether a tool takes a patch that names its files itself.

    >>> is_patch("apply_patch"), is_patch("Edit")
    (True, False)
    """
    return tool.lower() == "apply_patch"


def canonical_tool(name: str) -> str:
    """The name that rules about a tool are compared by.

    Only ASCII letters have another case: a name with a look-alike in it is a different name.

    >>> canonical_tool("Bash"), canonical_tool("run_shell_command"), canonical_tool("My_Tool")
    ('bash', 'bash', 'my_tool')
    """
    if not name.isascii():
        return name
    folded = name.lower()
    return _ALIASES.get(folded, folded)


MAX_PATTERN = 1024
"""Characters of a pattern; a longer one is malformed."""

_RULE = pattern(r"([^\s()]+)(?:\((.*)\))?", re.DOTALL)
_NAME = pattern(r"[^\s,;()]+")
_SEVERAL = pattern(
    r"""
      [^\s"']*([,;|`]|:(?![*/\\]))        # the program ends where something else begins
    | .*(:(\s|$)|\\:|:\*\s*([^\s:|]|\|\|)) # a colon that was meant for `:*`, or `:*` that is not at the end
    | .*(`|,(\s|$)|(?<!\\);.*:\*)          # several commands; one command of several parts is written as it is
    | (?P<quote>["']).*:\*(?P=quote)$     # quotes around all of it
    """,
    re.DOTALL | re.VERBOSE,
)
"""Several commands in one pattern, or a pattern that would be about nothing."""
# A pattern in other brackets, or behind a colon.
_ATTACHED = pattern(r"(\w+)[\[{].*|(?i:(bash|shell)):.*", re.DOTALL)
_CONTROL = pattern(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRule:
    """One rule about one tool.

    >>> parse_rules("Bash(git:*)")
    (ToolRule(tool='bash', pattern='git:*', text='Bash(git:*)', is_malformed=False),)
    """

    tool: str
    """The name that tools are compared by; `*` is every tool, `mcp__server__*` every tool of a server."""
    pattern: str | None = None
    """The pattern for the arguments; None for any arguments."""
    text: str = ""
    """As written."""
    is_malformed: bool = False
    """It cannot be understood: it allows nothing, and forbids every use of its tool."""

    def names(self, tool: str) -> bool:
        """Whether the rule is about a tool, which goes by its canonical name.

        >>> parse_rules("mcp__files__*")[0].names("mcp__files__read")
        True
        """
        own = self.tool
        if own == tool:
            return True
        if own.endswith("*"):
            return tool.startswith(own[:-1])
        return own.startswith("mcp__") and own.count("__") == 1 and tool.startswith(own + "__")

    def may_name(self, tool: str) -> bool:
        """Whether the rule is about a tool, or may be: some clients do not tell a server from its tool.

        >>> rule = parse_rules("mcp__files__read")[0]
        >>> rule.names("mcp_files_read"), rule.may_name("mcp_files_read")
        (False, True)
        """
        if self.names(tool):
            return True
        own = self.tool
        if not own.startswith("mcp__") or not tool.startswith("mcp_") or tool.startswith("mcp__"):
            return False
        written = own.replace("__", "_")
        if own.endswith("*"):
            return tool.startswith(written[:-1])
        return tool == written or (own.count("__") == 1 and tool.startswith(f"{written}_"))


def parse_rules(value: str | Iterable[str] | None) -> tuple[ToolRule, ...]:
    """Rules from a list, or from text that separates them by commas, blanks or line ends outside parentheses.

    >>> [(rule.tool, rule.pattern) for rule in parse_rules("Bash(git add:*), Read  Bash(*)")]
    [('bash', 'git add:*'), ('read', None), ('bash', None)]
    >>> parse_rules(["Bash(git"])[0].is_malformed
    True
    """
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else list(value)
    found: list[ToolRule] = []
    for text in (text for item in items for text in split_tools(_joined(item))):
        if text.startswith("(") and found:
            # A pattern that has lost its name was meant for what stands before it.
            found[-1] = replace(found[-1], pattern="", is_malformed=True)
        found += _rules_of(text)
    return tuple(dict.fromkeys(found))


def unknown_tools(value: str | Iterable[str] | None) -> tuple[str, ...]:
    """The rules that name tools which no agent is known to have, as written.

    >>> unknown_tools("Bash(git:*), Frobnicate, mcp__files__read")
    ('Frobnicate',)
    """
    return tuple(rule.text for rule in parse_rules(value) if not is_known_tool(rule.tool))


def _joined(text: str) -> str:
    """The text without blanks between a name and its pattern: `Bash (git:*)` must not become the whole of `Bash`."""
    parts: list[str] = []
    depth = 0
    for character in text:
        if character == "(":
            while not depth and parts and parts[-1].isspace():
                parts.pop()
            depth += 1
        elif character == ")":
            depth = max(0, depth - 1)
        parts.append(character)
    return "".join(parts)


def _rules_of(text: str) -> list[ToolRule]:
    found = _RULE.fullmatch(text)
    tool = canonical_tool(found[1]) if found else ""
    pattern = found[2] if found else ""
    is_several = tool == "bash" and pattern is not None and _SEVERAL.match(pattern.strip()) is not None
    is_attached = _ATTACHED.fullmatch(found[1]) is not None if found else False
    if found and _is_tool(tool) and not is_several and not is_attached and (pattern is None or _is_pattern(pattern)):
        pattern = None if pattern is None or pattern.strip() == "*" else pattern.strip()
        if pattern is None or not tool.endswith("*"):
            return [ToolRule(tool=tool, pattern=pattern, text=text)]
    # A parenthesis that is never closed swallows the rules after it; what they forbid stays forbidden.
    names = dict.fromkeys(map(canonical_tool, _NAME.findall(text)))
    if attached := _ATTACHED.fullmatch(text):
        names |= {canonical_tool(attached[1] or attached[2]): None}
    return [ToolRule(tool=name, pattern="", text=text, is_malformed=True) for name in names]


def _is_tool(name: str) -> bool:
    return "*" not in name[:-1] and (name == "*" or name.startswith("mcp__") or "*" not in name)


def _is_pattern(pattern: str) -> bool:
    depth = 0
    for character in pattern.replace("\\(", "").replace("\\)", ""):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    is_empty = any(part.strip() in ("", ":*") for part in pattern.split(" | "))
    return depth == 0 and not is_empty and len(pattern) <= MAX_PATTERN and not _CONTROL.search(pattern)
