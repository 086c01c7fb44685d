from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.errors import RewriteError
from passes.promises import Promises
from rewriter.feeding.feeds import (
    Feed,
    FeedMaker,
    check_feeds,
    read_expected,
    read_feeds,
    write_feeds,
)
from rewriter.feeding.index_inputs import index_bounds
from tests.rewriter.feeding.drawn import make_feeds

ELEMENT_TYPES = (
    *("bool", "string", "float16", "bfloat16", "float", "double", "complex64", "complex128"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)


def model(inputs: str, body: str = "n = Constant <value_int = 1> ()", outputs: str = "int64 n"):
    text = f'<ir_version: 10, opset_import: ["" : 21]> g ({inputs}) => ({outputs}) {{ {body} }}'
    return onnx.parser.parse_model(text)


def shapes(feed: Feed, name: str) -> list[tuple[int, ...]]:
    value = feed.values[name]
    return [item.shape for item in (value if isinstance(value, list) else [value])]


class TestMade:
    def test_lengths_and_spreads(self):
        feeds = make_feeds(model("seq(float[H,W,3]) xs"))
        assert [feed.description for feed in feeds] == [
            "length 5 ragged",
            "length 2 equal",
            "length 1",
            "length 0",
            "length 5 equal",
            "length 2 ragged",
            "length 5 ragged with an empty element",
            "length 3 ragged",
        ]
        for feed in feeds:
            assert len(feed.values["xs"]) == int(feed.description.split()[1])
            assert all(len(shape) == 3 and shape[2] == 3 for shape in shapes(feed, "xs"))
            if "length 2" in feed.description or "length 5" in feed.description:
                is_ragged = len(set(shapes(feed, "xs"))) > 1
                assert is_ragged == ("ragged" in feed.description)
        assert any(0 in shape for shape in shapes(feeds[6], "xs"))

    def test_no_more_than_asked_for(self):
        assert len(make_feeds(model("seq(float[N]) xs"), cases=3)) == 3

    def test_more_kinds_than_there_are(self):
        feeds = make_feeds(model("seq(float[N]) xs"), cases=20)
        assert len(feeds) == 20
        assert feeds[8].description == feeds[0].description
        assert not np.array_equal(feeds[8].values["xs"][0], feeds[0].values["xs"][0])

    def test_a_seed_says_everything(self):
        one, same, other = (make_feeds(model("float[N] x"), seed=seed) for seed in (1, 1, 2))
        assert all(
            np.array_equal(a.values["x"], b.values["x"]) for a, b in zip(one, same, strict=True)
        )
        assert any(
            not np.array_equal(a.values["x"], b.values["x"])
            for a, b in zip(one, other, strict=True)
        )

    @pytest.mark.parametrize("element_type", ELEMENT_TYPES)
    def test_element_types(self, element_type):
        graph = model(f"{element_type}[N] x, seq({element_type}[N]) xs")
        dtype = ir.from_proto(graph).graph.inputs[0].dtype.numpy()
        for feed in make_feeds(graph):
            for item in (feed.values["x"], *feed.values["xs"]):
                assert item.dtype == (object if element_type == "string" else dtype)
        check_feeds(graph, feed.values)

    def test_negative_seed(self):
        with pytest.raises(RewriteError, match="the seed is -1; give 0 or a positive number"):
            make_feeds(model("float[N] x"), seed=-1)

    def test_declared_numbers_are_kept(self):
        feeds = make_feeds(model("seq(float[2,3]) xs, float[4,N] x"))
        assert {shape for feed in feeds for shape in shapes(feed, "xs")} == {(2, 3)}
        assert {shape[0] for feed in feeds for shape in shapes(feed, "x")} == {4}
        assert not any("ragged" in feed.description for feed in feeds)

    def test_symbols_of_tensors_are_one_size(self):
        for feed in make_feeds(model("float[N,D] x, float[D,N] y")):
            (shape,), (other,) = shapes(feed, "x"), shapes(feed, "y")
            assert shape == other[::-1]

    def test_symbols_of_sequences_prove_nothing(self):
        feed = make_feeds(model("seq(float[N]) xs, seq(float[N]) ys"))[0]
        assert shapes(feed, "xs") != shapes(feed, "ys")

    def test_sequences_share_a_length_but_in_one_kind(self):
        feeds = make_feeds(model("seq(float[N]) xs, seq(float[M]) ys, float[K] z"))
        surplus = [len(f.values["ys"]) - len(f.values["xs"]) for f in feeds]
        assert surplus == [0, 0, 0, 0, 0, 0, 0, 1]
        assert feeds[-1].description == "length 2, further sequences longer"

    def test_tensors_alone_get_the_lengths(self):
        feeds = make_feeds(model("float[N,3] x"))
        assert [feed.values["x"].shape[0] for feed in feeds[:4]] == [5, 2, 1, 0]
        assert feeds[0].description == "size 5"

    def test_the_first_open_axis_gets_the_lengths_where_no_first_axis_is_open(self):
        made = make_feeds(model("float[1,T] x, float[1,T,2] y"), 3)
        assert [shapes(feed, "x") for feed in made] == [[(1, 5)], [(1, 2)], [(1, 1)]]
        assert [shapes(feed, "y") for feed in made] == [[(1, 5, 2)], [(1, 2, 2)], [(1, 1, 2)]]

    @pytest.mark.parametrize("samples", [1, 5])
    @pytest.mark.parametrize("least", [256, 8192])
    @pytest.mark.parametrize(
        ("inputs", "counting"),
        [
            ("float[B,T] x, int64[B] m", {"x": 0, "m": 0}),
            ("int64[B] m, float[B,T] x", {"m": 0, "x": 0}),
            ("float[?,?] x, float[2,?,8] state, int64[?] m", {"x": 0, "state": 1, "m": 0}),
            ("float[T] x", {}),
            ("float[1,T] x", {}),
        ],
    )
    def test_sound_is_long_and_its_samples_are_few(self, inputs, counting, least, samples):
        maker = FeedMaker(model(inputs))
        kind = maker.kinds(1)[0]
        assert any(
            shapes(feed, "x")[0][-1] >= least
            and all(shapes(feed, name)[0][axis] == samples for name, axis in counting.items())
            for attempt in maker.attempts(kind, None)
            for feed in [maker.draw(kind, attempt)]
        )

    def test_the_size_of_a_feed_is_read_from_it(self):
        for inputs, size in (
            ("float[B,T] x", 5),
            ("int64[2,3] m, float[1,T] x", 5),
            ("float[1,2] x", 0),
            ("float[N] x, seq(float[H]) xs", 5),
        ):
            maker = FeedMaker(model(inputs))
            assert maker.size_of(maker.draw(maker.sized(5))) == size

    def test_fixed_shapes_differ_in_values(self):
        one, other = make_feeds(model("float[2,3] x"), cases=2)
        assert one.description == "fixed shapes"
        assert not np.array_equal(one.values["x"], other.values["x"])

    def test_unknown_ranks_are_searched(self):
        maker = FeedMaker(model("float[] x"))
        (kind,) = maker.kinds(1)
        ranks = {maker.draw(kind, i).values["x"].ndim for i in maker.attempts(kind, None)}
        assert ranks == {0, 1, 2, 3, 4}

    def test_mixed_ranks_where_the_rank_is_unknown(self):
        feed = make_feeds(model("seq(float[]) xs"))[-1]
        assert feed.description == "length 3 of mixed ranks"
        assert len({len(shape) for shape in shapes(feed, "xs")}) == 2

    def test_a_try_that_worked_comes_early(self):
        maker = FeedMaker(model("float[] x"))
        kind = maker.kinds(2)[1]
        assert 43 in maker.attempts(kind, worked=43)[:7]

    def test_optionals_are_given_and_left_out(self):
        feeds = make_feeds(model("optional(float[N]) x"))
        absent = [feed.values["x"] is None for feed in feeds]
        assert any(absent)
        assert not all(absent)

    def test_inputs_with_a_default_are_left_to_it(self):
        graph = model("float[N] x, float[1] w")
        graph.graph.initializer.append(onnx.numpy_helper.from_array(np.float32([1]), "w"))
        assert list(make_feeds(graph)[0].values) == ["x"]

    def test_both_signs_and_one_sign(self):
        feeds = make_feeds(model("float[50] x, int64[50] i"), cases=2)
        for name in ("x", "i"):
            assert (feeds[0].values[name] < 0).any()
            assert (feeds[1].values[name] >= 0).all()

    def test_types_without_feeds_are_refused(self):
        with pytest.raises(RewriteError, match=r"input 'xs' is of type .*declare such a type"):
            make_feeds(model("seq(seq(float[N])) xs"))


@pytest.mark.parametrize(("node", "has_empty"), [("StringNormalizer", False), ("Identity", True)])
def test_no_string_is_empty_where_the_evaluator_drops_it(node, has_empty):
    graph = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> '
        "g (seq(string[N]) xs) => (seq(string[M]) ys) { ys = SequenceMap (xs) "
        f"<body = b (string[N] x) => (string[M] y) {{ y = {node} (x) }}> }}"
    )
    words = {
        word
        for feed in make_feeds(graph, cases=16)
        for item in feed.values["xs"]
        for word in item.ravel()
    }
    assert ("" in words) is has_empty


