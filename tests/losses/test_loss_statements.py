"""What a loss states: a wrong statement is refused, a missing one goes elsewhere, both at once."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import xlogy

import drfl
from drfl.losses import LOSSES, Hinge, Huber, Line, Logistic, Loss, SmoothHinge, check, make_loss
from drfl.losses.joint import JOINT
from drfl.selection.client_half.scores import score_of
from kit.problems import clients as make_clients

# ---------------------------------------------------------------------------- lies


@dataclass(frozen=True)
class Unnamed(Hinge):
    name = None


@dataclass(frozen=True)
class WrongSlope(Logistic):
    def value_and_slope(self, z):
        value, slope = super().value_and_slope(z)
        return value, 0.9 * slope


@dataclass(frozen=True)
class Shifted(Huber):
    """Below 0 in the middle."""

    rounded = ()

    def value_and_slope(self, z):
        value, slope = super().value_and_slope(z)
        return value - 0.1, slope


@dataclass(frozen=True)
class HalfConjugate(SmoothHinge):
    def conjugate(self, v):
        return 0.5 * super().conjugate(v)


@dataclass(frozen=True)
class DoubleConjugate(SmoothHinge):
    def conjugate(self, v):
        return 2.0 * super().conjugate(v)


@dataclass(frozen=True)
class NarrowRange(Hinge):
    slope_range = (-0.5, 0.0)


@dataclass(frozen=True)
class WideRange(Hinge):
    """Its Lipschitz constant would be 2, and every worst case too high."""

    slope_range = (-2.0, 0.0)


@dataclass(frozen=True)
class Increasing(Hinge):
    """A loss of residuals is none of margins."""

    slope_range = (-1.0, 1.0)
    pieces = (Line(-1.0, 0.0), Line(1.0, 0.0))
    kinks = (0.0,)
    flipped = None

    def value(self, z):
        return np.abs(z)

    def slope(self, z):
        return np.sign(z)

    def conjugate(self, v):
        return np.zeros_like(v)


@dataclass(frozen=True)
class Concave(Hinge):
    pieces = ()
    kinks = ()

    def value(self, z):
        return np.minimum(np.maximum(1.0 - z, 0.0), 3.0)


@dataclass(frozen=True)
class WrongPiece(Hinge):
    pieces = (Line(-1.0, 1.1), Line(0.0, 0.0))


@dataclass(frozen=True)
class WrongRound(SmoothHinge):
    rounded = (Line(0.0, 0.0), Line(-1.0, 1.5))


@dataclass(frozen=True)
class WrongSoft(Logistic):
    soft = (Line(0.0, 0.0), Line(-1.0, 0.5))


@dataclass(frozen=True)
class WrongFlip(SmoothHinge):
    flipped = Line(1.0, 1.0)


@dataclass(frozen=True)
class TwoWays(Hinge):
    rounded = (Line(0.0, 0.0), Line(-1.0, 1.0))


@dataclass(frozen=True)
class NoKink(Hinge):
    kinks = ()


@dataclass(frozen=True)
class WrongKink(Hinge):
    kinks = (0.5,)


@dataclass(frozen=True)
class NoCurvature(Logistic):
    def curvature(self, z):
        return np.zeros_like(z)


@dataclass(frozen=True)
class MoreCurved(Logistic):
    def curvature(self, z):
        return 1.0005 * super().curvature(z)


@dataclass(frozen=True)
class LongCurved(SmoothHinge):
    """Right at most points, and curved where it is a line."""

    def curvature(self, z):
        return ((z >= -0.2) & (z <= 1.0)).astype(float)


@dataclass(frozen=True)
class Scalar(Hinge):
    def value(self, z):
        return super().value(z).sum()


@dataclass(frozen=True)
class Overflow(Logistic):
    """The usual mistake: exp of something positive."""

    def conjugate(self, v):
        return -v * np.log(-v) + (1.0 + v) * np.log(1.0 + v)


LIES = {
    Unnamed: "must state its name",
    WrongSlope: "slopes end at -0.9",
    Shifted: "is negative at 0",
    HalfConjugate: "does not hold at z = .*conjugate",
    DoubleConjugate: "does not hold at z = .*conjugate",
    NarrowRange: "are not in its slope_range",
    WideRange: "not at the ends of its slope_range",
    Increasing: "does not increase",
    Concave: "slope",
    WrongPiece: "maximum of its pieces",
    WrongRound: "round corner",
    WrongSoft: "soft maximum",
    WrongFlip: "flipped",
    TwoWays: "more than one way",
    NoKink: "has kinks",
    WrongKink: "does not jump at the kink 0.5",
    NoCurvature: "derivative of slope",
    MoreCurved: "above the second derivative",
    LongCurved: "above the second derivative near z = -0.",
    Scalar: "value must return one number for each",
    Overflow: "conjugate is not a finite number at -1",
}


@pytest.mark.parametrize("lie", LIES, ids=lambda kind: kind.__name__)
def test_a_loss_that_is_not_what_it_states_is_refused_everywhere(lie, monkeypatch):
    estimator = drfl.DRFLClassifier if lie.task == "classification" else drfl.DRFLRegressor
    for use in (
        lambda: drfl.Problem(lie()),
        lambda: drfl.worst_case_loss([[1.0]], [1.0], [1.0], loss=lie(), radius=0.1),
        lambda: estimator(loss=lie()).fit([[1.0], [2.0]], [0, 1]),
    ):
        with pytest.raises(ValueError, match=LIES[lie]) as caught:
            use()
        assert "\n" not in str(caught.value)
    if lie.name is not None:  # also under a name
        monkeypatch.setitem(LOSSES, "a lie", lie)
        with pytest.raises(ValueError, match=LIES[lie]):
            make_loss("a lie")


def test_a_loss_that_can_be_changed_is_refused():
    class Changing(Hinge):
        __hash__ = None  # as a dataclass has it that is not frozen

    with pytest.raises(TypeError, match="make a loss a frozen dataclass"):
        drfl.Problem(Changing())


def test_a_loss_is_checked_once(monkeypatch):
    calls = []

    @dataclass(frozen=True)
    class Counted(Hinge):
        def conjugate(self, v):
            calls.append(len(v))
            return super().conjugate(v)

    drfl.Problem(Counted())
    first = len(calls)
    drfl.Problem(Counted())
    assert len(calls) == first > 0


@pytest.mark.parametrize("name", LOSSES)
def test_the_own_losses_are_what_they_state(name):
    check(make_loss(name))


# ---------------------------------------------------------------------------- what is not stated
@dataclass(frozen=True)
class LogCosh(Loss):
    name = "log_cosh"
    task = "regression"
    slope_range = (-1.0, 1.0)

    def value(self, z):
        return np.abs(z) + np.log1p(np.exp(-2.0 * np.abs(z))) - np.log(2.0)

    def slope(self, z):
        return np.tanh(z)

    def curvature(self, z):
        return 1.0 - np.tanh(z) ** 2

    def conjugate(self, v):
        return 0.5 * (xlogy(1.0 + v, 1.0 + v) + xlogy(1.0 - v, 1.0 - v))


@dataclass(frozen=True)
class ThreeLines(Loss):
    """A margin loss with a second kink, where L(-z) is no line for z >= 0."""

    constant: float = 0.9
    name = "three_lines"
    task = "classification"

    def __post_init__(self):
        lines = (Line(-1.0, 1.0 - self.constant), Line(-0.5, 0.5), Line(0.0, 0.0))
        object.__setattr__(self, "pieces", lines)
        kink = 2.0 * (0.5 - self.constant)
        object.__setattr__(self, "kinks", (kink, 1.0))
        if kink >= 0.0:
            object.__setattr__(self, "flipped", Line(1.0, 1.0 - self.constant))

    def _lines(self, z):
        return np.array([slope * z + constant for slope, constant in self.pieces])

    def value(self, z):
        return self._lines(z).max(axis=0)

    def slope(self, z):
        return np.array([slope for slope, _ in self.pieces])[self._lines(z).argmax(axis=0)]

    def conjugate(self, v):
        # Lines between the conjugates of the pieces.
        return -np.interp(v, *zip(*self.pieces, strict=True))


@dataclass(frozen=True)
class RoundPinball(Loss):
    """A quantile loss with a round corner: an uneven Huber."""

    name = "round_pinball"
    task = "regression"
    slope_range = (-0.2, 0.8)
    rounded = (Line(0.8, 0.0), Line(-0.2, 0.0))

    def value(self, z):
        v = self.slope(z)
        return v * z - 0.5 * v * v

    def slope(self, z):
        return np.clip(z, *self.slope_range)

    def curvature(self, z):
        return ((z > -0.2) & (z < 0.8)).astype(float)

    def conjugate(self, v):
        return 0.5 * v * v


CASES = [
    (LogCosh(), np.inf),
    (LogCosh(), 2.0),
    (RoundPinball(), 2.0),
    (ThreeLines(0.9), np.inf),
    (ThreeLines(0.9), 0.4),
    (ThreeLines(0.3), 0.4),
]


@pytest.mark.parametrize("intercept", ["shared", "none"])
@pytest.mark.parametrize(("loss", "label_cost"), CASES, ids=str)
@pytest.mark.sampled(2)
def test_solvers_agree_on_a_new_loss_whatever_it_states(loss, label_cost, intercept):
    """The local solver takes what states its lines and leaves the rest to the bundle method."""
    data = make_clients(loss.task, np.random.default_rng(5), S=3, n=3, N=60)
    clients = [drfl.Client(f"c{s}", X, y) for s, (X, y) in enumerate(data)]
    ball = drfl.Ball(0.05, "l1", label_cost)
    problem = drfl.Problem(loss, ball, drfl.Mixture(radius=0.2), intercept=intercept)
    here, there = (drfl.solve(problem, clients, solver=s, tol=1e-7) for s in ("local", "bundle"))
    assert here.status.kind == there.status.kind == "certified"
    assert here.lower_bound <= there.objective * (1.0 + 1e-9)
    assert there.lower_bound <= here.objective * (1.0 + 1e-9)
    stated = not isinstance(loss, LogCosh) and (np.isinf(label_cost) or loss != ThreeLines(0.9))
    assert here.history[0].info["method"] == "interior point" if stated else here.bytes_up["c0"]


def test_an_estimator_fits_a_loss_without_lines():
    X, y = make_clients("regression", np.random.default_rng(1), S=1, n=2, N=40)[0]
    model = drfl.DRFLRegressor(loss=LogCosh()).fit(X, y)
    assert model.status_.kind == "certified"
    assert np.isfinite(model.predict(X)).all()


@dataclass(frozen=True)
class NegativeLogLikelihood(Loss):
    """The logistic loss by another name."""

    name = "nll"
    task = "classification"
    soft = (Line(-1.0, 0.0), Line(0.0, 0.0))
    value, slope = Logistic.value, Logistic.slope
    value_and_slope = Logistic.value_and_slope
    curvature, conjugate = Logistic.curvature, Logistic.conjugate


@dataclass(frozen=True)
class NoLikelihood(SmoothHinge):
    """Another loss by the name of the logistic one."""

    name = "logistic"


def test_scores_are_log_odds_where_the_loss_is_the_likelihood_whatever_its_name():
    z = np.linspace(-5.0, 5.0, 11)
    for kind in LOSSES.values():
        same = kind().task == "classification" and np.allclose(
            kind().value(z), np.log1p(np.exp(-z))
        )
        assert kind().probabilistic == same
    X, y = make_clients("classification", np.random.default_rng(1), S=1, n=2, N=60)[0]
    likely, unlikely = (
        drfl.DRFLClassifier(loss=loss).fit(X, y)
        for loss in (NegativeLogLikelihood(), NoLikelihood())
    )
    known = drfl.DRFLClassifier().fit(X, y)
    np.testing.assert_allclose(likely.predict_proba(X), known.predict_proba(X), atol=1e-3)
    assert likely.inference(kind="model").odds
    assert score_of(None, likely.problem_.loss) == "log_loss"
    assert not hasattr(unlikely, "predict_proba")
    assert not unlikely.inference().odds
    with pytest.raises(ValueError, match="'logistic' is no likelihood"):
        unlikely.inference(kind="model")
    assert score_of(None, unlikely.problem_.loss) == "accuracy"


@pytest.mark.parametrize("loss", JOINT.values(), ids=JOINT)
def test_how_several_classes_end_is_what_a_loss_is_far_out(loss):
    far, y = np.array([[1e3], [0.0], [-1e3]]), np.array([2])
    assert loss.value(far, y)[0] - (far[0] - far[2])[0] == pytest.approx(loss.end, abs=1e-9)
    assert loss.kinks == np.isfinite(loss.distances(far, y)).all()
