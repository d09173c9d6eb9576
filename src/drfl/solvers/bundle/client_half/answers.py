r"""The client's half of the bundle method.

Request: points x to evaluate and what is wanted of each. Reply: at every point the value of F, one
cut per group of rows, and, if asked and allowed, curvature, a dual cut, and a local optimum.
Points have numbers; the client keeps what it computed at a few of them, and could rebuild it from
the points alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Site
from drfl.solvers.base import Assignment
from drfl.solvers.bundle.client_cache import (
    Cache,
    Cached,
    cache_of,
    evaluator_of,
    groups_of,
)
from drfl.solvers.bundle.client_half.curvature import (
    density,
    hessian,
    may_curve,
    may_reach,
    pack_factor,
    reaches,
    sketch,
)
from drfl.solvers.bundle.client_half.evaluation import Evaluation, Evaluator
from drfl.solvers.bundle.client_half.joint import JointEvaluator
from drfl.solvers.bundle.client_half.level_cuts import (
    OwnInterceptEvaluator,
    balanced_dual,
    without_intercept,
)
from drfl.solvers.bundle.client_half.own_optimum import rough_optimum
from drfl.solvers.bundle.client_half.path_rows import follow
from drfl.solvers.bundle.guard import guarded_answer
from drfl.solvers.bundle.messages import CutRequest, Dual
from drfl.solvers.bundle.session import BundleSession
from drfl.solvers.bundle.settings import BundleSettings
from drfl.solvers.bundle.state import begin
from drfl.solvers.certificate.anchors import AnchorBox, class_facts
from drfl.uncertainty import Ball, Mixture
from drfl.wire import Message
from drfl.wire.schema import pack_triangle, triangle_of
from drfl.worst_case.whole_space import WholeSpaceOracle

SKETCH_ABOVE = 500  # coefficients: curvature of a loss with kinks is sent as a sketch
LOCAL_ROWS = 3  # a local optimum on fewer rows per coefficient tells the others nothing
SMALL = 120  # coefficients: masters cost nothing to speak of
NOTHING = 1e-12  # a loss that is rounding
ROUGH, FEW = 1e-2, 15  # gap and rounds of a local optimum

Slopes = Callable[[slice, Sequence[Array]], Array]


def answer(site: Site, message: Message, *, split: bool = True) -> Mapping[str, NDArray[Any]]:
    """Evaluate the points of a request; ``split``: flips may have cuts of their own."""
    request = CutRequest.read(message, site.dimension)
    if site.ledger is not None:
        return guarded_answer(site, request)
    evaluator = evaluator_of(site, lifted=request.lifted, split=split)
    cache = cache_of(site)
    groups = groups_of(site, request.groups)
    previous = cache.seen.get(request.marks[0])
    before = previous.sample if previous else None
    values, cuts, curvatures, share = [], [], [], np.ones(1)
    followed: Mapping[str, NDArray[Any]] = {}
    reach: Array | None = None
    for identity, x, wanted in zip(
        request.identities, request.points, request.curvature, strict=True
    ):
        at = evaluator.evaluate(x, groups)
        values.append(evaluator.values(at))
        cuts.append(at.cuts)
        share = at.share
        curved = wanted and may_curve(site)
        if curved:
            curvatures.append(_curvature(site, evaluator, at, before))
        if curved and request.reach > 0.0 and may_reach(site, at):
            reach = reaches(site.oracle, at.arguments, curvatures[0], request.reach)
        if request.path is not None and identity == request.identities[0]:
            followed = follow(site, evaluator, request.path, identity, at.arguments)
        cache.seen[identity] = Cached.of(x, at, curved=curved)
        del at  # it is as long as the rows, and so will be the next
    reply = {"value": np.array(values), "cuts": np.array(cuts), **_packed(curvatures, site, reach)}
    reply.update(followed)
    if request.shares and len(share) > 1:
        reply["share"] = share
    if request.dual is not None and site.policy.dual_cuts:
        reply.update(_dual(evaluator, request, cache))
    if request.introduction:
        reply.update(_introduction(site))
    if request.local and _has_own_optimum(site):
        quick = isinstance(site.oracle, WholeSpaceOracle) and site.dimension > SMALL
        own = rough_optimum(site, evaluator) if quick else local_optimum(site)
        reply["local"] = own.astype(np.float32)
    cache.keep({*request.marks, *request.identities, *_identities(request.dual)})
    return reply


def _has_own_optimum(site: Site) -> bool:
    """Whether a client has an optimum of its own that is worth a visit.

    Not with few rows, nor with rules for its curves and radius 0, which states no problem alone.
    """
    problem = site.problem
    shaped = problem.curves is not None and problem.curves.shaped
    if problem.classes is not None or (shaped and site.oracle.ball.radius == 0.0):
        return False
    return bool(site.rows.n_rows >= LOCAL_ROWS * site.dimension)


def _identities(dual: Dual | None) -> tuple[int, ...]:
    return dual.identities if dual else ()


def _curvature(
    site: Site, evaluator: Evaluator, at: Evaluation, before: Array | None
) -> NDArray[Any]:
    """The Hessian, or its sketch; a shared multiplier has no curvature of its own."""
    if isinstance(evaluator, JointEvaluator):
        return evaluator.curvature(at, before, site.dimension)
    size, d = site.n_features + site.shared_intercept, density(site.oracle, at.arguments, before)
    if _is_sketched(site):
        columns = sketch(site.oracle, d, size)
        return np.vstack([columns, np.zeros((site.dimension - size, columns.shape[1]))])
    if site.problem.own_intercepts:
        if _loses_nothing(site, at):  # rows at a kink, where the intercept ends, do not bend F
            return np.zeros((site.dimension, site.dimension))
        return without_intercept(hessian(site.oracle, at, d, before, size + 1))
    H = hessian(site.oracle, at, d, before, size)
    return np.pad(H, (0, site.dimension - size))


def _loses_nothing(site: Site, at: Evaluation) -> bool:
    """Whether an own intercept takes all loss away, as it does for rows of one class."""
    oracle, y = site.oracle, site.rows.y
    one_class = oracle.is_margin and y.min() == y.max()
    return bool(one_class and oracle.loss.value(at.arguments).max() <= NOTHING)


def _is_sketched(site: Site) -> bool:
    """Whether the matrix is too large to be sent; Newton steps are worth its bytes."""
    is_joint = site.problem.classes is not None
    return not is_joint and bool(site.oracle.loss.kinks) and site.dimension > SKETCH_ABOVE


def _packed(
    curvatures: list[NDArray[Any]], site: Site, reach: Array | None
) -> dict[str, NDArray[Any]]:
    """Curvature as it travels: in few bytes, and positive whatever the rounding."""
    if not curvatures:
        return {}
    if reach is not None:
        H = curvatures[0]
        return {"bend": triangle_of(H)[None], "reach": reach}
    if site.problem.classes is not None:
        return {"hess": np.array(curvatures)}
    if _is_sketched(site):
        return {"sketch": np.array(curvatures, dtype=np.float32)}
    if not site.oracle.loss.kinks:
        return {"hess": np.array([pack_triangle(H) for H in curvatures])}
    factors, scales = zip(*(pack_factor(H) for H in curvatures), strict=True)
    return {"factor": np.array(factors), "scale": np.array(scales)}


def _dual(evaluator: Evaluator, request: CutRequest, cache: Cache) -> dict[str, NDArray[Any]]:
    """The cut of the master's dual point; nothing if a part of it is unknown or contains flips."""
    dual, curved = request.dual, cache.seen.get(request.marks[2])
    assert dual is not None
    old = [cache.seen.get(i) for i in dual.identities]
    known = [at for at in old if at is not None and not at.flips]
    if curved is None or not curved.curved or len(known) < len(old):
        return {}
    if isinstance(evaluator, JointEvaluator):
        return {"dual": evaluator.mixed_cut(dual, curved, known)}
    if isinstance(evaluator, OwnInterceptEvaluator):
        balanced = balanced_dual(evaluator, dual, curved, known)
        return {} if balanced is None else {"dual": balanced}
    return {"dual": mixed_cut(evaluator, dual, curved.x, known)}