class TestMadeUnderPromises:
    def test_uniform(self):
        feeds = make_feeds(model("seq(float[N]) xs"), promises=Promises(frozenset({"xs"})))
        assert all(len(set(shapes(feed, "xs"))) <= 1 for feed in feeds)

    def test_uniform_value_inside_makes_every_sequence_uniform(self):
        feeds = make_feeds(model("seq(float[N]) xs"), promises=Promises(frozenset({"inner"})))
        assert all(len(set(shapes(feed, "xs"))) <= 1 for feed in feeds)

    def test_input_shapes(self):
        promises = Promises(input_shapes={"xs": (None, 7), "x": (3,)})
        feeds = make_feeds(model("seq(float[]) xs, float[N] x"), promises=promises)
        assert {shape[1] for feed in feeds for shape in shapes(feed, "xs")} == {7}
        assert {shape for feed in feeds for shape in shapes(feed, "x")} == {(3,)}
        assert any(len(set(shapes(feed, "xs"))) > 1 for feed in feeds)

    def test_an_open_promise_leaves_the_declared_number_of_a_tensor(self):
        promises = Promises(input_shapes={"x": (None, None)})
        feeds = make_feeds(model("float[N,4] x"), promises=promises)
        assert {shape[1] for feed in feeds for shape in shapes(feed, "x")} == {4}

    def test_an_open_promise_of_elements_wins_over_the_declared_number(self):
        promises = Promises(input_shapes={"xs": (None, 4)})
        maker = FeedMaker(model("seq(float[3,4]) xs"), promises=promises)
        (kind,) = maker.kinds(1)
        drawn = [maker.draw(kind, attempt) for attempt in maker.attempts(kind, None)]
        seen = [{shape[0] for shape in shapes(feed, "xs")} for feed in drawn]
        assert len(seen[0]) > 1
        assert seen[-1] == {3}

    def test_trusted_numbers_stay_beside_an_open_promise(self):
        promises = Promises(input_shapes={"xs": (None, 4)}, trust_types=True)
        feeds = make_feeds(model("seq(float[3,4]) xs"), promises=promises)
        assert {shape[0] for feed in feeds for shape in shapes(feed, "xs")} == {3}

    def test_promises_in_the_model(self):
        graph = model("seq(float[N]) xs")
        carrier = ir.from_proto(graph)
        Promises(frozenset({"xs"})).write(carrier)
        feeds = make_feeds(carrier)
        assert all(len(set(shapes(feed, "xs"))) <= 1 for feed in feeds)

    @pytest.mark.parametrize(
        "promises",
        [
            pytest.param(Promises(frozenset({"xs"})), id="uniform"),
            pytest.param(Promises(input_shapes={"xs": (None, 4), "x": (6,)}), id="input-shapes"),
            pytest.param(Promises(input_shapes={"xs": (2, 4)}), id="all-numbers"),
            pytest.param(Promises(trust_types=True), id="trust-types"),
            pytest.param(Promises(frozenset({"xs"}), {"x": (1,)}, True), id="all-of-them"),
        ],
    )
    def test_whatever_is_tried_is_as_given_feeds_have_to_be(self, promises):
        graph = model("seq(float[N,4]) xs, float[M] x")
        maker = FeedMaker(graph, promises=promises)
        for kind in maker.kinds(8):
            for attempt in maker.attempts(kind, None):
                check_feeds(graph, maker.draw(kind, attempt).values, promises)


