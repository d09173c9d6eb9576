"""The state of a run as the server knows it: data, and how a run begins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from drfl.arrays import Array
from drfl.gauges import DualNorm
from drfl.solvers.base import MOST_CURVED, Assignment, Status, gap_scale, relative_gap
from drfl.solvers.bundle.client_cache import CacheMirror
from drfl.solvers.bundle.clients import Clients
from drfl.solvers.bundle.messages import (
    CutRequest,
    Dual,
    PathModel,
    PathRequest,
    family_of,
    near_marks,
)
from drfl.solvers.bundle.points import Points
from drfl.solvers.bundle.settings import BundleSettings
from drfl.solvers.bundle.steps import Descent, Metric, Proposal
from drfl.solvers.certificate.anchors import (
    Anchors,
    ClassAnchors,
    anchor_boxes,
    anchors_of,
)
from drfl.solvers.certificate.cuts import Pool
from drfl.solvers.certificate.proof import Certificate
from drfl.solvers.certificate.region import Region
from drfl.solvers.certificate.server import ServerProblem, lifted, server_problem
from drfl.solvers.limits import Limits, value_at_zero
from drfl.solvers.master.master import Master

MOST_ROOM = 0.003  # of the price of the norm
PATH_ABOVE = 200  # coefficients: with fewer, cuts learn the corners of a loss in fewer rounds
FIRST_MU = 0.3  # products on the central path at w = 0
COARSE, FINER = 0.5, 2.0  # groups of all clients for every coefficient; if the norm is cheap:
CHEAP = 5e-3  # a price of the norm, beside what a typical feature can change the loss by
LINEAR = 1e-6  # curvature below this share of a feature's mean square counts as none


@dataclass
class Bounds:
    """What is proved of the optimum.

    Attributes
    ----------
    upper, lower : float
        The objective of the best point, and the lower bound.
    at_zero : float
        The objective at w = 0; with own intercepts at b = 0, too, where that is known.
    losses_at_zero : (S,)
        What the clients lose at w = 0.
    region : Region or None
        Where the lower bound holds, if no radius bounds the model.
    progress : int
        The last round in which one of the bounds moved.
    """

    upper: float = math.inf
    lower: float = 0.0
    at_zero: float = math.nan
    losses_at_zero: Array = field(default_factory=lambda: np.zeros(0))
    region: Region | None = None
    progress: int = 0

    @property
    def gap(self) -> float:
        """The relative gap between the bounds."""
        return relative_gap(self.upper, self.lower, self.at_zero)

    @property
    def scale(self) -> float:
        """What the gap is relative to."""
        return gap_scale(self.upper, self.at_zero)

    def raise_to(self, lower: float, round: int) -> None:
        """Another lower bound, if it is better."""
        if lower > self.lower:
            self.lower, self.progress = lower, round


@dataclass
class Asked:
    """What the clients are asked in this round, and what is wanted of them besides values.

    Attributes
    ----------
    proposals, identities
        The points that are new in this round, the main one first, and their numbers.
    requests : dict of int to CutRequest
        By client.
    groups, most_groups : int
        Into how many groups rows are split now, and later.
    curvature, local : bool
        Whether curvature at the main point and, in the first round, own optima are wanted.
    reach : float
        How far curvature should be certain to be of use in the proof; 0: it is of none yet.
    dual : dict of int to Dual
        The multipliers of dual cuts, by client.
    weights : (S,)
        The weights of the master whose multipliers these are.
    room : float
        The share of the price that the dual cuts are to leave unused, for what they miss.
    miss : float
        By how much of the price the last ones missed that.
    dual_pays : bool
        Whether the last ones closed a good part of the gap.
    path : PathRequest or None
        The step along the central path.
    missed : float
        By which share the slopes of the best proof of its last step cost more than the norm pays.
    """

    groups: int = 1
    most_groups: int = 1
    curvature: bool = False
    local: bool = False
    reach: float = 0.0
    dual: dict[int, Dual] = field(default_factory=dict)
    weights: Array = field(default_factory=lambda: np.zeros(0))
    room: float = 0.0
    miss: float = 1.0
    dual_pays: bool = False
    path: PathRequest | None = None
    missed: float = 0.0
    proposals: Sequence[Proposal] = ()
    identities: tuple[int, ...] = ()
    requests: dict[int, CutRequest] = field(default_factory=dict)

    @property
    def points(self) -> list[int]:
        """Numbers of all points that somebody is to evaluate in this round, ascending."""
        different = {id(request): request for request in self.requests.values()}
        return sorted({i for request in different.values() for i in request.identities})


@dataclass
class Ties:
    """The best model so far that is good enough, and what is known of the smallest norm.

    Attributes
    ----------
    level : float
        Objectives up to here count as optimal.
    x, objective : Array, float
        The model of smallest norm with an objective within the level.
    n : int
        The intercept is not part of the norm.
    at, nu : Array, float
        Where the last Newton step led, and its multiplier.
    least : float
        No model within the level has a smaller norm.
    done : bool
        Whether the norm is within 1 % of the smallest.
    """

    level: float
    x: Array
    objective: float
    n: int
    at: Array
    nu: float = 0.0
    least: float = 0.0
    done: bool = False


@dataclass(frozen=True)
class Trial:
    """Slopes whose best constants guarded clients are asked for: weights (S,), slopes (S, d)."""

    q: Array
    g: Array


@dataclass
class Finish:
    """The end of a run whose clients have guards: see `drfl.solvers.bundle.guard`.

    Attributes
    ----------
    trials : tuple of Trial
        What is asked for in this round; none: an ordinary round.
    rounds : int
        How many rounds of trials there have been.
    course : tuple of pairs
        Gap and objective, round by round.
    """

    trials: tuple[Trial, ...] = ()
    rounds: int = 0
    course: tuple[tuple[float, float], ...] = ()


@dataclass
class State:
    """A run of the bundle method between two rounds.

    Attributes
    ----------
    clients, pool, points, bounds, asked
        Who takes part, their cuts, evaluated points, what is proved, and what is being asked.
    metric, step, q
        Curvature, the weights of the proximal term, and the clients' weights in the last master.
    master, certificate
        What turns cuts into points and multipliers, and multipliers into a bound.
    ties, finish
        The search for the smallest of many optima, and the end of a run with guards.
    path : dict of int to PathModel, or None
        By client its rows on the central path, while that is followed.
    """

    settings: BundleSettings
    task: Assignment
    round: int
    clients: Clients
    pool: Pool
    points: Points
    metric: Metric
    master: Master
    certificate: Certificate
    step: Descent
    q: Array
    asked: Asked
    bounds: Bounds
    ties: Ties | None = None
    finish: Finish = field(default_factory=Finish)
    path: dict[int, PathModel] | None = None
    status: Status | None = None

    @property
    def server(self) -> ServerProblem:
        """The server's problem."""
        return self.points.server

    @property
    def begun(self) -> bool:
        """Whether everyone has introduced itself."""
        return self.points.centre >= 0

    @property
    def everywhere(self) -> bool:
        """Whether the lower bound holds for every w and b, not in a region only."""
        region = self.bounds.region
        return self.certificate.everywhere or (region is not None and region.proved)

    @property
    def within(self) -> float:
        """How far from the best model the lower bound holds; 0 is a bound of every loss."""
        region = self.bounds.region
        if self.everywhere or region is None or self.bounds.lower <= 0.0:
            return math.inf
        return float(region.radius.max())

    @property
    def only_centre(self) -> bool:
        """Whether this round only evaluates the centre, of those who have not done so yet."""
        return self.asked.identities == (self.points.centre,)

    @property
    def reached(self) -> bool:
        """Whether the proved gap is within the tolerance."""
        return self.bounds.gap <= self.task.tol