def _introduction(site: Site) -> dict[str, NDArray[Any]]:
    """What the first reply adds: the weight of the data, and the typical size of a feature."""
    rows = site.oracle.rows
    size = float(rows.moments()[1].mean()) if rows.n_features else 1.0
    about = {"about": np.array([rows.total, size])}
    if site.problem.classes is not None:
        if site.problem.own_intercepts:
            return about  # there are none to be bounded
        return {**about, "classes": class_facts(rows, site.problem.classes)}
    box = AnchorBox.of(site.oracle.ball, site.oracle.loss, site.n_features)
    return about if box is None else {**about, "facts": box.facts(site.oracle)}


def mixed_cut(evaluator: Evaluator, dual: Dual, curved: Array, old: Sequence[Cached]) -> Array:
    r"""The cut of the master's dual point, moved along the curvature.

    :math:`v_i=\sum_k a_{k,\mathrm{group}(i)}v_{ik}+d_i\,\partial m_i[\mathrm{shift}]`. Nothing of
    it was kept since the rounds before: arguments at all points are computed anew, in one pass.
    ``curved`` is the point of the curvature in force.
    """
    loss = evaluator.loss

    def slopes(block: slice, m: Sequence[Array]) -> Array:
        v = m[0] - m[1]
        v *= loss.curvature(m[1])
        for at, weights, own in zip(old, dual.weights, m[2:], strict=True):
            slope = loss.slope(own)
            for k in range(at.groups):
                slope[(k - block.start) % at.groups :: at.groups] *= weights[k]
            v += slope
        return v

    every = np.array([curved + dual.shift, curved, *(at.x for at in old)])
    return dual_cut(evaluator, every, slopes)


