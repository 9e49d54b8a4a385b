"""Names of tools: the many words that agents have for the same tool, and the one that rules are compared by."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from metier._aliases import TOOLS

if TYPE_CHECKING:
    from collections.abc import Mapping

_SAME = {
    "bash": "bash_exec bash_tool exec exec_command execute_bash execute_command local_shell run_bash run_command "
    "run_in_terminal run_shell run_shell_command run_terminal_cmd sandbox_execute sh shell shell_command shell_exec "
    "terminal",
    "read": "file_read open_file read_file read_files read_text_file view view_file",
    "write": "create_file file_write save_file write_file write_to_file",
    "edit": "apply_diff apply_patch edit_file file_edit multi_edit multiedit patch_file replace_in_file search_replace "
    "str_replace str_replace_based_edit_tool str_replace_editor text_editor update_file",
    "glob": "file_search find_files glob_files glob_tool",
    "grep": "grep_files grep_search grep_tool search_files search_file_content",
    "ls": "dir_list list_dir list_directory list_files",
    "notebookedit": "edit_notebook notebook_edit",
    "notebookread": "notebook_read read_notebook",
    "webfetch": "fetch fetch_url read_url url_fetch web_fetch",
    "websearch": "google_web_search search_web web_search",
    "task": "agent dispatch_agent spawn_agent subagent",
    "todowrite": "todo_write update_todos write_todos",
}

_OTHERS = (
    "ask_user ask_user_question askuserquestion bashoutput code_execution computer enterplanmode execute_code "
    "exitplanmode killbash killshell listmcpresources lsp memory monitor readmcpresource sendmessage skill "
    "slashcommand task_output taskcreate taskget tasklist taskoutput taskstop taskupdate think todoread toolsearch "
    "get_skill list_skills propose_skill propose_skill_update read_skill read_skill_resource skills_load skills_read "
    "skills_run skills_search skills_unload"
)
"""Tools that agents have under one name, and at the end those that control skills."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {alias.lower(): name.lower() for alias, name in TOOLS.items() if alias.lower() != name.lower()}
    | {alias: name for name, same in _SAME.items() for alias in same.split()}
)
"""Another name of a tool -> the name that rules are compared by."""

_KNOWN = frozenset((*_SAME, *_OTHERS.split()))


def is_known_tool(tool: str) -> bool:
    """Whether a tool, by its canonical name, is one that agents have, or one of an MCP server.

    >>> is_known_tool("bash"), is_known_tool("mcp__files__read"), is_known_tool("frobnicate")
    (True, True, False)
    """
    return tool in _KNOWN or tool == "*" or tool.startswith("mcp__")


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
    return ALIASES.get(folded, folded)
