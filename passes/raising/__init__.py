"""Loops and Scans that are maps, written as Map nodes, and given back as they were."""

from passes.raising.originals import GiveBackPass
from passes.raising.raise_loops import RaiseLoopsPass

__all__ = ["GiveBackPass", "RaiseLoopsPass"]
