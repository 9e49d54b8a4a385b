"""What a virtual shell cannot do, each with a code of its own and a sentence that says what to do."""

from __future__ import annotations

from metier.errors import ShellRefused


def refused(code: str, message: str, hint: str, **context: object) -> ShellRefused:
    """The error with a code that is more precise than `shell-refused`."""
    error = ShellRefused(message, hint=hint, **context)
    error.code = code
    return error


def refusal_of(kind: str, detail: str, path: str) -> ShellRefused:
    """The error for what the worker would not do. Its own words are shown only where there are no better ones."""
    about = {
        "missing": ("shell-missing", f"{path}: No such file or directory.", "List the folder to see what is there."),
        "is-folder": ("shell-is-folder", f"{path}: Is a directory.", "Name a file in it."),
        "no-folder": ("shell-no-folder", f"{path}: Not a directory.", "Name a folder."),
        "not-empty": ("shell-not-empty", f"{path}: Directory not empty.", "Remove it with recursive=True."),
        "is-root": ("shell-root", "The root cannot be removed.", "Remove what is in it."),
        "exists": ("shell-exists", f"{detail}: File exists.", "Remove it first, or choose another path."),
        "inside": ("shell-inside", f"{detail} is inside what should be put there.", "Choose another path."),
        "read-only": ("shell-read-only", f"{path}: Read-only file system.", "Skills cannot be changed; copy the file."),
        "over": ("shell-limit", f"{detail[:1].upper()}{detail[1:]}.", "Remove files, or give the shell larger limits."),
        "snapshot": ("shell-snapshot", "This is no snapshot of a shell, or it is damaged.", "Take a new one."),
    }
    code, message, hint = about.get(
        kind, ("shell-refused", f"The shell could not do that: {detail}", "Try another way.")
    )
    return refused(code, message, hint, path=path)
