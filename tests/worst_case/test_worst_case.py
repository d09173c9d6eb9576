"""The public function: what it takes, returns and refuses, and how much memory it needs."""

import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import drfl
from drfl import Box, Polyhedron, worst_case_loss
from drfl.losses import LOSSES, Huber, make_loss
from drfl.norms import NORMS
from drfl.rows import Rows
from drfl.uncertainty import Ball
from drfl.worst_case import make_oracle, whole_space
from drfl.worst_case.oracle import Distribution, WorstCase
from kit import problems

N, n = 40, 3
W, B = np.array([0.8, -0.5, 0.3]), 0.2


def data(task):
    rng = np.random.default_rng(0)
    X, y = problems.rows(task, rng, N, n)
    return np.round(X, 2) * (rng.random(X.shape) < 0.7), y


X, LABELS = data("classification")
TARGETS = data("regression")[1]
GAME = {"X": X, "y": LABELS, "coef": W, "intercept": B, "loss": "hinge", "radius": 0.1}


def answer(**changes):
    return worst_case_loss(**(GAME | changes))


def same(one, two, near=1e-12):
    assert one.value == pytest.approx(two.value, rel=near)
    assert one.multiplier == pytest.approx(two.multiplier, rel=near)
    np.testing.assert_allclose(one.gradient, two.gradient, rtol=near, atol=near)
    assert one.intercept_gradient == pytest.approx(two.intercept_gradient, rel=near, abs=near)


# ---------------------------------------------------------------------- what it returns
def test_by_hand():
    # Margins 1.5, -.5, 1; one unit of radius costs the dual norm 2.
    worst = worst_case_loss(
        [[1.0, 0.0], [0.0, 0.5], [1.0, 0.5]], [1, -1, 1], [2.0, 1.0], -0.5 + 0.5,
        loss="hinge", radius=0.25,
    )  # fmt: skip
    assert worst.value == pytest.approx((0.0 + 1.5 + 0.0) / 3 + 0.25 * 2.0)
    np.testing.assert_allclose(worst.gradient, [0.25, 0.5 / 3])
    assert worst.intercept_gradient == pytest.approx(1 / 3)
    assert worst.multiplier == 2.0


def test_the_answer():
    worst = answer()
    assert isinstance(worst, WorstCase)
    assert worst.gradient.shape == (n,)
    assert {type(worst.value), type(worst.intercept_gradient), type(worst.multiplier)} == {float}
    assert "distribution" not in repr(worst)
    found = worst.distribution()
    assert isinstance(found, Distribution)
    k = len(found.mass)
    assert (found.source.shape, found.x.shape, found.y.shape) == ((k,), (k, n), (k,))
    assert found.expected_loss == pytest.approx(worst.value, rel=1e-6)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", LOSSES)
def test_it_is_a_thin_face_of_the_oracle(name, norm):
    loss = make_loss(name)
    y = LABELS if loss.task == "classification" else TARGETS
    weights = np.arange(1.0, N + 1)
    ball = Ball(0.3, norm, 0.5)
    oracle = make_oracle(Rows(X, y, weights=weights), loss, ball)
    same(
        answer(y=y, loss=name, radius=0.3, norm=norm, label_cost=0.5, sample_weight=weights),
        oracle.evaluate(W, B),
    )


def test_parameters_of_the_loss_follow():
    named = answer(y=TARGETS, loss="huber", epsilon=0.3)
    same(named, answer(y=TARGETS, loss=Huber(0.3)))
    assert named.value != answer(y=TARGETS, loss="huber").value


def test_the_intercept_is_not_transported():
    """It is a feature that is 1 and stays 1, and no part of the norm."""
    ones = np.column_stack([X, np.ones(N)])
    fixed = Box([-5.0] * n + [1.0], [5.0] * n + [1.0])
    huge = 3.0  # were it a feature, it would set the norm
    for label_cost in (0.7, math.inf):
        inside = answer(intercept=huge, support=Box(-5, 5), label_cost=label_cost)
        outside = worst_case_loss(
            ones, LABELS, np.append(W, huge), loss="hinge", radius=0.1, support=fixed,
            label_cost=label_cost,
        )  # fmt: skip
        assert inside.value == pytest.approx(outside.value, rel=1e-9)
    assert answer(intercept=huge).multiplier == 0.8


