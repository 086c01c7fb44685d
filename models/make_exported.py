"""Writes the models of ``models/exported`` that come from PyTorch: ``dy_*`` and ``ts_*``.

Run ``python models/make_exported.py DIRECTORY`` where torch (2.13 wrote the files here) and
onnxscript are installed. Weights are drawn anew, so the bytes differ; the graphs should not.
Nothing else needs torch: tests use the files that are checked in.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn


class Hstack(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.hstack([a, b])


class AtLeast1d(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.cat(torch.atleast_1d([a, b]))


class EmbeddingBag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.e = nn.EmbeddingBag(50, 8, mode="sum")

    def forward(self, ids: Tensor) -> Tensor:
        return self.e(ids)


class ScanIdentityState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        def step(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            return state.clone(), torch.tanh(self.fc(row))

        return torch._higher_order_ops.scan(step, torch.zeros(1), x)[1]


class WhilePrefixSum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        def is_left(i: Tensor, total: Tensor, sums: Tensor) -> Any:
            return i < x.shape[0]

        def step(i: Tensor, total: Tensor, sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            at = i.reshape(1)
            total = total + torch.index_select(x, 0, at).squeeze(0)
            return i + 1, total, torch.index_put(sums, (at,), total.unsqueeze(0))

        start = (torch.tensor(0), torch.zeros(4), torch.zeros_like(x))
        return torch._higher_order_ops.while_loop(is_left, step, start)[2]


class SplitDynamic(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        head, tail = torch.split(x, [2, x.shape[0] - 2])
        return head.sum(0) + tail.sum(0) + n


class Unbind(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        left, right = x.view(-1, 4, 2).unbind(2)
        return left - right


class EmbeddingBagOffsets(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(50, 8))

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        return nn.functional.embedding_bag(ids, self.weight, offsets, mode="sum")


class Bags(nn.Module):
    def __init__(self, mode: str, include_last_offset: bool = False) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(50, 8, mode=mode, include_last_offset=include_last_offset)

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        return self.bags(ids, offsets)


class WeightedBags(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(50, 8, mode="sum")

    def forward(self, ids: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
        return self.bags(ids, offsets, weights)


class BagsOfRows(nn.Module):
    def __init__(self, mode: str) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(50, 8, mode=mode)

    def forward(self, ids: Tensor) -> Tensor:
        return self.bags(ids)


class ListComprehension(nn.Module):
    def forward(self, xs: list[Tensor]) -> list[Tensor]:
        return [torch.relu(x) * 2.0 + 1.0 for x in xs]


class PairsLater(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        products: list[Tensor] = []
        for i in range(x.size(0)):
            for j in range(i + 1, x.size(0)):
                products.append((x[i] * x[j]).sum())  # noqa: PERF401 -- as above
        return torch.stack(products)


class Anchors(nn.Module):
    def forward(self, size: Tensor, f: Tensor) -> Tensor:
        boxes: list[Tensor] = []
        for i in range(f.size(1)):
            for j in range(f.size(2)):
                middle = torch.tensor([float(j), float(i)])
                boxes.append(torch.cat([middle - size[0] / 2, middle + size[0] / 2]))
        return torch.stack(boxes)


class FilterNegative(nn.Module):
    def forward(self, xs: list[Tensor]) -> list[Tensor]:
        ys: list[Tensor] = []
        for x in xs:
            if bool(x.sum() > 0):
                ys.append(x)  # noqa: PERF401 -- the loop is what is to be exported
        return ys


class RnnNegative(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(1))
        ys: list[Tensor] = []
        for i in range(x.size(0)):
            h = torch.tanh(h + x[i])
            ys.append(h)
        return torch.stack(ys)


class RowsLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        ys: list[Tensor] = []
        for i in range(x.size(0)):
            ys.append(torch.tanh(self.fc(x[i])))  # noqa: PERF401 -- as above
        return torch.stack(ys)


class SplitMapCat(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        ys: list[Tensor] = []
        for piece in torch.split(x, 10):
            ys.append(piece * 2.0)  # noqa: PERF401 -- as above
        return torch.cat(ys)


class SemSegPostprocess(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(4, 5, 1)

    def forward(self, x: Tensor, sizes: Tensor) -> list[Tensor]:
        logits = self.head(x)
        maps: list[Tensor] = []
        for i in range(logits.shape[0]):
            size = [int(sizes[i][0]), int(sizes[i][1])]
            y = nn.functional.interpolate(
                logits[i].unsqueeze(0), size=size, mode="bilinear", align_corners=False
            )
            maps.append(y[0].argmax(0))
        return maps


class ImagesNormalized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]))
        self.register_buffer("spread", torch.tensor([0.229, 0.224, 0.225]))

    def forward(self, images: list[Tensor]) -> list[Tensor]:
        found: list[Tensor] = []
        for image in images:
            x = image.float() / 255.0 - self.mean[:, None, None]
            found.append(x / self.spread[:, None, None])
        return found


class ImagesStatistics(nn.Module):
    def forward(self, images: list[Tensor]) -> Tensor:
        found: list[Tensor] = []
        for image in images:
            mean, most = image.mean(dim=[1, 2]), image.amax(dim=[1, 2])
            found.append(torch.cat([mean, most, image.flatten(1).std(dim=1, unbiased=False)]))
        return torch.stack(found)


class ImagesSoftArgmax(nn.Module):
    """Where the heat of each map lies, as the heads of pose estimators have it."""

    def forward(self, images: list[Tensor]) -> Tensor:
        found: list[Tensor] = []
        for heat in images:
            k, h, w = heat.shape[0], heat.shape[1], heat.shape[2]
            p = nn.functional.softmax(heat.reshape(k, -1), dim=1).reshape(k, h, w)
            y = (p.sum(dim=2) * torch.arange(h, dtype=torch.float32)).sum(dim=1)
            x = (p.sum(dim=1) * torch.arange(w, dtype=torch.float32)).sum(dim=1)
            found.append(torch.stack([x, y], dim=1))
        return torch.stack(found)


class ImagesPyramid(nn.Module):
    def forward(self, small: list[Tensor], large: list[Tensor]) -> Tensor:
        found: list[Tensor] = []
        for i in range(len(large)):
            size = [large[i].shape[1], large[i].shape[2]]
            x = nn.functional.interpolate(small[i][None], size=size, mode="nearest")[0]
            found.append((x + large[i]).mean(dim=[1, 2]))
        return torch.stack(found)


class ZipMatMul(nn.Module):
    def forward(self, a: list[Tensor], b: list[Tensor]) -> list[Tensor]:
        return [torch.matmul(x, y) for x, y in zip(a, b)]  # noqa: B905 -- TorchScript knows no strict


_IDS, _WEIGHTS = torch.randint(50, (9,)), torch.rand(9)
_OFFSETS, _ALL_OFFSETS = torch.tensor([0, 2, 2, 5]), torch.tensor([0, 2, 2, 5, 9])
_NONE_EMPTY = torch.tensor([0, 2, 3, 5])
_BAG_AXES: dict[str, Any] = {"dynamic_shapes": ({0: "T"}, {0: "B"})}
_SCRIPTED_BAG: dict[str, Any] = {
    "input_names": ["ids", "offsets"],
    "output_names": ["y"],
    "dynamic_axes": {"ids": {0: "T"}, "offsets": {0: "B"}},
}
_SCRIPTED_WEIGHTS: dict[str, Any] = {
    "input_names": ["ids", "offsets", "weights"],
    "output_names": ["y"],
    "dynamic_axes": {"ids": {0: "T"}, "offsets": {0: "B"}, "weights": {0: "W"}},
}

_OWN_SIZE: dict[int, str] = {1: "h", 2: "w"}
_IMAGES: dict[str, Any] = {
    "input_names": ["images"],
    "output_names": ["y"],
    "dynamic_axes": {"images": _OWN_SIZE},
}


def _drawn(*sizes: tuple[int, int]) -> list[Tensor]:
    return [torch.rand(3, *size) for size in sizes]


# name -> module, example arguments, keyword arguments of torch.onnx.export
DYNAMO: dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = {
    "dy_hstack": (Hstack(), (torch.randn(3), torch.randn(5)), {}),
    "dy_atleast_1d": (AtLeast1d(), (torch.randn(3), torch.randn(4)), {}),
    "dy_embedding_bag": (EmbeddingBag(), (torch.randint(50, (2, 3)),), {}),
    "dy_embedding_bag_sum_offsets": (Bags("sum"), (_IDS, _OFFSETS), _BAG_AXES),
    "dy_embedding_bag_sum_last": (Bags("sum", True), (_IDS, _ALL_OFFSETS), _BAG_AXES),
    "dy_embedding_bag_mean_offsets": (Bags("mean"), (_IDS, _OFFSETS), _BAG_AXES),
    "dy_embedding_bag_max_last": (Bags("max", True), (_IDS, _ALL_OFFSETS), _BAG_AXES),
    "dy_embedding_bag_weights": (
        WeightedBags(),
        (_IDS, _OFFSETS, _WEIGHTS),
        {"dynamic_shapes": ({0: "T"}, {0: "B"}, {0: "T"})},
    ),
    "dy_embedding_bag_rows": (
        BagsOfRows("mean"),
        (torch.randint(50, (4, 3)),),
        {"dynamic_shapes": ({0: "B"},)},
    ),
    "dy_scan_identity_state": (ScanIdentityState(), (torch.randn(5, 8),), {}),
    "dy_split_dynamic": (
        SplitDynamic(),
        (torch.randn(7, 3), torch.randn(3)),
        {"dynamic_shapes": ({0: "N"}, None)},
    ),
    "dy_unbind_dyn": (Unbind(), (torch.randn(3, 8),), {"dynamic_shapes": ({0: "N"},)}),
    "dy_while_prefix_sum": (
        WhilePrefixSum(),
        (torch.randn(6, 4),),
        {"dynamic_shapes": ({0: "N"},)},
    ),
}
SCRIPTED: dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = {
    "ts_embedding_bag_sum": (
        EmbeddingBagOffsets(),
        (torch.randint(50, (6,)), torch.tensor([0, 2, 5])),
        {
            "input_names": ["ids", "offsets"],
            "output_names": ["y"],
            "dynamic_axes": {"ids": {0: "T"}, "offsets": {0: "B"}},
        },
    ),
    "ts_embedding_bag_mean": (Bags("mean"), (_IDS, _NONE_EMPTY), _SCRIPTED_BAG),
    "ts_embedding_bag_max": (Bags("max"), (_IDS, _NONE_EMPTY), _SCRIPTED_BAG),
    "ts_embedding_bag_weights": (
        WeightedBags(),
        (_IDS, _OFFSETS, _WEIGHTS),
        _SCRIPTED_WEIGHTS,
    ),
    "ts_embedding_bag_weights_scripted": (
        WeightedBags(),
        (_IDS, _OFFSETS, _WEIGHTS),
        _SCRIPTED_WEIGHTS,
    ),
    "ts_listcomp_relu": (
        ListComprehension(),
        ([torch.randn(3, 4), torch.randn(5, 4)],),
        {"input_names": ["xs"], "output_names": ["ys"]},
    ),
    "ts_images_normalized": (
        ImagesNormalized(),
        ([torch.randint(256, (3, 5, 7), dtype=torch.uint8) for _ in range(2)],),
        _IMAGES,
    ),
    "ts_images_statistics": (ImagesStatistics(), (_drawn((5, 7), (4, 3), (9, 2)),), _IMAGES),
    "ts_images_soft_argmax": (ImagesSoftArgmax(), (_drawn((5, 7), (4, 3)),), _IMAGES),
    "ts_images_pyramid": (
        ImagesPyramid(),
        (_drawn((5, 7), (4, 3)), _drawn((11, 13), (8, 6))),
        {
            "input_names": ["small", "large"],
            "output_names": ["y"],
            "dynamic_axes": {"small": _OWN_SIZE, "large": {1: "rows", 2: "columns"}},
        },
    ),
    "ts_pairs_later": (
        PairsLater(),
        (torch.randn(6, 4),),
        {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}},
    ),
    "ts_anchors": (
        Anchors(),
        (torch.tensor([[3.0, 4.0]]), torch.randn(2, 5, 6)),
        {"input_names": ["size", "f"], "dynamic_axes": {"f": {1: "h", 2: "w"}}},
    ),
    "ts_filter_negative": (
        FilterNegative(),
        ([torch.ones(2), -torch.ones(3), torch.ones(1)],),
        {"input_names": ["xs"], "output_names": ["ys"]},
    ),
    "ts_rnn_negative": (
        RnnNegative(),
        (torch.randn(6, 8),),
        {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": {0: "N"}}},
    ),
    "ts_rows_linear_stack": (
        RowsLinear(),
        (torch.randn(6, 8),),
        {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": {0: "N"}}},
    ),
    "ts_split_map_cat": (
        SplitMapCat(),
        (torch.randn(95),),
        {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": {0: "N"}}},
    ),
    "ts_semseg_postprocess": (
        SemSegPostprocess(),
        (torch.randn(3, 4, 12, 12), torch.tensor([[9, 7], [20, 5], [12, 12]])),
        {
            "input_names": ["x", "sizes"],
            "output_names": ["maps"],
            "dynamic_axes": {"x": {0: "n"}, "sizes": {0: "n"}},
        },
    ),
    "ts_zip_matmul_badshapes": (
        ZipMatMul(),
        ([torch.randn(2, 3), torch.randn(4, 3)], [torch.randn(3, 5), torch.randn(3, 1)]),
        {"input_names": ["a", "b"], "output_names": ["c"]},
    ),
}


# A trace knows that the weights are as many as the ids; a script asks, outside of the Loop.
TRACED = ("ts_embedding_bag_weights",)


def vectors(inputs: list[tuple[str, Any]], outputs: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Name inputs and outputs the way ``--inputs`` reads them."""
    arrays = {}
    named = [(f"in__{name}", value) for name, value in inputs]
    named += [("out__0", outputs)]
    for name, value in named:
        elements = {name: value}
        if isinstance(value, list):
            elements = {f"{name}__{i}": element for i, element in enumerate(value)}
        arrays.update({key: element.detach().numpy() for key, element in elements.items()})
    return arrays


def drop_traces(path: pathlib.Path) -> None:
    """Leave out where in Python each node comes from."""
    model = onnx.load(path)
    pending = [model.graph]
    while pending:
        for node in pending.pop().node:
            del node.metadata_props[:]
            pending.extend(a.g for a in node.attribute if a.HasField("g"))
    onnx.save(model, path)


def main(directory: pathlib.Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    for name, (module, args, options) in (DYNAMO | SCRIPTED).items():
        path = directory / f"{name}.onnx"
        module.eval()
        if name in DYNAMO:
            torch.onnx.export(module, args, path, opset_version=18, external_data=False, **options)
            drop_traces(path)
        else:
            scripted = module if name in TRACED else torch.jit.script(module)
            torch.onnx.export(scripted, args, path, opset_version=17, dynamo=False, **options)
        names = module.forward.__code__.co_varnames[1 : 1 + len(args)]
        inputs = list(zip(names, args, strict=True))
        np.savez(path.with_suffix(".npz"), **vectors(inputs, module(*args)))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