class TestIndices:
    @pytest.mark.parametrize(
        ("inputs", "body", "expected"),
        [
            pytest.param("float[N] x, int64[K] i", "n = Gather(x, i)", {"i": None}, id="direct"),
            pytest.param("float[9,2] x, int64[K] i", "n = Gather(x, i)", {"i": 9}, id="extent"),
            pytest.param(
                "float[9,2] x, int64[K] i", "n = Gather <axis = 1> (x, i)", {"i": 2}, id="axis"
            ),
            pytest.param(
                "float[9,2] x, float[K] i",
                "a = Cast <to = 7> (i) m = Constant <value_ints = [0]> () b = Unsqueeze(a, m) "
                "n = Gather(x, b)",
                {"i": 9},
                id="through-cast-and-unsqueeze",
            ),
            pytest.param("int64[K] i, int64[K] d", "n = Add(i, d)", {}, id="no-index"),
            pytest.param(
                "seq(float[N]) xs, int64 i", "n = SequenceAt(xs, i)", {"i": None}, id="position"
            ),
            pytest.param(
                "seq(int64[K]) ids, float[9,2] w",
                "n = SequenceMap <body = b (int64[K] i) => (float[K,2] r) { r = Gather(w, i) }>"
                "(ids)",
                {"ids": 9},
                id="captured-table-in-a-body",
            ),
            pytest.param(
                "int64[K] i, float[9,2] w, bool c",
                "j = If(c) <then_branch = t () => (int64[K] a) { a = Identity(i) },"
                " else_branch = e () => (int64[K] b) { b = Neg(i) }> n = Gather(w, j)",
                {"i": 9},
                id="out-of-a-branch",
            ),
            pytest.param(
                "int64[K] i, float[9,2] w, int64 m, bool c",
                "j, s = Loop <body = b (int64 t, bool u, int64[K] a) =>"
                " (bool v, int64[K] z, int64[K] y)"
                " { v = Identity(u) z = Identity(a) y = Identity(a) }> (m, c, i) n = Gather(w, j)",
                {"i": 9},
                id="carried-by-a-loop",
            ),
        ],
    )
    def test_found(self, inputs, body, expected):
        assert index_bounds(ir.from_proto(model(inputs, body, "float[] n"))) == expected

    def test_found_through_functions(self):
        graph = onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 21, "l" : 1]> g (int64[K] i, float[9,2] w) =>'
            "(float[] n) { j = l.same(i) n = l.look(w, j) }"
            '<domain: "l", opset_import: ["" : 21]> same (x) => (y) { y = Identity(x) }'
            '<domain: "l", opset_import: ["" : 21]> look (t, k) => (r) { r = Gather(t, k) }'
        )
        assert index_bounds(ir.from_proto(graph)) == {"i": None}

    def test_drawn_in_range(self):
        graph = model(
            "float[3,2] x, float[K] i, seq(float[N]) xs, int64 at",
            "j = Cast <to = 7> (i) n = Gather(x, j) m = SequenceAt(xs, at)",
            "float[] n",
        )
        largest = 0
        for feed in make_feeds(graph):
            indices = feed.values["i"]
            assert ((indices >= 0) & (indices < 3)).all()
            assert (indices == indices.round()).all()
            assert 0 <= feed.values["at"] < max(1, len(feed.values["xs"]))
            largest = max(largest, *indices.tolist(), 0)
        assert largest == 2


