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
from drfl.solvers.bundle.curvature import density, hessian, pack_factor, pack_triangle
from drfl.solvers.bundle.local import local_optimum
from drfl.solvers.bundle.views import Sight, View, dual_cut, make_view
from drfl.wire import Message

LOCAL_ROWS = 5  # a local optimum on fewer rows per coefficient tells the others nothing


def answer(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """Evaluate the points of a request."""
    request = message.arrays
    points, plan, marks = request["x"], request["plan"], request["marks"]
    identities = [int(i) for i in request["id"]]
    groups = int(plan[0]) if site.policy.groups else 1
    previous, centre, metric = (int(mark) for mark in marks)
    view = make_view(site.oracle)
    memory: dict[int, Sight] = site.memory.setdefault("bundle", {})
    densities: dict[int, Array] = site.memory.setdefault("bundle densities", {})
    reply: dict[str, NDArray[Any]] = {}
    values, cuts, curvatures = [], [], []
    for k, (identity, x) in enumerate(zip(identities, points, strict=True)):
        memory[identity] = at = view.look(x, groups)
        values.append([at.value, at.multiplier])
        cuts.append(at.cuts)
        if plan[3 + k] and site.policy.curvature:
            before = memory[previous].arguments if previous in memory else None
            densities[identity] = d = density(site.oracle, at.arguments, before)
            curvatures.append(hessian(site.oracle, at, d, before, site.dimension))
    reply["value"], reply["cuts"] = np.array(values), np.array(cuts)
    if plan[1] and at.groups > 1:
        reply["share"] = at.share
    reply.update(_packed(curvatures, smooth=not site.oracle.loss.kinks))
    if "dual_id" in request and site.policy.dual_cuts:
        cut = _dual(view, message, memory, densities.get(metric), memory.get(centre))
        if cut is not None:
            reply["dual"] = cut
    if message.round == 0:
        reply.update(_introduction(site))
    if plan[2] and site.rows.n_rows >= LOCAL_ROWS * site.dimension:
        reply["local"] = local_optimum(site, answer)
    kept = {previous, centre, metric, *request.get("dual_id", ()), *identities}
    for table in (memory, densities):
        for old in set(table) - {int(i) for i in kept}:
            del table[old]
    return reply


def _packed(curvatures: list[Array], *, smooth: bool) -> dict[str, NDArray[Any]]:
    if not curvatures:
        return {}
    if smooth:
        return {"triangle": np.array([pack_triangle(H) for H in curvatures])}
    factors, scales = zip(*(pack_factor(H) for H in curvatures), strict=True)
    return {"factor": np.array(factors), "scale": np.array(scales)}


def _dual(
    view: View,
    message: Message,
    memory: dict[int, Sight],
    d: Array | None,
    centre: Sight | None,
) -> Array | None:
    r"""The cut of the master's dual point, moved along the curvature to the new point.

    :math:`v_i=\sum_k a_{k,\mathrm{group}(i)}v_{ik}+\sigma d_i(m_i-\hat m_i)`. None if something it
    is made of is not at hand or contains flips.
    """
    request = message.arrays
    if d is None or centre is None or any(int(i) not in memory for i in request["dual_id"]):
        return None
    now = memory[int(request["id"][0])]
    v = float(request["sigma"][0]) * d * (now.arguments - centre.arguments)
    for i, weights in zip(request["dual_id"], request["dual_weight"], strict=True):
        old = memory[int(i)]
        if old.any_flip:
            return None
        v += weights[np.arange(len(v)) % old.groups] * old.slopes
    return dual_cut(view, v, request["x"].shape[1])


def _introduction(site: Site) -> dict[str, NDArray[Any]]:
    """What the first reply adds: the weight of the data, and the typical size of a feature."""
    rows = site.oracle.rows
    size = float(rows.moments()[1].mean()) if rows.n_features else 1.0
    about = {"about": np.array([rows.total, size])}
    box = AnchorBox.of(site.oracle.ball, site.oracle.loss, site.n_features)
    return about if box is None else {**about, "facts": box.facts(site.oracle)}
