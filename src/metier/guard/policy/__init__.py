"""Policy: the program's own, and the files of the machine, the user and the project."""
