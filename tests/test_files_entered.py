"""What somebody has to read who follows one map through a rewrite."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType

import rewriter

ROOT = Path(__file__).parents[1]
ONE_MATMUL = ROOT / "models" / "text" / "split_map_stack.onnxtxt"
MOST = 54
"""Files of both packages in which more than a constructor runs."""


def files_entered(model: Path) -> set[str]:
    """Return the files of the packages whose functions run while a model is rewritten."""
    given = rewriter.load(model)
    rewriter.rewrite(given)  # imports count for nothing
    found = set()

    def enter(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name not in ("<module>", "__init__", "__post_init__"):
            found.add(code.co_filename)

    before = sys.getprofile()
    sys.setprofile(enter)
    try:
        rewriter.rewrite(given)
    finally:
        sys.setprofile(before)
    packages = (str(ROOT / "passes"), str(ROOT / "rewriter"))
    return {path.removeprefix(f"{ROOT}/") for path in found if path.startswith(packages)}


def test_one_map_is_followed_through_few_files() -> None:
    entered = files_entered(ONE_MATMUL)
    assert "passes/batching/families/linear.py" in entered
    assert len(entered) <= MOST, sorted(entered)


def test_the_architecture_lists_these_files() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## One MatMul")[2]
    rooms = re.findall(r"`((?:passes|rewriter)/[\w/]*)`: ([\w, ]+)", page.partition("## ")[0])
    listed = [f"{room}{name.strip()}.py" for room, names in rooms for name in names.split(",")]
    assert sorted(listed) == sorted(files_entered(ONE_MATMUL))


def test_what_the_model_has_no_use_for_is_not_entered() -> None:
    entered = files_entered(ONE_MATMUL)
    of_others = {
        "passes/inline.py": "functions",
        "passes/fold_branches.py": "If",
        "passes/maps/merge.py": "two maps",
        "passes/eliminate.py": "a sequence that is left, or one in a loop",
        "passes/flat_views.py": "a body that ends in a Reshape or a Slice",
        "passes/batching/opening.py": "an operator without a rule",
        "passes/batching/causes.py": "a node that declines",
        "passes/batching/promotion.py": "a node that stays in a loop",
        "passes/fusing/guard_choice.py": "a guard that would help",
        "passes/fusing/partly_fused.py": "a node that stays in a loop",
        "passes/raising/originals.py": "a Loop that was raised",
        "passes/runtimes/defects/quantized.py": "DequantizeLinear",
        "passes/sequences/known.py": "samples of a known number",
        "passes/typing/corrections.py": "Range and Slice",
        "passes/typing/shape_functions.py": "an operator of another domain",
        "rewriter/model_files/sequence_types.py": "SequenceEmpty",
        "rewriter/model_files/structure.py": "a message",
        "rewriter/model_files/weights.py": "weights in other files",
        "rewriter/option_values.py": "options",
        "rewriter/proof/faults.py": "a pass that fails",
        "rewriter/reporting/pictures.py": "somebody who looks at a picture",
        "passes/expand.py": "a map that is left",
        "passes/fusing/flat_cost.py": "samples of several sizes",
        "passes/runtimes/near_weights.py": "a graph inside of another",
        "rewriter/placement/placing.py": "a device",
        "rewriter/reporting/obstacles.py": "a target that is not reached",
        "rewriter/reporting/final_decisions.py": "a Loop that is left, or a reason",
    }
    assert all((ROOT / path).exists() for path in of_others)
    assert entered.isdisjoint(of_others)