# ---------------------------------------------------------------------- what it takes
def containers(folder):
    file = folder / "X"
    X.tofile(file)
    return {
        "list": X.tolist(),
        "Fortran": np.asfortranarray(X),
        "memory map": np.memmap(file, dtype=np.float64, mode="r", shape=(N, n)),
        "DataFrame": pd.DataFrame(X, columns=["a", "b", "c"]),
        "CSR": sparse.csr_array(X),
        "COO matrix": sparse.coo_matrix(X),
        "float32": X.astype(np.float32),
        "CSR float32": sparse.csr_array(X).astype(np.float32),
    }


@pytest.mark.parametrize("support", [None, Box(-4, 4)], ids=["whole space", "box"])
@pytest.mark.parametrize("label_cost", [0.3, math.inf])
def test_every_container_gives_the_same(tmp_path, label_cost, support):
    settings = {"label_cost": label_cost, "support": support, "radius": 0.2}
    settings["sample_weight"] = np.arange(N) % 4
    expected = answer(**settings)
    for name, container in containers(tmp_path).items():
        near = 1e-5 if "float32" in name else 1e-12
        same(answer(X=container, **settings), expected, near)


def test_labels_0_and_1_stand_for_minus_1_and_1():
    expected = answer(label_cost=0.5)
    zero_one = (LABELS > 0).astype(int)
    for y in (
        zero_one,
        zero_one.astype(bool),
        zero_one.tolist(),
        zero_one.astype(np.int8),
        pd.Series(zero_one),
        pd.Series(zero_one, dtype="Int64"),
        pd.Series(zero_one).astype("category"),
        LABELS.astype(int).tolist(),
        pd.Series(LABELS),
        LABELS.astype(object),
    ):
        same(answer(y=y, label_cost=0.5), expected)
    same(answer(y=np.zeros(N)), answer(y=-np.ones(N)))  # one class is enough
    # Targets are not labels: 0 and 1 stay what they are.
    assert answer(y=zero_one, loss="huber", radius=0.0).value == pytest.approx(
        make_loss("huber").value(X @ W + B - zero_one).mean()
    )


def test_weights_count_in_proportion():
    weights = np.arange(N) % 3
    expected = answer(sample_weight=weights, label_cost=0.5)
    same(answer(sample_weight=7.5 * weights, label_cost=0.5), expected)
    same(answer(sample_weight=weights.tolist(), label_cost=0.5), expected)
    same(answer(sample_weight=np.ones(N)), answer())
    kept = weights > 0
    some = {"X": X[kept], "y": LABELS[kept], "sample_weight": weights[kept]}
    same(answer(**some, label_cost=0.5), expected)


def test_nothing_given_is_changed():
    given = [X.copy(), LABELS.copy(), W.copy(), np.ones(N)]
    for array in given:
        array.setflags(write=False)
    for support in (None, Box(-4, 4)):
        worst = worst_case_loss(
            *given[:3], loss="hinge", radius=0.2, label_cost=0.5, support=support,
            sample_weight=given[3],
        )  # fmt: skip
        worst.distribution()
        worst.gradient[:] = 7.0  # the caller's own
    assert worst.distribution().x.flags.writeable
    np.testing.assert_array_equal(given[0], X)


# ---------------------------------------------------------------------- rows outside
TIGHT = Box(-1.0, [0.5, 1.0, 2.0])


