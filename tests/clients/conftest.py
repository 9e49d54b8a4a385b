"""Agents that people use, with a scripted model, as clients of `metier mcp`. Only run where somebody asks for it:

npm install --prefix FOLDER @anthropic-ai/claude-code @google/gemini-cli
METIER_TEST_CLIENTS=1 PATH=FOLDER/node_modules/.bin:$PATH python -m pytest tests/clients
"""

from __future__ import annotations

import os

# Half a gigabyte that changes every week is no part of every test run.
collect_ignore_glob = [] if os.environ.get("METIER_TEST_CLIENTS") == "1" else ["test_*.py"]
