"""Loops and Scans that are maps, written as Map nodes, and given back as they were.

Start with `raiser`, which goes through the Loops of a model; `loop_replacer` puts maps into the
place of one. `originals` keeps what a Map was raised from and gives it back, `behind` writes what
a Loop carried, `loop_parts` and `split` take a recurrence out.
"""

from passes.raising.originals import GiveBackPass
from passes.raising.raise_loops import RaiseLoopsPass

__all__ = ["GiveBackPass", "RaiseLoopsPass"]