def dual_cut(evaluator: Evaluator, points: Array, slopes: Slopes) -> Array:
    r"""The cut :math:`\sum_ip_i\big(v_iz_i(x)-L^*(v_i)\big)` of any slopes v: (c, g), (1 + d,).

    For regression :math:`z_i=\langle w,x_i\rangle+b-y_i`.

    Parameters
    ----------
    evaluator : Evaluator
        How the client evaluates points.
    points : (K, d)
        Points at which arguments are needed.
    slopes : callable
        Makes slopes of a block and of its rows' arguments at the points.
    """
    rows, loss, d = evaluator.rows, evaluator.loss, points.shape[1]
    distinct, place = np.unique(points, axis=0, return_inverse=True)
    models = [evaluator.split(x[: d - evaluator.shared]) for x in distinct]
    W, b = np.array([w for w, _ in models]), np.array([b for _, b in models])
    constant = 0.0

    def visit(block: slice, z: Array) -> Array:
        nonlocal constant
        m = evaluator.as_arguments(z, block)
        v = np.clip(slopes(block, [m[k] for k in place]), *loss.slope_range)
        value = -loss.conjugate(v)
        if not evaluator.oracle.is_margin:
            value -= v * rows.y[block]
        constant += rows.mean(value, block)
        z[:] = 0.0
        z[0] = evaluator.weighted(v, block)
        return z

    g, gb = rows.sweep_many(W, b, visit)
    size = d - evaluator.shared
    cut = np.append(constant, np.append(g[0], gb[0])[:size])
    return np.pad(cut, (0, d - size))  # flips can only add: slope 0 in a shared lambda


def local_optimum(site: Site) -> Array:
    """A rough minimiser of this client's worst-case loss, by the same method with one client."""
    alone = copy.copy(site)
    alone.memory = {}
    stated = site.problem
    ball = stated.ball if isinstance(stated.ball, Ball) else stated.ball[site.name]
    problem = replace(stated, ball=ball, mixture=Mixture())
    settings = BundleSettings(groups=1, dual_cuts=False, second_point=False, warm_start=False)
    task = Assignment(problem, (site.name,), site.n_features, ROUGH, FEW)
    session = BundleSession(begin(settings, task, task.names))
    while session.state.status is None:
        messages = session.propose()
        session.absorb({k: m.reply(answer(alone, m)) for k, m in messages.items()}, {})
    found = session.standing
    return np.append(found.coef, found.intercept)[: site.dimension]