def test_rows_outside_are_an_error():
    outside = np.flatnonzero(((TIGHT.low > X) | (np.array(TIGHT.high) < X)).any(axis=1))
    distance = np.maximum(TIGHT.low - X, X - np.array(TIGHT.high)).max()
    with pytest.raises(ValueError, match="outside the box") as error:
        answer(support=TIGHT)
    first = ", ".join(map(str, outside[:3]))
    assert str(error.value) == (
        f"{len(outside)} rows lie outside the box (first: {first}; the largest distance is "
        f'{distance:.3g}): correct the rows or the box, or choose on_outside="widen" or "clip"'
    )


@pytest.mark.parametrize("name", ["hinge", "logistic"])
def test_widen_and_clip_do_what_they_say(name):
    settings = {"loss": name, "radius": 0.3, "label_cost": 2.0}
    wide = Box(np.minimum(-1.0, X.min(axis=0)), np.maximum([0.5, 1.0, 2.0], X.max(axis=0)))
    widened = answer(support=TIGHT, on_outside="widen", **settings)
    same(widened, answer(support=wide, **settings))
    clipped = answer(support=TIGHT, on_outside="clip", **settings)
    same(clipped, answer(X=np.clip(X, TIGHT.low, TIGHT.high), support=TIGHT, **settings))
    assert abs(widened.value - clipped.value) > 1e-3
    found = clipped.distribution()
    assert not TIGHT.distance(found.x, found.y, 1e-9).any()
    # Without rows outside they change nothing.
    for on_outside in ("widen", "clip"):
        same(answer(support=wide, on_outside=on_outside, **settings), widened)
        same(answer(on_outside=on_outside, **settings), answer(**settings))


def test_targets_outside():
    settings = {"loss": "pinball", "radius": 0.3, "label_cost": 0.2}
    box = Box(-4, 4, y_low=-0.5, y_high=0.5)
    with pytest.raises(ValueError, match="rows lie outside the box"):
        answer(y=TARGETS, support=box, **settings)
    clipped = answer(y=TARGETS, support=box, on_outside="clip", **settings)
    same(clipped, answer(y=np.clip(TARGETS, -0.5, 0.5), support=box, **settings))
    wide = Box(-4, 4, min(-0.5, TARGETS.min()), max(0.5, TARGETS.max()))
    widened = answer(y=TARGETS, support=box, on_outside="widen", **settings)
    same(widened, answer(y=TARGETS, support=wide, **settings))


def test_polyhedra_are_widened_but_rows_are_not_clipped_to_them():
    half = Polyhedron([[1.0, 1.0, 0.0], *np.eye(n), *-np.eye(n)], [0.5] + 6 * [4.0])
    with pytest.raises(ValueError, match="rows lie outside the polyhedron"):
        answer(support=half)
    most = max(0.5, (X[:, 0] + X[:, 1]).max())
    wide = Polyhedron(half.C, [most] + 6 * [4.0])
    same(answer(support=half, on_outside="widen"), answer(support=wide))
    with pytest.raises(ValueError, match="rows cannot be clipped to a polyhedron: choose"):
        answer(support=half, on_outside="clip")


