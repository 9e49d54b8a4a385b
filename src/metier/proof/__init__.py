"""Proof that a skill works: its tests in tiers, evaluations, score, usage, and replay of what was decided.

This room stands on `agent` and everything below it; `cli` and `serve` show what it finds out.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.proof.recorded_log import log_of_file as log_of_file
    from metier.proof.recorded_log import log_of_store as log_of_store
    from metier.proof.replay import Replay as Replay
    from metier.proof.replay import ReplayReport as ReplayReport
    from metier.proof.report import CaseResult as CaseResult
    from metier.proof.report import Report as Report
    from metier.proof.report import SkillReport as SkillReport
    from metier.proof.report import TierResult as TierResult
    from metier.proof.suite import Suite as Suite

__getattr__, __dir__, __all__ = lazy_names(__name__)
