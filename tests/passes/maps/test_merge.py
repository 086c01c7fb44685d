"""How often the bodies of a long chain of maps are copied until they are one."""

from __future__ import annotations

import onnx.parser
import onnx_ir as ir
import pytest

from passes.maps import merged_maps
from passes.maps.merge import merge_sequence_maps
from passes.maps.sequence_map import find_sequence_maps


def chain(count: int) -> ir.Model:
    maps = " ".join(
        f"y{i} = SequenceMap (y{i - 1}) <body = b{i} (float[N] x) => (float[N] z) {{ z = Relu (x) }}>"
        for i in range(1, count + 1)
    )
    text = f"""<ir_version: 9, opset_import: ["" : 18]>
        g (seq(float[N]) y0) => (seq(float[N]) y{count}) {{ {maps} }}"""
    return ir.from_proto(onnx.parser.parse_model(text))


@pytest.mark.parametrize(("count", "rounds"), [(2, 1), (16, 1), (17, 2), (60, 2)])
def test_bodies_are_copied_once_in_each_round(
    count: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies, copy_nodes = [], merged_maps.copy_nodes

    def counted(nodes, values):
        made = copy_nodes(nodes, values)
        copies.extend(node for node in made if node.op_type == "Relu")
        return made

    monkeypatch.setattr(merged_maps, "copy_nodes", counted)
    model = chain(count)
    pairs = merge_sequence_maps(model)
    assert [node for _, node in find_sequence_maps(model)] == [model.graph[-1]]
    assert len(pairs) == count - 1
    assert (rounds - 1) * count // 2 < len(copies) <= rounds * count