FILED_GRAPH = model(
    "seq(float[N]) xs, string[K] words, bfloat16[2] h, optional(float[1]) o, int4[2] q"
)
FILED = {
    "xs": [np.float32([1, 2]), np.float32([3])],
    "words": np.array(["a", "naïve"], object),
    "h": np.array([1, 2], ml_dtypes.bfloat16),
    "o": None,
    "q": np.array([-3, 7], ml_dtypes.int4),
}


class TestFiles:
    def test_there_and_back(self, tmp_path):
        write_feeds(tmp_path / "feeds.npz", FILED)
        again = read_feeds(tmp_path / "feeds.npz", FILED_GRAPH)
        assert list(again) == list(FILED)
        assert again["o"] is None
        for name in ("words", "h", "q"):
            assert again[name].dtype == FILED[name].dtype
            assert (again[name] == FILED[name]).all()
        assert [item.tolist() for item in again["xs"]] == [[1, 2], [3]]

    def test_empty_sequence(self, tmp_path):
        write_feeds(tmp_path / "feeds.npz", {"xs": []})
        assert read_feeds(tmp_path / "feeds.npz", model("seq(float[N]) xs")) == {"xs": []}

    def test_length_may_be_left_out(self):
        arrays = {"in__xs__0": np.zeros(1), "in__xs__1": np.zeros(2)}
        assert len(read_feeds(arrays, model("seq(double[N]) xs"))["xs"]) == 2

    def test_names_that_look_like_elements(self):
        arrays = {"in__x__0": np.zeros(1), "in__x__len": np.zeros(2)}
        assert list(read_feeds(arrays, model("double[1] x__0, double[2] x__len"))) == [
            "x__0",
            "x__len",
        ]

    def test_names_alone(self):
        arrays = {"xs__0": np.zeros(2), "xs__1": np.ones(1), "x": np.zeros(1)}
        feeds = read_feeds(arrays, model("seq(double[N]) xs, double[1] x"))
        assert [item.shape for item in feeds["xs"]] == [(2,), (1,)]
        assert feeds["x"].tolist() == [0]

    def test_expected_outputs(self):
        graph = model(
            "float[N] x",
            "a = Identity(x) s = SequenceConstruct(x, a)",
            "float[N] a, seq(float[N]) s",
        )
        arrays = {
            "out__0": np.float32([1]),
            "out__1__0": np.float32([1]),
            "out__1__len": np.int64(1),
        }
        expected = read_expected(arrays, graph)
        assert expected["a"].tolist() == [1]
        assert [item.tolist() for item in expected["s"]] == [[1]]
        assert read_expected({"in__x": np.zeros(1)}, graph) is None

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            pytest.param(
                {},
                "has no input 'xs': add an array in__xs__len or in__xs__0; it holds nothing",
                id="missing-sequence",
            ),
            pytest.param(
                {"xs__len": np.int64(0), "y": np.zeros(1)},
                "has no input 'x': add an array x; it holds xs__len, y",
                id="missing-of-names-alone",
            ),
            pytest.param(
                {"x": np.zeros(1)},
                "has no input 'xs': add an array xs__len or xs__0; it holds x",
                id="missing-sequence-of-names-alone",
            ),
            pytest.param(
                {"xs__len": np.int64(0), "x": np.zeros(1), "z": np.zeros(1)},
                "has arrays that belong to no input of the model: z; rename or remove them",
                id="surplus-of-names-alone",
            ),
            pytest.param(
                {"in__xs__len": np.int64(0)},
                "has no input 'x': add an array in__x; it holds in__xs__len",
                id="missing",
            ),
            pytest.param(
                {"in__xs__len": np.int64(0), "in__x": np.zeros(1), "in__z": np.zeros(1)},
                "has arrays that belong to no input of the model: in__z; rename or remove them",
                id="surplus",
            ),
            pytest.param(
                {"in__xs__len": np.int64(2), "in__xs__0": np.zeros(1)},
                "says that in__xs has 2 elements and lacks in__xs__1; add it or correct "
                "in__xs__len",
                id="short",
            ),
        ],
    )
    def test_refused(self, arrays, message):
        with pytest.raises(RewriteError) as caught:
            read_feeds(arrays, model("seq(float[N]) xs, float[1] x"))
        assert str(caught.value) == f"the npz data {message}"

    def test_missing_output(self):
        graph = model("float[N] x", "a = Identity(x) b = Identity(x)", "float[N] a, float[N] b")
        with pytest.raises(RewriteError, match=r"has no output 1 \('b'\): add out__1"):
            read_expected({"out__0": np.zeros(1)}, graph)

    def test_no_such_file(self, tmp_path):
        with pytest.raises(RewriteError, match=r"none\.npz does not exist; give the npz file"):
            read_feeds(tmp_path / "none.npz", model("float[1] x"))

    def test_not_an_npz_file(self, tmp_path):
        (tmp_path / "text.npz").write_text("no")
        with pytest.raises(RewriteError, match=r"text\.npz is not an npz file: write one"):
            read_feeds(tmp_path / "text.npz", model("float[1] x"))

    def test_objects_are_no_arrays(self, tmp_path):
        np.savez(tmp_path / "o.npz", in__x=np.array([{}], dtype=object))
        with pytest.raises(RewriteError, match=r"o\.npz holds Python objects: give arrays of"):
            read_feeds(tmp_path / "o.npz", model("float[1] x"))

    def test_one_array_is_no_feed(self, tmp_path):
        np.save(tmp_path / "x.npy", np.zeros(1))
        with pytest.raises(RewriteError, match=r"x\.npy holds one array; inputs are an npz file"):
            read_feeds(tmp_path / "x.npy", model("float[1] x"))


