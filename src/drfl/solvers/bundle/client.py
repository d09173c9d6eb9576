r"""The client's half of the bundle method.

Request: points x to evaluate and what is wanted of each. Reply: at every point the value of F, one
cut per group of rows, and, if asked and allowed, curvature, a dual cut, and a local optimum.
Points have numbers; the client keeps what it computed at a few of them, and could rebuild it from
the points alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.client import Site
from drfl.losses import Array
from drfl.solvers.bundle.anchors import AnchorBox
from drfl.solvers.bundle.curvature import density, hessian, pack_factor, pack_triangle, sketch
from drfl.solvers.bundle.exchange import Dual, Request
from drfl.solvers.bundle.guarded import guarded_answer
from drfl.solvers.bundle.local import local_optimum
from drfl.solvers.bundle.memory import Memory, groups_of, memory_of
from drfl.solvers.bundle.sight import Sight, View
from drfl.solvers.bundle.views import dual_cut, make_view
from drfl.wire import Message

SKETCH_ABOVE, NONE_ABOVE = 500, 2000  # coefficients: curvature in full, as a sketch, not at all
LOCAL_ROWS = 5  # a local optimum on fewer rows per coefficient tells the others nothing


def answer(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """Evaluate the points of a request."""
    request = Request.read(message, site.dimension)
    if site.ledger is not None:
        return guarded_answer(site, request)
    view = make_view(site.oracle, shared=site.shared_ball, lifted=request.lifted)
    memory = memory_of(site)
    groups = groups_of(site, request.groups)
    previous = memory.sights.get(request.marks[0])
    before = previous.arguments if previous else None
    sights, curvatures = [], []
    for identity, x, wanted in zip(
        request.identities, request.points, request.curvature, strict=True
    ):
        memory.sights[identity] = at = view.look(x, groups)
        sights.append(at)
        if wanted and site.policy.curvature and site.dimension <= NONE_ABOVE:
            memory.densities[identity] = d = density(site.oracle, at.arguments, before)
            curvatures.append(_curvature(site, at, d, before))
    reply = {
        "value": np.array([view.values(at) for at in sights]),
        "cuts": np.array([at.cuts for at in sights]),
        **_packed(curvatures, site),
    }
    if request.shares and sights[0].groups > 1:
        reply["share"] = sights[0].share
    if request.dual is not None and site.policy.dual_cuts:
        reply.update(_dual(view, request, memory))
    if request.introduction:
        reply.update(_introduction(site))
    if request.local and site.rows.n_rows >= LOCAL_ROWS * site.dimension:
        reply["local"] = local_optimum(site, answer).astype(np.float32)
    memory.keep({*request.marks, *request.identities, *_identities(request.dual)})
    return reply


def _identities(dual: Dual | None) -> tuple[int, ...]:
    return dual.identities if dual else ()


def _curvature(site: Site, at: Sight, d: Array, before: Array | None) -> Array:
    """The Hessian, or its sketch; a shared multiplier has no curvature of its own."""
    size = site.n_features + site.fit_intercept
    if site.dimension > SKETCH_ABOVE:
        columns = sketch(site.oracle, d, size)
        return np.vstack([columns, np.zeros((site.dimension - size, columns.shape[1]))])
    H = hessian(site.oracle, at, d, before, size)
    return np.pad(H, (0, site.dimension - size))


def _packed(curvatures: list[Array], site: Site) -> dict[str, NDArray[Any]]:
    """Curvature as it travels: in few bytes, and positive whatever the rounding."""
    if not curvatures:
        return {}
    if site.dimension > SKETCH_ABOVE:
        return {"sketch": np.array(curvatures, dtype=np.float32)}
    if not site.oracle.loss.kinks:
        return {"hess": np.array([pack_triangle(H) for H in curvatures])}
    factors, scales = zip(*(pack_factor(H) for H in curvatures), strict=True)
    return {"factor": np.array(factors), "scale": np.array(scales)}


def _dual(view: View, request: Request, memory: Memory) -> dict[str, NDArray[Any]]:
    r"""The cut of the master's dual point, moved along the curvature to the new point.

    :math:`v_i=\sum_k a_{k,\mathrm{group}(i)}v_{ik}+\sigma d_i(m_i-\hat m_i)`. Nothing if a part of
    it is not at hand or contains flips.
    """
    dual, (_, centre, metric) = request.dual, request.marks
    assert dual is not None
    old = [memory.sights.get(i) for i in dual.identities]
    hat, d = memory.sights.get(centre), memory.densities.get(metric)
    if d is None or hat is None or any(at is None or at.any_flip for at in old):
        return {}
    now = memory.sights[request.identities[0]]
    v = dual.sigma * d * (now.arguments - hat.arguments)
    for at, weights in zip(old, dual.weights, strict=True):
        assert at is not None
        v += weights[np.arange(len(v)) % at.groups] * at.slopes
    return {"dual": dual_cut(view, v, request.points.shape[1])}


def _introduction(site: Site) -> dict[str, NDArray[Any]]:
    """What the first reply adds: the weight of the data, and the typical size of a feature."""
    rows = site.oracle.rows
    size = float(rows.moments()[1].mean()) if rows.n_features else 1.0
    about = {"about": np.array([rows.total, size])}
    box = AnchorBox.of(site.oracle.ball, site.oracle.loss, site.n_features)
    return about if box is None else {**about, "facts": box.facts(site.oracle)}
