"""What was measured, as data: findings, the contract that weighs them, and what is forgiven.

Pure bookkeeping: nothing here imports torch, runs a program, or makes a sentence (`gbfix.wording`
does).  ``finding`` holds the records, ``contract`` says what a kind of call is and what a finding
on it means for a patch, ``forgive`` what a rewrite has proved beforehand.
"""

from __future__ import annotations

from gbfix.evidence.contract import Kinds, Usage, Weight, Zone, weigh, zone
from gbfix.evidence.finding import Finding, Kind, Part
from gbfix.evidence.forgive import Assumption, forgive

__all__ = [
    "Assumption",
    "Finding",
    "Kind",
    "Kinds",
    "Part",
    "Usage",
    "Weight",
    "Zone",
    "forgive",
    "weigh",
    "zone",
]
