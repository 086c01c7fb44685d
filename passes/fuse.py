"""Replaces maps, or parts of their bodies, by operators with a batch axis."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx_ir as ir

from passes.decisions import Code, Decision
from passes.fusing.turn import Turn
from passes.graph.graphs import is_operator, reads_of, walk_nodes
from passes.graph.names import make_names_unique
from passes.inline import inline_loops, restore_functions
from passes.maps.sequence_map import find_sequence_maps, prepare
from passes.promises import FuseOptions
from passes.reading.iterations import is_behind, is_given, is_new, reads_new_nodes

__all__ = ["FuseSequenceMapPass"]


class FuseSequenceMapPass(ir.passes.InPlacePass):
    """Fuse what can be fused of every map; the others stay as they are.

    1. A SequenceMap may be fused in part, and behind a guard.
    2. Loops and Scans are raised for that. One that is a map over independent samples is fused
       as a whole, or given back exactly as it was.
    3. Loops come first, in a pass of their own, since the bodies around them are simplified by
       what they become. The pass for SequenceMaps looks only at those that hold or read what a
       rewrite wrote.
    4. A SequenceMap that hands elements on to a Loop, or is handed such by one, is raised with
       it: what becomes one map is fused as one, in whatever order the two stand. Alone it waits
       for the pass for SequenceMaps.
    5. The loops that a rewrite wrote itself stay. A model-local function is inlined where one of
       its Loops is fused.

    Attributes:
        decisions: What was done with each map that was fused, in the order of the work, and why
            Loops and Scans stay.
        declined: Why each of the SequenceMaps that are left was not fused.
    """

    def __init__(self, options: FuseOptions | None = None, *, loops: bool = False) -> None:
        """Set up the pass.

        Args:
            options: What is promised, and how far to go.
            loops: Fuse the Loops and Scans of the model, and no SequenceMap but beside them.
        """
        super().__init__()
        self.only_for = (("Loop", "Scan") if loops else ("Loop", "Scan", "SequenceMap"),)
        self._options = options or FuseOptions()
        self._loops = loops
        self.decisions: list[Decision] = []
        self.declined: dict[str, Decision] = {}

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Fuse the maps of a model, those inside of other maps first."""
        self.decisions, self.declined = [], {}
        if self._loops:
            modified, in_functions = (
                self._fuse_in_functions(model) if model.functions else (False, [])
            )
            modified |= self._fuse_loops(model)
            self.decisions += in_functions
            return ir.passes.PassResult(model, modified)
        modified = prepare(model, opens=True)
        if maps := find_sequence_maps(model):
            turn = Turn(model, self._options)
            turn.fuse(node for _, node in maps)
            self.declined = {decision.path: decision for decision in turn.kept.values()}
            make_names_unique(model)
            modified |= bool(turn.fused)
            fused = turn.fused
        else:
            fused = []
        modified |= self._fuse_loops(model)
        self.decisions[:0] = fused
        return ir.passes.PassResult(model, modified)

    def _fuse_in_functions(self, model: ir.Model) -> tuple[bool, list[Decision]]:
        """Inline the functions in which a Loop is fused; say why the Loops of the others stay."""
        modified, left = inline_loops(model, self._fuse_loops)
        return modified, [decision for decision in self.decisions if decision.path in left]

    def _fuse_loops(self, model: ir.Model) -> bool:
        """Fuse the Loops that stand in no function; return whether any was."""
        self.decisions = []
        again = _ReadAgain()
        kept, fused = again.kept, list[Decision]()
        modified = False
        functions, imports = dict(model.functions), dict(model.opset_imports)
        wanted = again.wanted(self._given(model))
        if not wanted:
            return False
        if self._loops and _have_neighbours(model, wanted):
            modified |= prepare(model, opens=True)
        while wanted := again.wanted(self._given(model)):
            modified |= make_names_unique(model)
            turn = Turn(model, self._options)
            turn.fuse(turn.raise_loops(wanted, with_neighbours=self._loops))
            fused += turn.fused
            again.note(wanted, turn)
        restore_functions(model, functions, imports)
        make_names_unique(model)
        left = set(walk_nodes(model.graph))
        self.decisions = [*fused, *(kept[node] for node in kept if node in left)]
        return modified or bool(fused)

    def _given(self, model: ir.Model) -> list[ir.Node]:
        """Return the Loops that this pass is for."""
        loops = (node for node in walk_nodes(model.graph) if is_operator(node, ("Loop", "Scan")))
        return [n for n in loops if is_given(n) and (self._loops or reads_new_nodes(n))]


def _have_neighbours(model: ir.Model, loops: Collection[ir.Node]) -> bool:
    """Whether a SequenceMap reads what some Loops yield, or yields what they read."""
    maps = [node for _, node in find_sequence_maps(model)]
    if any(v is not None and v.producer() in loops for node in maps for v in node.inputs):
        return True
    yielded = {value for node in maps for value in node.outputs}
    return bool(maps) and any(not yielded.isdisjoint(reads_of(loop)) for loop in loops)


class _ReadAgain:
    """Tells turn by turn which Loops are read, again once others have become something else.

    A Loop may stay for a rank that is not known until the Loop in front of it is fused. In a
    row of such Loops each tells the next one, so that a turn reads only the first one again.

    Attributes:
        kept: Why Loops stay that were read.
    """

    def __init__(self) -> None:
        self.kept: dict[ir.Node, Decision] = {}
        self._is_over = False
        self._has_fused = False
        self._due: set[ir.Node] = set()

    def wanted(self, loops: Sequence[ir.Node]) -> set[ir.Node]:
        """Return the Loops to read in the next turn; none if nothing would change any more.

        Args:
            loops: All of the model.
        """
        if self._is_over:
            return set()
        found = {node for node in loops if node not in self.kept}
        if self._has_fused:
            found |= {node for node in loops if reads_new_nodes(node)}
        due = self._due.intersection(loops) - found
        if self._has_fused:
            due = {node for node in due if not is_behind(node, due.__contains__)}
        return found | due

    def note(self, wanted: Collection[ir.Node], turn: Turn) -> None:
        """Note what became of the Loops of a turn.

        Args:
            wanted: Those that were read.
            turn: The turn.
        """
        self.kept |= turn.kept
        self._has_fused = bool(turn.fused)
        if turn.fused:
            waiting = (node for node, why in self.kept.items() if _lacks_a_type(why))
            self._due = {node for node in waiting if is_behind(node, is_new)}
        else:
            self._due -= set(wanted)
        self._is_over = not (turn.fused or turn.came_back or self._due)


def _lacks_a_type(kept: Decision) -> bool:
    """Whether a Loop stays because a rank or a shape is not known."""
    return any(reason.code in (Code.UNKNOWN_RANK, Code.UNKNOWN_SHAPE) for reason in kept.reasons)
