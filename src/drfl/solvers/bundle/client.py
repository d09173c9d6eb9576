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

from drfl.arrays import Array
from drfl.client import Site
from drfl.solvers.bundle.anchors import AnchorBox
from drfl.solvers.bundle.curvature import density, hessian, pack_factor, pack_triangle, sketch
from drfl.solvers.bundle.dual import mixed_cut
from drfl.solvers.bundle.exchange import Dual, Request
from drfl.solvers.bundle.guarded import guarded_answer
from drfl.solvers.bundle.local import local_optimum
from drfl.solvers.bundle.memory import Memory, Seen, groups_of, may_curve, memory_of
from drfl.solvers.bundle.sight import Sight, View
from drfl.solvers.bundle.views import make_view
from drfl.wire import Message

SKETCH_ABOVE = 500  # coefficients: curvature is sent as a sketch
LOCAL_ROWS = 5  # a local optimum on fewer rows per coefficient tells the others nothing


def answer(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """Evaluate the points of a request."""
    request = Request.read(message, site.dimension)
    if site.ledger is not None:
        return guarded_answer(site, request)
    view = make_view(site.oracle, shared=site.shared_ball, lifted=request.lifted)
    memory = memory_of(site)
    groups = groups_of(site, request.groups)
    previous = memory.seen.get(request.marks[0])
    before = previous.sample if previous else None
    values, cuts, curvatures, share = [], [], [], np.ones(1)
    for identity, x, wanted in zip(
        request.identities, request.points, request.curvature, strict=True
    ):
        at = view.look(x, groups)
        values.append(view.values(at))
        cuts.append(at.cuts)
        share = at.share
        curved = wanted and may_curve(site)
        if curved:
            curvatures.append(_curvature(site, at, before))
        memory.seen[identity] = Seen.of(x, at, curved=curved)
        del at  # it is as long as the rows, and so will be the next
    reply = {"value": np.array(values), "cuts": np.array(cuts), **_packed(curvatures, site)}
    if request.shares and len(share) > 1:
        reply["share"] = share
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


def _curvature(site: Site, at: Sight, before: Array | None) -> Array:
    """The Hessian, or its sketch; a shared multiplier has no curvature of its own."""
    size, d = site.n_features + site.fit_intercept, density(site.oracle, at.arguments, before)
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
    """The cut of the master's dual point; nothing if a part of it is unknown or contains flips."""
    dual, (_, centre, metric) = request.dual, request.marks
    assert dual is not None
    old = [memory.seen.get(i) for i in dual.identities]
    hat, curved = memory.seen.get(centre), memory.seen.get(metric)
    known = [at for at in old if at is not None and not at.flips]
    if hat is None or curved is None or not curved.curved or len(known) < len(old):
        return {}
    return {"dual": mixed_cut(view, dual, request.points[0], hat, curved, known)}


def _introduction(site: Site) -> dict[str, NDArray[Any]]:
    """What the first reply adds: the weight of the data, and the typical size of a feature."""
    rows = site.oracle.rows
    size = float(rows.moments()[1].mean()) if rows.n_features else 1.0
    about = {"about": np.array([rows.total, size])}
    box = AnchorBox.of(site.oracle.ball, site.oracle.loss, site.n_features)
    return about if box is None else {**about, "facts": box.facts(site.oracle)}