# ---------------------------------------------------------------------- how a run begins
def begin(
    settings: BundleSettings, task: Assignment, names: Sequence[str], round: int = 0
) -> State:
    """Everyone is asked to evaluate w = 0 and to introduce itself."""
    problem, auto = task.problem, settings.curvature == "auto"
    # Until the clients' sizes are known: all else is.
    server = server_problem(problem, names, task.dimension, np.ones(len(names)))
    clients = _clients(settings, task, names)
    pool = Pool(server.n_clients, task.dimension, clients.lifted)
    warm = settings.warm_start and len(names) > 1 and not problem.shared_ball
    state = State(
        settings,
        task,
        round,
        clients,
        pool,
        Points(server, pool),
        Metric(server),
        Master(server),
        Certificate(server, None),
        Descent(smooth=not problem.loss.kinks, exact=server.on_whole_space),
        server.mixture.weights,
        Asked(curvature=auto, local=warm),
        Bounds(progress=round),
    )
    if _has_path(settings, task, server):
        state.path, state.asked = {}, Asked(path=PathRequest(FIRST_MU))
    ask(state, [Proposal(np.zeros(task.dimension))])
    return state


def _has_path(settings: BundleSettings, task: Assignment, server: ServerProblem) -> bool:
    """Whether a loss with corners has so many columns that its central path is followed."""
    problem = task.problem
    whole = server.on_whole_space and server.priced and isinstance(server.gauge, DualNorm)
    one = problem.classes is None and not problem.own_intercepts
    plain = whole and one and bool(problem.loss.corners)
    wanted = settings.curvature == "auto" and settings.dual_cuts and settings.groups is None
    return plain and wanted and PATH_ABOVE < task.n <= MOST_CURVED


