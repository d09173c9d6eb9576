"""Three methods, one optimum: bundle, Algorithm 1 and consensus ADMM, each with its own proof."""

from itertools import product

import numpy as np
import pytest

import drfl
from drfl.losses import LOSSES, make_loss
from drfl.solvers.admm import AdLpmm, Admm
from kit import problems

NORMS = ["l1", "l2", "linf"]
PIECES = [name for name in LOSSES if make_loss(name).pieces]
CURVED = [name for name in LOSSES if not make_loss(name).pieces]
WHOLE = list(product(LOSSES, NORMS))
BOXES = [*product(PIECES, NORMS), *product(CURVED, ["l1"])]
# Curved losses whose rows flip or move make every step long; one of each stays in the fast run.
LONG = {
    ("smooth_hinge", "l2", "whole"),
    ("smooth_hinge", "linf", "whole"),
    ("logistic", "l1", "whole"),
    ("logistic", "linf", "whole"),
    ("logistic", "l1", "box"),
    ("smooth_hinge", "l1", "box"),
    ("huber", "linf", "whole"),
    *((loss, norm, "polyhedron") for loss, norm in product(PIECES, NORMS) if norm != "l1"),
    ("epsilon_insensitive", "l1", "polyhedron"),
    ("pinball", "l1", "polyhedron"),
}
TOL = 1e-3
SOLVERS = {"ad_lpmm": AdLpmm(c=0.1, tight=True, certify_every=4), "admm": Admm(certify_every=4)}


def case(loss, norm, place, *, shared=False):
    """Two clients of a dozen rows; whether labels move, and Q, differ from case to case."""
    k = [*LOSSES].index(loss) + NORMS.index(norm)
    rng, task = np.random.default_rng(k), make_loss(loss).task
    data = problems.clients(task, rng, S=2, n=2, N=10 if place != "polyhedron" else 4)
    X, y = (np.concatenate(parts) for parts in zip(*data, strict=True))
    support = {
        "whole": lambda: None,
        "box": lambda: problems.box_around(rng, task, X, y),
        "polyhedron": lambda: problems.polyhedron_around(rng, task, X, y),
    }[place]()
    ball = drfl.Ball(0.02, norm, (1.0, np.inf, 3.0)[k % 3], support)
    mixture = drfl.Mixture(radius=0.0 if shared else 0.2, p=(1, 2, np.inf)[k % 3])
    intercept = ("shared", "none")[k % 2]
    problem = drfl.Problem(loss, ball, mixture, intercept=intercept, shared_ball=shared)
    return problem, [drfl.Client(f"c{s}", *rows) for s, rows in enumerate(data)]


def assert_agree(problem, clients, tol=TOL, max_rounds=400):
    best = drfl.solve(problem, clients, tol=1e-6)
    assert best.status.kind == "certified", str(best.status)
    for name, solver in SOLVERS.items():
        result = drfl.solve(problem, clients, solver=solver, tol=tol, max_rounds=max_rounds)
        assert result.status.kind == "certified", f"{name}: {result.status}"
        assert not any(record.failures for record in result.history), name  # nobody is refused
        # Each one's model is as good as it says, and nobody's proof excludes another's model.
        scale = max(best.objective, 1e-3 * best.history[0].objective)
        below, above = best.lower_bound - 1e-9 * scale, best.objective + tol * scale
        assert below <= result.objective <= above, name
        assert result.lower_bound <= best.objective + 1e-9 * scale, name
        assert result.gap <= tol
        losses = list(result.client_losses.values())
        weights = list(result.weights.values())
        if not problem.shared_ball:
            assert result.objective == pytest.approx(np.dot(weights, losses), rel=1e-9)


def marked(pairs, place):
    return [
        pytest.param(*pair, marks=[pytest.mark.slow] if (*pair, place) in LONG else [])
        for pair in pairs
    ]


@pytest.mark.parametrize(("loss", "norm"), marked(WHOLE, "whole"))
@pytest.mark.sampled(2)
def test_on_the_whole_space(loss, norm):
    assert_agree(*case(loss, norm, "whole"))


@pytest.mark.parametrize(("loss", "norm"), marked(BOXES, "box"))
@pytest.mark.sampled(4)
def test_in_a_box(loss, norm):
    assert_agree(*case(loss, norm, "box"))


@pytest.mark.parametrize(("loss", "norm"), marked(product(PIECES, NORMS), "polyhedron"))
def test_in_a_polyhedron(loss, norm):
    assert_agree(*case(loss, norm, "polyhedron"))


@pytest.mark.parametrize("costs", [(1.0, np.inf), (np.inf, 1.0)])
@pytest.mark.sampled(2)
def test_where_the_targets_of_one_client_stay(costs):
    rng = np.random.default_rng(0)
    support = drfl.Polyhedron(np.vstack([np.eye(3), -np.eye(3)]), [5.0] * 6)
    data = {name: (rng.uniform(-1, 1, size=(8, 2)), rng.uniform(-1, 1, size=8)) for name in "ab"}
    balls = {
        name: drfl.Ball(0.1, "l1", cost, support) for name, cost in zip("ab", costs, strict=True)
    }
    problem = drfl.Problem("epsilon_insensitive", balls)
    made = [drfl.Client(name, *rows) for name, rows in data.items()]
    best = drfl.solve(problem, made, tol=1e-6)
    result = drfl.solve(problem, made, solver="admm", tol=1e-2, max_rounds=200)
    assert result.lower_bound <= best.objective * (1.0 + 1e-9)
    assert best.lower_bound <= result.objective <= best.objective * 1.02


@pytest.mark.parametrize("place", ["whole", "box"])
@pytest.mark.parametrize(("loss", "norm"), [(loss, NORMS[k % 3]) for k, loss in enumerate(PIECES)])
@pytest.mark.sampled(2)
def test_with_one_ball_around_the_mixture(loss, norm, place):
    assert_agree(*case(loss, norm, place, shared=True))


@pytest.mark.parametrize(("loss", "norm"), [(loss, NORMS[k % 3]) for k, loss in enumerate(CURVED)])
def test_with_one_ball_and_a_curved_loss(loss, norm):
    assert_agree(*case(loss, norm, "whole", shared=True))


@pytest.mark.parametrize("loss", ["hinge", "huber"])
def test_without_a_budget(loss):
    # Nothing prices the norm of w: the region in which the optimum lies is proved by cuts.
    _, made = case(loss, "l1", "whole")
    mixture = drfl.Mixture(radius=0.2)
    assert_agree(drfl.Problem(loss, drfl.Ball(0.0), mixture, intercept="none"), made)
