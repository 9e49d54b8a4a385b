"""Arguments of tool calls that a rule with a pattern understands.

A pattern is about a command, a path or an address. Any other argument of a call must be known to change nothing of
that: an argument with a name that is not listed here may be a second command, another file or another folder, so that
no pattern allows the call. A rule without a pattern allows it.
"""

COMMAND_ARGUMENTS = ("cmd", "code", "command", "commands", "script")
"""The names of what a shell is given to run."""
FOLDER_ARGUMENTS = (
    "cwd", "dir", "dir_path", "directory", "folder", "work_dir", "workdir", "working_dir", "working_directory",
)  # fmt: skip
VARIABLES_ARGUMENTS = ("env", "env_vars", "environment", "envs", "variables", "vars")
CHANGING_ARGUMENTS = (
    "args", "arguments", "argv", "executable", "input", "interpreter", "shell", "stdin", "user", *VARIABLES_ARGUMENTS,
)  # fmt: skip
"""Arguments beside a command that change what it does."""
PATH_ARGUMENTS = (
    "absolute_path", "dir_path", "directory", "file", "file_path", "filename", "filepath", "notebook_path", "path",
    "target_file",
)  # fmt: skip
PATHS_ARGUMENTS = ("file_paths", "files", "paths")
URL_ARGUMENTS = ("uri", "url", "urls")

_COMMENTS = "description explanation goal justification reason summary title"
_BESIDE = {
    "bash": (
        f"{_COMMENTS} background block_until_ms blocking delay_ms ignore_errors is_background isBackground "
        "max_output_chars max_output_length max_output_tokens mode run_in_background security_risk timeout timeout_ms "
        "timeout_s timeout_seconds timeoutms wait_ms yield_time_ms"
    ),
    "webfetch": f"{_COMMENTS} format max_chars max_length prompt raw start_index timeout",
}
_BESIDE_PATHS = (
    f"{_COMMENTS} -A -B -C -i -n after allow_multiple append before case_sensitive cell_id cell_number cell_type code "
    "code_edit command content contents context depth diff edit_mode edit_type edits encoding end_line exclude "
    "exclude_pattern expected_replacements file_text files_only glob head_limit ignore include include_pattern "
    "insert_line insert_text instruction instructions is_regexp length limit line_numbers max_depth "
    "max_matches_per_file max_results multiline names_only new_source new_str new_string new_text offset old_str "
    "old_string old_text output_mode pages pattern patch query recursive regex replace_all respect_gemini_ignore "
    "respect_git_ignore show_hidden sort start start_line text total_max_matches type view_range"
)
PATH_TOOLS = frozenset({"edit", "glob", "grep", "ls", "notebookedit", "notebookread", "read", "write"})
UNDERSTOOD = {
    "bash": frozenset((*COMMAND_ARGUMENTS, *FOLDER_ARGUMENTS, *CHANGING_ARGUMENTS, *_BESIDE["bash"].split())),
    "webfetch": frozenset((*URL_ARGUMENTS, *_BESIDE["webfetch"].split())),
    **dict.fromkeys(PATH_TOOLS, frozenset((*PATH_ARGUMENTS, *PATHS_ARGUMENTS, *_BESIDE_PATHS.split()))),
}
"""The arguments that patterns about a tool understand."""