def _clients(settings: BundleSettings, task: Assignment, names: Sequence[str]) -> Clients:
    """Nobody has answered yet."""
    problem, none = task.problem, np.zeros(len(names), int)
    cut, known = lifted(problem, names, task.n), settings.column_sizes or {}
    known = {} if problem.curves is not None else known  # of columns, not of their ramps
    return Clients(
        tuple(names),
        cut,
        anchor_boxes(problem, names, task.n),
        [Limits.of(problem, name, task.n, known.get(name)) for name in names],
        none,
        none.copy(),
        CacheMirror(bool(cut)),
    )


def without(state: State, lost: Sequence[str]) -> State:
    """Begin again without some clients; given weights keep their proportions."""
    problem, names = state.task.problem, state.clients.names
    kept = [s for s, name in enumerate(names) if name not in lost]
    known, sizes = state.clients.known, state.clients.about[:, 0]
    sizes = np.where(known, sizes, 1.0)
    mixture = problem.mixture.among(kept, sizes if known[kept].all() else None)
    task = replace(state.task, problem=replace(problem, mixture=mixture))
    left = [name for name in names if name not in lost]
    return begin(state.settings, task, left, state.round)


def open_first(state: State) -> None:
    """Everyone has introduced itself: sizes, and the first centre, w = 0."""
    sizes = state.clients.about[:, 0]
    server = server_problem(state.task.problem, state.clients.names, state.task.dimension, sizes)
    points = state.points
    state.metric, points.server = Metric(server), server
    points.centre = points.best = state.asked.identities[0]
    points.open(points.centre, state.asked.proposals[0].x)