GRAPH = model("seq(float[N,3]) xs, float[M] x")
GOOD = {
    "xs": [np.zeros((2, 3), np.float32), np.zeros((4, 3), np.float32)],
    "x": np.float32([1]),
}


def test_feeds_are_told_apart_by_type_shape_and_numbers():
    values = [np.zeros((2, 3)), np.zeros((3, 2)), np.zeros(6), np.ones(6), np.ones(6, np.int64)]
    values += [[np.ones(6)], [np.ones(6), np.ones(0)], [np.ones(6), np.ones((0, 2))], None]
    assert len({Feed("", {"x": value}).fingerprint for value in values}) == len(values)
    again = Feed("other words", {"x": np.ones(6)})
    assert again.fingerprint == Feed("", {"x": values[3]}).fingerprint


class TestChecked:
    def test_good(self):
        check_feeds(GRAPH, GOOD)
        check_feeds(model("optional(float[1]) o"), {"o": None})
        check_feeds(model("string[1] s"), {"s": np.array(["a"])})

    def test_elements_may_break_what_is_only_declared(self):
        check_feeds(GRAPH, GOOD | {"xs": [np.zeros((2, 9), np.float32)]})

    @pytest.mark.parametrize(
        ("text", "given"),
        [(None, "NoneType"), (float("nan"), "float"), (1, "int"), (b"a", "bytes")],
    )
    def test_what_is_no_text(self, text, given):
        with pytest.raises(RewriteError, match=f"input 's' is of type {given}; give one string"):
            check_feeds(model("string[2] s"), {"s": np.array(["a", text], object)})

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            pytest.param(
                {"z": 1}, "the model has no input 'z'; its inputs are: 'xs', 'x'", id="name"
            ),
            pytest.param(
                {"xs": np.zeros((2, 3), np.float32)},
                "input 'xs' is no list; give a list of float32 arrays",
                id="no-list",
            ),
            pytest.param(
                {"x": [np.float32([1])]},
                "input 'x' is a list; give one float32 array",
                id="a-list",
            ),
            pytest.param(
                {"x": np.zeros((2, 1), np.float32)},
                "input 'x' has shape [2,1] and is declared as [M]: give such a shape, or correct the "
                "type where the model is made",
                id="shape",
            ),
            pytest.param({"x": None}, "input 'x' is None; give one float32 array", id="none"),
            pytest.param(
                {"x": np.zeros(1)},
                "input 'x' is of type float64; give one float32 array",
                id="element-type",
            ),
            pytest.param(
                {"xs": [np.zeros((1, 3), np.float32), np.zeros((1, 3), np.int32)]},
                "input 'xs', element 1, is of type int32; give a list of float32 arrays",
                id="element-type-in-a-sequence",
            ),
        ],
    )
    def test_refused(self, change, message):
        with pytest.raises(RewriteError) as caught:
            check_feeds(GRAPH, GOOD | change)
        assert str(caught.value) == message

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("x", "input 'x' is missing; give one float32 array"),
            ("xs", "input 'xs' is missing; give a list of float32 arrays"),
        ],
    )
    def test_missing(self, name, message):
        with pytest.raises(RewriteError) as caught:
            check_feeds(GRAPH, {k: v for k, v in GOOD.items() if k != name})
        assert str(caught.value) == message

    @pytest.mark.parametrize(
        ("promises", "xs", "message"),
        [
            pytest.param(
                Promises(frozenset({"xs"})),
                [(2, 3), (2, 3), (4, 3)],
                "input 'xs' breaks the promise uniform: element 2 has shape (4, 3) and element 0 "
                "has (2, 3); give elements of one shape, or rewrite the model without the promise",
                id="uniform",
            ),
            pytest.param(
                Promises(input_shapes={"xs": (None, 4)}),
                [(2, 4), (2, 3)],
                "input 'xs', element 1, has shape (2, 3) and breaks the promise input_shapes, "
                "which says [?,4]: give that shape, or rewrite the model without the promise",
                id="input-shapes",
            ),
            pytest.param(
                Promises(trust_types=True),
                [(2, 5)],
                "input 'xs', element 0, has shape (2, 5) and breaks the promise trust_types, "
                "since its declared shape is [N,3]: give that shape, or rewrite the model without "
                "the promise",
                id="trust-types",
            ),
        ],
    )
    def test_broken_promises(self, promises, xs, message):
        carrier = ir.from_proto(GRAPH)
        promises.write(carrier)
        feeds = GOOD | {"xs": [np.zeros(shape, np.float32) for shape in xs]}
        with pytest.raises(RewriteError) as caught:
            check_feeds(carrier, feeds)
        assert str(caught.value) == message

    def test_kept_promises(self):
        carrier = ir.from_proto(GRAPH)
        Promises(frozenset({"xs"}), {"x": (None,)}, trust_types=True).write(carrier)
        check_feeds(carrier, GOOD | {"xs": [np.zeros((2, 3), np.float32)] * 2})


