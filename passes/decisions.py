"""Decisions about maps, and the closed list of reasons that appear in them."""

from __future__ import annotations

import dataclasses
import enum

__all__ = [
    "PART_OF",
    "BoundaryValue",
    "Code",
    "Decision",
    "Decline",
    "Reason",
    "Verdict",
    "is_no_remedy",
    "without_remedy",
]


PART_OF = "part of "
"""The form of a map that was merged with another: the path of that one stands behind it."""


class Verdict(enum.StrEnum):
    """The outcome for one map."""

    FUSED = "fused"
    GUARDED = "guarded"
    FISSIONED = "fissioned"
    UNROLLED = "unrolled"
    EXPANDED = "expanded"
    KEPT = "kept"


class Code(enum.StrEnum):
    """Why a node or a map was not batched; each has one meaning and one remedy."""

    meaning: str
    remedy: str

    def __new__(cls, value: str, meaning: str, remedy: str) -> Code:
        """Make a code that carries its meaning and its remedy."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.remedy = remedy
        return member

    NO_RULE = (
        "no-rule",
        "no batching rule is known for the operator at this opset",
        "register a rule for it, or move the operator out of the body",
    )
    NEVER = (
        "never",
        "the operator cannot be batched at all",
        "nothing; the node stays in a loop",
    )
    RANDOM = (
        "random",
        "each sample draws its own random numbers, and one batched draw would be another stream",
        "draw outside of the body and map over the drawn values",
    )
    UNKNOWN_RANK = (
        "unknown-rank",
        "the rank of an operand is not known",
        "promise the dimensions of the inputs with --input-shape, or give the value a known rank "
        "where the model is made",
    )
    UNKNOWN_SHAPE = (
        "unknown-shape",
        "a dimension that the batched form needs as a number is not known",
        "promise the shape with --input-shape",
    )
    RAGGED = (
        "ragged",
        "the operand is not proven to have one shape in all samples",
        "promise equal shapes with --uniform, or resize the samples to one shape first",
    )
    DATA_DEPENDENT = (
        "data-dependent-shape",
        "the shape of the result depends on the values of the sample",
        "nothing; what makes the shapes equal again is fused after the loop",
    )
    BATCHED_OPERAND = (
        "batched-operand",
        "an operand that must be shared differs from sample to sample",
        "compute the operand outside of the body",
    )
    SEQUENCE_IN_BODY = (
        "sequence-in-body",
        "the node makes or reads a sequence inside of the body",
        "use tensors inside of the body",
    )
    CONTROL_FLOW = (
        "control-flow",
        "the branch or the trip count differs from sample to sample",
        "make the condition the same for all samples",
    )
    OPSET = (
        "opset",
        "the batched form needs an operator version that the model's opset lacks",
        "--opset N converts the model to a newer opset first",
    )
    EXACT = (
        "exact",
        "a discrete operator is fed by an operator that rounds differently when batched, or a "
        "carried total of floats would be added up in another order",
        "leave --exact out to accept a flip at a tie or another rounding of the total",
    )
    COST = (
        "cost",
        "batching would gain nothing here",
        "use --strategy fuse to batch all the same",
    )
    STRATEGY = (
        "strategy",
        "the strategy asks for loops",
        "use --strategy auto or fuse",
    )
    UNSPLITTABLE_TYPE = (
        "unsplittable-type",
        "onnxruntime has no SplitToSequence for the element type, so the sequence is built by "
        "insertion, in quadratic time",
        "use --tensor-io, or concatenate the results in the model",
    )
    RECURRENCE = (
        "recurrence",
        "a carried value depends on its own past",
        "nothing; it stays a loop, and what does not depend on that value runs beside it where "
        "that pays",
    )
    CARRIED_OFFSET = (
        "carried-offset",
        "a carried position grows by another number in every iteration",
        "compute all positions before the Loop, by CumSum",
    )
    CONDITIONAL_APPEND = (
        "conditional-append",
        "a sequence gains an element in some iterations only",
        "map first and filter the results",
    )
    EARLY_EXIT = (
        "early-exit",
        "what an iteration computes decides whether there is another",
        "nothing; it stays a loop",
    )
    READS_EARLIER = (
        "reads-earlier-result",
        "an iteration reads what an earlier one wrote",
        "nothing; it stays a loop",
    )
    NOT_A_MAP = (
        "not-a-map",
        "the Loop or Scan is no map over independent samples",
        "nothing; it stays as it is",
    )
    REPAIRED = (
        "repaired",
        "verification refuted the form that was chosen first, or it could not be written, so that "
        "the map has a safer one",
        "nothing; report it with what the warning names",
    )
    SURPLUS_IGNORED = (
        "surplus-ignored",
        "the sequences may differ in length: surplus elements of a longer one are ignored and a "
        "shorter one is an error when the model runs",
        "nothing; this is what onnxruntime does with the map itself",
    )


@dataclasses.dataclass(frozen=True)
class Reason:
    """One node that shaped a decision.

    Attributes:
        code: Why.
        node: Path of the node through subgraphs, ``""`` for the map as a whole.
        op_type: The operator of the node, ``""`` for the map as a whole.
        detail: What exactly, in one clause.
        advice: What the user can do here, where the code has no advice that fits.
        dependents: Paths of the nodes that stay in a loop because this one does.
    """

    code: Code
    node: str = ""
    op_type: str = ""
    detail: str = ""
    advice: str = ""
    dependents: tuple[str, ...] = ()

    @property
    def remedy(self) -> str:
        """What a user can do about it."""
        return self.advice or self.code.remedy


_NOTHING = "nothing"


def is_no_remedy(remedy: str) -> bool:
    """Whether a remedy says that there is none."""
    return remedy.startswith(_NOTHING)


def without_remedy(remedy: str) -> str:
    """Return what is said in the place of a remedy by one that says that there is none."""
    return remedy.removeprefix(_NOTHING).removeprefix("; ")


class Decline(Exception):
    """A batching rule says that it cannot batch this node here.

    Attributes:
        code: Why.
        detail: What exactly, in one clause.
    """

    def __init__(self, code: Code, detail: str = "") -> None:
        super().__init__(f"{code.value}: {detail or code.meaning}")
        self.code = code
        self.detail = detail


@dataclasses.dataclass(frozen=True)
class BoundaryValue:
    """A value that goes into a map or comes out of it, and its layouts in the batched forms.

    Attributes:
        name: The input of the body, or the value that holds the result.
        role: ``reads`` or ``yields``.
        sample: Element type and dimensions of one sample, as the model declares them.
        layouts: Its layout in each form: ``shared``, ``stacked``, ``packed``, ``flat``,
            ``per-sample``; each once.
    """

    name: str
    role: str
    sample: str
    layouts: tuple[str, ...]


@dataclasses.dataclass
class Decision:
    """The outcome for one map, and the reasons for it.

    Attributes:
        path: Path of the map through subgraphs and functions.
        op_type: ``SequenceMap``, ``Loop`` or ``Scan``.
        verdict: What was done.
        form: How it was written, e.g. ``scan outputs``, ``blocks``, ``insertion``, ``If``.
        reasons: The nodes that decided it.
        assumptions: What the rewrite relied on without proof in the graph.
        notes: Further facts for the reader, e.g. of the cost model.
        in_loops: How many nodes of a body that is batched in part run sample by sample.
        boundary: What goes in and comes out of a map that is batched, and how it is held.
        few: Up to how many samples the batched form is left out, since something else is faster.
        few_copied: It is copies of the body that are faster then, and no loop.
        readers: Of a map that only says how flat samples lie: paths of the maps that read them
            one by one, for the reasons that are given there.
        failing: The first of the nodes that keep a branch for no samples, since they could fail.
        copy_of: Of a copy of a map, as a function that is called twice holds one: the path of
            that map in the model as given.
    """

    path: str
    op_type: str
    verdict: Verdict
    form: str = ""
    reasons: list[Reason] = dataclasses.field(default_factory=list)
    assumptions: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    in_loops: int = 0
    boundary: list[BoundaryValue] = dataclasses.field(default_factory=list)
    few: int = 0
    few_copied: bool = False
    readers: tuple[str, ...] = ()
    failing: str = ""
    copy_of: str = ""
