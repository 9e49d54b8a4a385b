"""`python -m metier`, for when the command is not on the path."""

from metier.cli import main

raise SystemExit(main())