def equip(state: State) -> None:
    """The first replies are in: scales, the master and the certificate."""
    about, server, n, bounds = state.clients.about, state.server, state.task.n, state.bounds
    # Own intercepts may leave no loss at w = 0, which is no scale: that at b = 0 is.
    bounds.at_zero = max(bounds.upper, value_at_zero(state.task.problem) or 0.0)
    bounds.losses_at_zero, q = state.points.here.values, server.mixture.weights
    unit = float(q @ about[:, 1])
    if state.metric.known:
        curved = float(np.trace(state.metric.curvature(q)[:n, :n])) / max(n, 1)
        # Where the loss happens to be linear at w = 0 its curvature says nothing.
        unit = curved if curved > LINEAR * unit else unit
    use(state, server.in_units(math.sqrt(max(unit, 0.0))))
    state.metric.set_unit(state.server.unit)
    state.q = q
    g = q @ state.points.here.gradients
    state.step.start(float(g @ (g / state.metric.diagonal)), bounds.upper)
    share = FINER if norm_is_cheap(state.server) else COARSE
    wish = state.settings.groups or math.ceil(share * n / server.n_clients)
    most = max(1, min(255, int(about[:, 0].min()) // 50))
    alone = state.task.problem.own_intercepts  # rows of such clients are one group
    state.asked.most_groups = 1 if alone else int(np.clip(wish, 1, most))


def norm_is_cheap(server: ServerProblem) -> bool:
    """Whether the norm costs so little that a bound loses nearly all to any slope left over."""
    return server.priced and server.on_whole_space and server.price < CHEAP * server.unit


def use(state: State, server: ServerProblem) -> None:
    """Take this description of the server's problem."""
    state.points.server, state.master = server, Master(server)
    state.certificate = Certificate(server, _anchors(state, server), _class_anchors(state, server))


def _anchors(state: State, server: ServerProblem) -> Anchors | None:
    """What bounds f everywhere when the data have a support."""
    clients, problem = state.clients, state.task.problem
    told = clients.told("facts")
    facts = [told.get(s) for s in range(len(clients))]
    return anchors_of(problem, clients.names, clients.boxes[0], server.mixture, facts)


def _class_anchors(state: State, server: ServerProblem) -> ClassAnchors | None:
    """What bounds the intercepts of several classes at once."""
    loss, told = state.task.problem.joint, state.clients.told("classes")
    if loss is None or len(told) < len(state.clients):
        return None
    facts = np.array(list(told.values()), dtype=np.float64)
    return ClassAnchors.of(facts, loss.end, server.mixture.weights, server.rho)


# ---------------------------------------------------------------------- requests
def ask(state: State, proposals: Sequence[Proposal], second_curvature: bool = False) -> None:
    """Number the points and write down what every client is to answer."""
    asked, points = state.asked, state.points
    asked.proposals, asked.identities = proposals, points.number(len(proposals))
    every = np.array([p.x for p in proposals])
    curvature = (asked.curvature, *(second_curvature for _ in proposals[1:]))
    asked.requests = _requests(state, range(len(state.clients)), every, curvature)
    if not state.begun:
        return
    _ask_what_was_missed(state)
    for identity, proposal in zip(asked.identities, proposals, strict=True):
        points.open(identity, proposal.x)


def ask_again(state: State) -> None:
    """No new point, only of those who have not evaluated the centre: the bound has to be real."""
    asked, points, x = state.asked, state.points, state.points.here.x
    silent = [int(s) for s in np.flatnonzero(np.isnan(points.here.values))]
    asked.proposals, asked.identities, asked.dual = [Proposal(x)], (points.centre,), {}
    asked.path = None
    asked.requests = _requests(state, silent, x[None], (False,))
    _ask_what_was_missed(state)


def _ask_what_was_missed(state: State) -> None:
    """Who is asked something also evaluates the points that it has missed.

    Its cuts are then those that it would have told in time, and no longer a model that promises
    too much where it was not heard.
    """
    requests, at = state.asked.requests, state.points.at
    missed = np.array([np.isnan(point.values) for point in at.values()])
    made: dict[tuple[int, bytes], CutRequest] = {}  # one for all who have missed the same
    for s in np.flatnonzero(missed.any(axis=0)).tolist():
        if s not in requests:
            continue
        request, key = requests[s], (id(requests[s]), missed[:, s].tobytes())
        if key not in made:
            for (identity, point), late in zip(at.items(), missed[:, s], strict=True):
                if late and identity not in request.identities:
                    request = request.also(identity, point.x)
            made[key] = request
        requests[s] = made[key]


def _requests(
    state: State, clients: Iterable[int], every: Array, curvature: tuple[bool, ...]
) -> dict[int, CutRequest]:
    """What clients are asked, by client; one object for all who are asked the same."""
    asked, points, first = state.asked, state.points, not state.begun
    common = CutRequest(
        every,
        asked.identities,
        curvature,
        groups=asked.groups,
        introduction=first,
        local=first and asked.local,
        lifted=bool(state.clients.lifted),
        marks=near_marks(asked.identities[0], points.previous, points.centre, points.curved),
        path=asked.path,
        reach=asked.reach if curvature == (True,) else 0.0,
    )
    kinds = {shares: replace(common, shares=shares) for shares in (False, True)}
    known = [state.pool.knows(family_of(asked.groups * parts, parts)) for parts in (1, 2)]
    out = {}
    for s in clients:
        kind = kinds[asked.groups > 1 and not known[state.clients.limits[s].split][s]]
        out[s] = replace(kind, dual=asked.dual[s]) if s in asked.dual else kind
    return out if asked.path is None else _with_bases(state, asked.path, out)


def _with_bases(
    state: State, step: PathRequest, requests: Mapping[int, CutRequest]
) -> dict[int, CutRequest]:
    """A step along the path begins where the rows of a client are, as far as the server knows."""
    made: dict[tuple[int, int], CutRequest] = {}
    out = {}
    for s, request in requests.items():
        model = (state.path or {}).get(s)
        base = -1 if model is None or step.tilt is None else model.identity
        key = id(request), base
        if key not in made:
            made[key] = replace(request, path=replace(step, base=base))
        out[s] = made[key]
    return out