SUMS = onnx.parser.parse_model(
    """<ir_version: 8, opset_import: ["" : 18]>
    g (seq(float[N]) xs, float[N] b) => (seq(float[N]) ys)
    { ys = SequenceMap (xs, b) <body = m (float[N] p, float[N] q) => (float[N] r)
      { r = Add (p, q) }> }"""
)
ONES = np.ones(2, np.float32)


@pytest.mark.parametrize(
    "inputs", [[ONES], (ONES,), ONES, {0: ONES}, 5], ids=["list", "tuple", "array", "keys", "int"]
)
def test_inputs_without_names_are_refused(inputs):
    for call in (rewriter.run, lambda model, given: rewriter.validate(model, model, inputs=given)):
        with pytest.raises(RewriteError, match="give a dict of input names, each with an array"):
            call(SUMS, inputs)


def test_a_tuple_is_a_sequence_too():
    for xs in ([ONES, ONES], (ONES, ONES), []):
        given = {"xs": xs, "b": ONES}
        assert len(rewriter.run(SUMS, given, backend="reference")["ys"]) == len(xs)
        check = rewriter.validate(SUMS, SUMS, inputs=[given])
        assert [case.verdict for case in check.cases] == ["equal"]
        assert check.ok == bool(xs)  # no body runs for no elements
    with pytest.raises(RewriteError, match="input 'b' is a list; give one float32 array"):
        rewriter.run(SUMS, {"xs": [ONES], "b": (1.0, 1.0)})


def test_more_dimensions_than_arrays_have_are_refused():
    dims = ", ".join("1" for _ in range(100))
    text = f"g (seq(float[{dims}]) xs) => (seq(float[]) ys) {{ ys = Identity (xs) }}"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {text}')
    with pytest.raises(RewriteError, match="'xs' has 100 dimensions, more than"):
        rewriter.validate(model, model)
    with pytest.raises(RewriteError, match="'xs' has 100 dimensions, more than"):
        rewriter.run(model, {"xs": [ONES]})


def test_elements_of_no_type_are_refused():
    model = onnx.ModelProto()
    model.CopyFrom(SUMS)
    model.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = 0
    with pytest.raises(RewriteError, match=r"input 'xs' is of type .* for which no values"):
        make_feeds(ir.from_proto(model), 1)
