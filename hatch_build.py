"""What is made when the package is built, or installed from a clone: the rules of the scanner, compiled."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledRules(BuildHookInterface[Any]):
    """Compiles the core pack of rules, which takes seconds, so that the first scan does not have to."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the compiled rules beside their files."""
        sys.path.insert(0, str(Path(self.root, "src")))
        from metier.scan.pack_store import ship

        ship()