# ---------------------------------------------------------------------- what it refuses
POLYHEDRON = Polyhedron([*np.eye(n), *-np.eye(n)], 6 * [9.0])


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"loss": "hing"}, ValueError, "unknown loss 'hing': did you mean 'hinge'"),
        ({"loss": None}, TypeError, "loss must be a name, one of 'hinge'"),
        ({"epsilon": 1.0}, TypeError, "loss 'hinge' takes no parameter, got epsilon"),
        ({"constraints": []}, TypeError, "loss 'hinge' takes no parameter, got constraints"),
        ({"loss": Huber(), "epsilon": 1.0}, TypeError, "a Loss object carries its own parameters"),
        ({"loss": "huber", "epsilon": -1}, ValueError, "epsilon of huber must be a finite"),
        ({"norm": "l3"}, ValueError, "unknown norm 'l3': did you mean"),
        ({"norm": 3}, TypeError, "norm must be a name, one of 'l1', 'l2', 'linf'; got int"),
        ({"radius": -0.1}, ValueError, "radius must be a finite number >= 0, got -0.1"),
        ({"radius": math.inf}, ValueError, "radius must be a finite number >= 0, got inf"),
        ({"radius": "small"}, TypeError, "radius must be a number, got 'small'"),
        ({"label_cost": 0.0}, ValueError, "label_cost must be a number > 0 or inf"),
        ({"label_cost": math.nan}, ValueError, "label_cost must be a number > 0 or inf"),
        ({"label_cost": "inf"}, TypeError, "label_cost must be a number, got"),
        ({"support": "box"}, TypeError, "support must be a Box, a Polyhedron or None"),
        ({"support": Box([0, 0], 1)}, ValueError, "the box has 2 columns but the data have 3"),
        ({"support": Box(-9, 9, y_low=0)}, ValueError, "y_low and y_high bound the target of a"),
        ({"support": Polyhedron([[1.0]], [9.0])}, ValueError, "C has 1 columns but classification"),
        ({"on_outside": "clipp"}, ValueError, "unknown on_outside 'clipp': did you mean 'clip'"),
        ({"y": LABELS[:-1]}, ValueError, r"X has 40 rows but y has shape \(39,\): give one y per"),
        ({"y": np.arange(N)}, ValueError, r"needs the labels -1 and \+1, got 0, 1, 2, 3, ...:"),
        ({"y": 2 * LABELS}, ValueError, r"needs the labels -1 and \+1, got -2, 2: code the two"),
        ({"y": ["yes"] * N}, ValueError, "y has entries that are not numbers"),
        ({"y": np.full(N, math.nan)}, ValueError, "y has NaN or infinite values in 40 rows"),
        ({"X": np.full((N, n), math.inf)}, ValueError, "X has NaN or infinite values in 40 rows"),
        ({"X": X[:, 0]}, ValueError, "X must have two dimensions"),
        ({"X": [["a"] * n] * N}, ValueError, "X has entries that are not numbers"),
        ({"coef": W[:2]}, ValueError, r"coef has shape \(2,\) but X has 3 columns: give one per"),
        ({"coef": W[None]}, ValueError, r"coef has shape \(1, 3\) but X has 3 columns"),
        ({"coef": [1.0, math.nan, 0.0]}, ValueError, "coef must be finite"),
        ({"coef": ["a", "b", "c"]}, ValueError, "coef has entries that are not numbers"),
        ({"intercept": math.inf}, ValueError, "intercept must be a finite number, got inf"),
        ({"intercept": "0"}, TypeError, "intercept must be a number, got '0'"),
        ({"sample_weight": [1.0]}, ValueError, r"sample_weight has shape \(1,\): give one weight"),
        ({"sample_weight": -np.ones(N)}, ValueError, "sample_weight must be finite, nonnegative"),
    ],
)  # fmt: skip
def test_bad_input_is_answered_in_one_sentence(change, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        answer(**change)
    assert "\n" not in str(caught.value)


SMOOTH = [name for name in LOSSES if not make_loss(name).pieces]


@pytest.mark.parametrize("name", SMOOTH)
def test_pairs_that_do_not_exist_are_refused_before_the_data_are_read(name):
    for norm in ("l2", "linf"):
        with pytest.raises(
            ValueError, match=f"{name} on a box is solved with the l1 norm only, not"
        ):
            answer(X=object(), loss=name, norm=norm, support=Box(-9, 9))
    with pytest.raises(ValueError, match=f"{name} on a polyhedron is not solved: polyhedra take"):
        answer(X=object(), loss=name, support=POLYHEDRON)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", [name for name in LOSSES if name not in SMOOTH])
def test_every_other_pair_exists(name, norm):
    y = LABELS if make_loss(name).task == "classification" else TARGETS
    columns = n + (make_loss(name).task == "regression")
    sides = Polyhedron([*np.eye(columns), *-np.eye(columns)], 2 * columns * [9.0])
    few = {"X": X[:8], "y": y[:8], "loss": name, "norm": norm, "label_cost": 1.0}
    boxed, cut_out = answer(**few, support=Box(-9, 9)), answer(**few, support=sides)
    assert boxed.value <= answer(**few).value * (1 + 1e-7)
    bounded = Box(-9, 9, -9, 9) if columns > n else Box(-9, 9)
    assert answer(**few, support=bounded).value == pytest.approx(cut_out.value, rel=1e-6)


# ---------------------------------------------------------------------- memory
MANY, BLOCK = 40_000, 16_000  # rows, and numbers in a block


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(1)
    dense = rng.uniform(-1.0, 1.0, size=(MANY, 4))
    thin = sparse.random_array((MANY, 40), density=0.1, format="csr", rng=rng)
    made = {}
    for kind, rows in (
        ("dense", dense),
        ("Fortran", np.asfortranarray(dense)),
        ("float32", dense.astype(np.float32)),
        ("sparse", thin),
    ):
        w = rng.normal(size=rows.shape[1])
        score = rows @ w
        made[kind] = rows, w, score + 0.5 * rng.normal(size=MANY)
    return made


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(drfl.rows.operator, "BLOCK_ELEMENTS", BLOCK)
    monkeypatch.setattr(whole_space, "CHUNK", 1_000)
    monkeypatch.setattr(whole_space, "SAMPLE", 500)


def vectors(X, y, w, block=BLOCK, **settings):
    """What one call allocates at its peak, in vectors of length N beyond one block."""
    worst_case_loss(X, y, w, 0.1, **settings)  # what is imported on the way does not count
    tracemalloc.start()
    worst_case_loss(X, y, w, 0.1, **settings)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (peak - 8 * block) / (8 * MANY)


@pytest.mark.parametrize("kind", ["dense", "Fortran", "float32", "sparse"])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.sampled(2)
def test_memory_on_the_whole_space(many, small_blocks, kind, weighted):
    """Whatever flips, and although labels and weights have to be turned into numbers first."""
    rows, w, target = many[kind]
    labels = np.where(target > 0, 1, -1).astype(np.int8)
    weights = np.arange(MANY) % 7 if weighted else None
    for loss, y in (("hinge", labels), ("logistic", labels), ("huber", target)):
        for radius, label_cost in ((0.1, math.inf), (0.05, 1.0), (9.0, 1.0)):
            used = vectors(
                rows, y, w, loss=loss, radius=radius, label_cost=label_cost, sample_weight=weights
            )
            assert used < 4.0, (loss, radius, label_cost)


@pytest.mark.parametrize(
    ("kind", "loss", "radius", "label_cost"),
    [
        ("dense", "hinge", 0.3, math.inf),
        ("dense", "hinge", 3.0, 1.0),
        ("dense", "pinball", 3.0, 1.0),
        ("dense", "logistic", 0.3, math.inf),
        ("sparse", "hinge", 0.3, math.inf),
        ("sparse", "hinge", 3.0, 1.0),
    ],
)
@pytest.mark.sampled(2)
def test_memory_in_a_box(many, small_blocks, monkeypatch, kind, loss, radius, label_cost):
    rows, w, target = many[kind]
    y = target if loss == "pinball" else np.sign(target)
    block = BLOCK
    if loss == "logistic":  # searched block by block, in many passes: larger blocks save time
        block = 10 * BLOCK
        monkeypatch.setattr(drfl.rows.operator, "BLOCK_ELEMENTS", block)
    ball = {"radius": radius, "label_cost": label_cost, "support": Box(-1, 1)}
    assert vectors(rows, y, w, block, loss=loss, **ball) < 4.0


def test_memory_is_measured(many, small_blocks):
    """The check above can fail: a copy of the rows shows."""
    rows, w, target = many["dense"]
    integers = np.round(100 * rows).astype(np.int16)  # becomes float64: four columns, four vectors
    assert vectors(integers, np.sign(target), w, loss="hinge", radius=0.1) > 4.0
