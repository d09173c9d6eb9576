"""From settings and an agreement to the problem that is solved, and those that are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from drfl import checks, defaults
from drfl._registry import listed, lookup
from drfl.curves import Curves, standard_knots
from drfl.inference import NO_TRUE_SLOPES
from drfl.losses import LOSSES, Loss, make_loss
from drfl.named_problems import NAMED_PROBLEMS, NO_RULES_OF_ERM, restated
from drfl.privacy.dp import NO_CURVES, DifferentialPrivacy
from drfl.privacy.guard import LEAST as LEAST_ROWS
from drfl.problem import Problem
from drfl.problem.multiclass import AT_ONCE, MULTICLASS, together
from drfl.protocols.agreement import Agreement
from drfl.run.loop import require_known, unknown
from drfl.solvers import Assignment, Solver, configured, make_solver
from drfl.supports import Box
from drfl.tables import Number
from drfl.training.settings import FIELDS, RULES, Settings
from drfl.uncertainty import Ball, Mixture

if TYPE_CHECKING:
    from drfl.native.settings import Native


def check_before_reading(settings: Settings) -> None:
    """Refuse settings that are wrong whatever the data are."""
    from drfl.engines import ENGINES
    from drfl.norms import NORMS
    from drfl.solvers import SOLVERS

    lookup("norm", settings["norm"], NORMS)
    lookup("multiclass", settings["multiclass"], MULTICLASS)
    if settings["radius"] == "confidence" and settings["multiclass"] == AT_ONCE:
        raise ValueError(
            "--radius confidence is for one score at a time: take --multiclass ovr, or a number"
        )
    if settings["module"] is not None:
        check_network(settings)
    else:
        if settings["loss"] != "auto":
            lookup("loss", settings["loss"], LOSSES)
        lookup("solver", settings["solver"], SOLVERS)
        for name in ONLY_NETWORKS:
            if settings[name] != FIELDS[name].default:
                raise ValueError(f"{name} is for networks: give --module, or leave it out")
    lookup("engine", settings["engine"], ENGINES)
    checks.number("tol", settings["tol"], above=0.0)
    checks.whole("max_rounds", settings["max_rounds"], least=1)
    checks.whole("folds", settings["folds"], least=2)
    Ball(norm=settings["norm"], label_cost=settings["label_cost"])
    if settings["radius"] == "confidence":
        _check_confidence(settings)
    elif settings["radius"] != "auto":
        for radius in _radii(settings, list(settings.clients), 0.0):
            Ball(radius=radius)
    _mixture(settings, len(settings.clients))
    for name in settings["compare"]:
        lookup("method", name, dict.fromkeys(known_methods()))
    _check_selection(settings)
    if settings["knots"] != FIELDS["knots"].default and not settings["additive"]:
        raise ValueError("knots is for curves: name their columns in --additive, or leave it out")
    if settings["additive"] and (settings["guard"] == "dp" or settings.private):
        raise ValueError(NO_CURVES)
    if settings["additive"] and settings["solver"] != "bundle":
        raise ValueError(f"the solver {settings['solver']!r} knows no curves: take solver='bundle'")
    if settings["guard"] == "dp" or settings.private:
        check_privacy(settings)
    else:
        _refuse_privacy(settings)
        check_guard(settings)


def _check_selection(settings: Settings) -> None:
    """Refuse what a rule of selection needs and has not, or does not go with."""
    rule = settings["select"]
    if rule:
        lookup("rule", rule, RULES)
    if rule == "noise" and settings["noise_scale"] is None:
        raise ValueError("--select noise needs --noise-scale: the deviation of the noise")
    if rule != "noise" and settings["noise_scale"] is not None:
        raise ValueError("noise_scale is for --select noise: name that rule, or leave it out")
    if rule == "new_client" and any(settings[shape] for shape in RULES_OF_SHAPE):
        raise ValueError(NO_RULES_OF_ERM)


ONLY_NETWORKS = ("order", "local_steps", "step_size", "batch_size", "participation")
ONLY_LINES = (
    *("support", "label_cost", "additive", "select", "compare", "guard", "intercept"),
    "multiclass",
)


def check_network(settings: Settings) -> None:
    """Refuse, before any file is read, what a network does not go with."""
    from drfl.native import METHODS
    from drfl.torch import OUTPUT_LOSSES, factory_of

    for name in (*ONLY_LINES, "epsilon", "quantile"):
        if settings[name] != FIELDS[name].default:
            raise ValueError(f"{name} is for linear models: leave it out, or leave out --module")
    if settings["radius"] == "confidence":
        raise ValueError("radius = 'confidence' is for linear models: give a number")
    if settings["loss"] != "auto":
        lookup("loss", settings["loss"], OUTPUT_LOSSES)
    configured_method(settings, lookup("solver", settings["solver"], METHODS))
    factory_of(completed_name(settings, 1, 1))  # so that an unknown one is told now


def configured_method(settings: Settings, method: type[Native]) -> Native:
    """A method for networks, with its settings."""
    names = ("local_steps", "step_size", "batch_size", "participation", "seed")
    # The mean of two networks is not between them.
    return configured(method, averaged=False, **{name: settings[name] for name in names})


def completed_name(settings: Settings, inputs: int, outputs: int) -> str:
    """The module's name, with its first and its last layer."""
    from drfl.torch import completed

    return completed(settings["module"], inputs, outputs)


def make_problem(
    settings: Settings, agreement: Agreement, curves: Curves | None, classes: int | None
) -> Problem:
    """The problem that the settings state for these clients, with such curves and classes."""
    if settings["module"] is not None:
        return _network_problem(settings, agreement)
    names = list(agreement.rows)
    rows = float(sum(agreement.rows.values()))
    factor = defaults.purpose_of(settings["purpose"]).factor
    columns = len(agreement.features) if curves is None else curves.n_slopes
    radii = _radii(settings, names, defaults.radius_of(factor, columns, rows))
    mixture = _mixture(settings, len(names))
    mixture.resolve(list(agreement.rows.values()))  # so that too small a max_weight is told now
    return Problem(
        _loss(settings, agreement.target.task),
        _balls(_ball(settings, agreement), names, radii),
        mixture,
        intercept=settings["intercept"],
        curves=curves,
        classes=classes,
    )


def _network_problem(settings: Settings, agreement: Agreement) -> Problem:
    """The same about a network: balls of another order, and no rule for their radius."""
    from drfl.torch import OUTPUT_LOSSES, Model

    names, target, loss = list(agreement.rows), agreement.target, settings["loss"]
    if loss == "auto":
        loss = "huber" if target.classes is None else "cross_entropy"
    if OUTPUT_LOSSES[loss].task != target.task:
        fitting = [name for name, kind in OUTPUT_LOSSES.items() if kind.task == target.task]
        raise ValueError(f"the loss {loss!r} does not fit the target: take {listed(fitting)}")
    classes = len(target.classes or ())
    if loss == "logistic" and classes > 2:
        raise ValueError(f"the loss logistic is for two classes, not {classes}: leave it out")
    outputs = classes if loss == "cross_entropy" else 1
    model = Model(completed_name(settings, len(agreement.features), outputs), loss)
    ball = Ball(norm=settings["norm"], order=settings["order"])
    balls = _balls(ball, names, _radii(settings, names, 0.0))
    return Problem(model, balls, _mixture(settings, len(names)))


def _ball(settings: Settings, agreement: Agreement) -> Ball:
    """The balls' norm, label cost and support."""
    support = _support(settings["support"], agreement)
    return Ball(norm=settings["norm"], label_cost=settings["label_cost"], support=support)


def _balls(ball: Ball, names: Sequence[str], radii: Sequence[float]) -> Ball | dict[str, Ball]:
    """One ball, or one for each client where radii differ."""
    balls = [replace(ball, radius=radius) for radius in radii]
    return balls[0] if len(set(radii)) == 1 else dict(zip(names, balls, strict=True))


def classes_together(
    settings: Settings, agreement: Agreement, curves: Curves | None
) -> tuple[int | None, str]:
    """How many classes one problem tells apart (None: every problem is of one score), and why."""
    target = agreement.target
    if target.classes is None or settings["module"] is not None:
        return None, ""
    return together(
        len(target.classes),
        len(agreement.features) if curves is None else curves.n_slopes,
        settings["multiclass"],
        loss=_loss(settings, target.task),
        ball=_ball(settings, agreement),
        intercept=settings["intercept"],
        solver=settings["solver"],
        radius=settings["radius"],
        shaped=any(settings[rule] for rule in RULES_OF_SHAPE),
    )


RULES_OF_SHAPE = ("increasing", "decreasing", "convex", "concave", "flat_ends")


def wanted_curves(settings: Settings, agreement: Agreement) -> Curves | None:
    """The curves of the columns that the settings name; knots are in the agreed standard units.

    Which knots are kept depends on the clients' rows.
    """
    wanted = ("all",) if settings["additive"] == ("auto",) else settings["additive"]
    numbers = [c.name for c in agreement.columns if isinstance(c, Number)]
    curved = numbers if wanted == ("all",) else wanted
    _check_columns_of_curves(settings, agreement, curved)
    if not wanted:
        return None
    if agreement.scale == "none":
        raise ValueError("additive needs scaled columns, so that knots are in standard units")
    at = standard_knots(settings["knots"])
    knots: list[tuple[float, ...]] = []
    shapes: list[tuple[str, ...]] = []
    for column in agreement.columns:
        own = column.name in curved
        ruled = [rule for rule in RULES_OF_SHAPE if column.name in settings[rule]]
        rules = tuple(rule.replace("_", " ") for rule in ruled)
        # Beside a number there may be a mark where it was missing, which stays linear.
        beside = len(column.features) - 1
        knots += [at if own else (), *[()] * beside]
        shapes += [rules, *[()] * beside]
    return Curves(tuple(knots), tuple(shapes))


def _check_columns_of_curves(
    settings: Settings, agreement: Agreement, curved: Sequence[str]
) -> None:
    """Refuse names that no column has, curves of categories, and rules for what has no curve."""
    numbers = {c.name: isinstance(c, Number) for c in agreement.columns}
    ruled = [(rule, name) for rule in RULES_OF_SHAPE for name in settings[rule]]
    for option, name in [*(("additive", name) for name in curved), *ruled]:
        if name not in numbers:
            raise ValueError(f"{option} names {name!r}, but the columns are {listed(numbers)}")
        if not numbers[name]:
            raise ValueError(f"{option} names {name!r}, which holds categories: they have no curve")
    for rule, name in ruled:
        if name not in curved:
            raise ValueError(f"{rule} names {name!r}: name it in additive too")


OWN_MOMENTS = (
    "numbers are scaled at every client by itself, which hides what differs between clients: such "
    "models were worse in all 8 data sets of our study, clearly in 6 (docs/usefulness.md); take "
    "--scale federated unless you know why not"
)


def advice(settings: Settings, agreement: Agreement) -> list[str]:
    """Sentences about settings that have served others badly."""
    found = [OWN_MOMENTS] if agreement.scale == "per-client" else []
    few = defaults.crowded(len(agreement.features), float(sum(agreement.rows.values())))
    if few is not None and settings["radius"] == "auto" and not settings["select"]:
        found.append(few)
    if settings["by"] or settings["threshold"] != FIELDS["threshold"].default:
        found += _unjudged(settings, agreement)
    return found


def _unjudged(settings: Settings, agreement: Agreement) -> list[str]:
    """Why nothing comes of thresholds and groups that were named."""
    what = "threshold and by are for the probabilities of a validation"
    if not settings["validation"]:
        return [f"{what}, which is left out: `drfl evaluate` has both"]
    if settings["module"] is None:
        loss = _loss(settings, agreement.target.task)
        return [] if loss.probabilistic else [f"{what}, which the loss {loss.name!r} does not give"]
    return []


def _radii(settings: Settings, names: Sequence[str], auto: float) -> list[float]:
    radius = settings["radius"]
    if radius == "auto":
        return [auto] * len(names)
    if radius == "confidence":  # found at the model without a radius
        return [0.0] * len(names)
    if not isinstance(radius, dict):
        return [radius] * len(names)
    for name in names:
        if name not in radius:
            raise ValueError(f"radius has no entry for client {name!r}: it has {listed(radius)}")
    for name in radius:
        if name not in names:
            raise ValueError(f"radius has an entry for {name!r}: the clients are {listed(names)}")
    return [radius[name] for name in names]


def _check_confidence(settings: Settings) -> None:
    """Refuse what a radius of confidence does not go with."""
    if settings["guard"] is not None or settings.private:
        raise ValueError(
            "radius = 'confidence' asks clients for matrices that a guard does not let out: give a "
            "number, or leave out the guard"
        )
    if settings["additive"]:
        raise ValueError(NO_TRUE_SLOPES)
    if settings["select"]:
        raise ValueError("radius = 'confidence' is no choice of --select: leave out one of them")


def _loss(settings: Settings, task: str) -> Loss:
    name = settings["loss"]
    if name == "auto":
        private = task == "classification" and settings.private
        name = "logistic" if private else defaults.LOSSES[task]
    kind = lookup("loss", name, LOSSES)
    if kind.task != task:
        fitting = [known for known, other in LOSSES.items() if other.task == task]
        what = "a numeric target" if task == "regression" else "classes"
        raise ValueError(f"the loss {name!r} is not for {what}: take one of {listed(fitting)}")
    given = {key: settings[key] for key in ("epsilon", "quantile") if settings[key] is not None}
    try:
        return make_loss(name, **given)
    except TypeError:
        raise ValueError(f"the loss {name!r} has no {' or '.join(given)}: leave it out") from None


def _mixture(settings: Settings, clients: int) -> Mixture:
    radius, center = settings["mixture_radius"], settings["mixture_center"]
    if radius == "auto":
        radius = (
            0.0 if settings.private else defaults.purpose_of(settings["purpose"]).mixture_radius
        )
    if not isinstance(center, str) and len(center) != clients:
        raise ValueError(
            f"--mixture-center has {len(center)} weights, but there are {clients} clients"
        )
    return Mixture(center, radius, settings["mixture_norm"], settings["max_weight"])


def _support(bounds: Mapping[str, tuple[float, float]], agreement: Agreement) -> Any:
    """The box in scaled units; features of categories are between 0 and 1."""
    if not bounds:
        return None
    low: list[float] = []
    high: list[float] = []
    for column in agreement.columns:
        marks = len(column.features)
        if isinstance(column, Number):
            pair = np.array(bounds.get(column.name, (-math.inf, math.inf)))
            least, most = ((pair - column.shift) / column.scale).tolist()
            low, high, marks = [*low, least], [*high, most], marks - 1
        low += [0.0] * marks
        high += [1.0] * marks
    target = agreement.target
    y = bounds.get(target.name, (-math.inf, math.inf))
    if target.classes is not None and target.name in bounds:
        raise ValueError(f"the target {target.name!r} has classes: the support cannot bound it")
    y_low, y_high = ((bound - target.shift) / target.scale for bound in y)
    return Box(low, high, y_low, y_high)


EXACT = {name: problem.text for name, problem in NAMED_PROBLEMS.items()}
"""Problems solved to a proved optimum."""


def native_methods() -> dict[str, type[Native]]:
    """The methods' own iterations, which prove nothing; "_steps" tells them from exact ones."""
    from drfl.native import METHODS

    return {f"{name}_steps" if name in EXACT else name: kind for name, kind in METHODS.items()}


def known_methods() -> list[str]:
    """Every name."""
    return [*EXACT, *native_methods()]


def stated(name: str, problem: Problem, rows: Sequence[int], seed: int) -> tuple[Problem, Solver]:
    """The problem and the solver of a method, for clients with so many rows.

    A method of one score tells each class from the rest, however the model does.
    """
    native = native_methods().get(name)
    solver = make_solver("bundle") if native is None else native(seed=seed)
    named = name if native is None else native.problem
    if not solver.joint or NAMED_PROBLEMS[named].fixed["shared_ball"]:
        problem = replace(problem, classes=None)
    return restated(problem, named, rows), solver


def check_compared(settings: Settings, problem: Problem, rows: Sequence[int]) -> None:
    """Refuse, before any training, methods to compare that do not know such a problem."""
    for name in settings["compare"]:
        try:
            compared, solver = stated(name, problem, rows, settings["seed"])
        except ValueError as error:
            raise ValueError(f"leave {name} out of --compare: {error}") from None
        lacking = unknown(solver, compared)
        if lacking is not None:
            raise ValueError(f"leave {name} out of --compare: it {lacking[0]}")


def check_solver(
    settings: Settings, agreement: Agreement, problem: Problem, solver: Solver
) -> None:
    """Refuse, before anything is written, a problem that the solver does not know."""
    require_known(solver, problem)
    if settings["radius"] == "confidence" and problem.loss.curvature_bound == 0.0:
        raise ValueError(
            "radius = 'confidence' needs a loss with a second derivative, and "
            f"{problem.loss.name!r} has none: take logistic, smooth_hinge or huber, or a number"
        )
    found_later = settings["select"] or settings["radius"] == "confidence"
    if problem.network is None and not found_later:
        names, n = tuple(agreement.rows), problem.coefficients(len(agreement.features))
        solver.start(Assignment(problem, names, n, settings["tol"], settings["max_rounds"]))


def check_folds(settings: Settings, rows: Mapping[str, int]) -> None:
    """Refuse, before anything is written, a selection for which a client has too few rows."""
    least = min(rows, key=lambda name: rows[name])
    if settings["select"] not in (None, "new_client") and rows[least] < settings["folds"]:
        raise ValueError(
            f"client {least!r} cannot split {rows[least]} row{'s' if rows[least] > 1 else ''} into "
            f"{settings['folds']} folds, as --select does: take fewer folds, or leave it out"
        )


PRIVATE_NORM = 0.7
"""Of a row in units of half the ranges, by default, times the root of the number of columns."""


def privacy_of(settings: Settings) -> DifferentialPrivacy:
    """What guard = dp promises, without a ledger."""
    if settings["privacy_epsilon"] is None:
        raise ValueError("--guard dp needs --privacy-epsilon: 1, say")
    norm = settings["privacy_norm"]
    if norm is None:
        columns = [name for name in settings["ranges"] if name != settings["target"]]
        norm = PRIVATE_NORM * math.sqrt(max(1, len(columns)))
    return DifferentialPrivacy(settings["privacy_epsilon"], settings["privacy_delta"], norm)


def check_privacy(settings: Settings) -> None:
    """Refuse, before any file is read, what differential privacy does not know."""
    if settings["guard"] == "dp":
        privacy_of(settings)
        if settings["solver"] != "private":
            raise ValueError(
                f"--guard dp does not know the solver {settings['solver']!r}: leave it out"
            )
    elif settings["guard"] is not None:
        raise ValueError("the solver 'private' needs --guard dp, or sites that have set it")
    if not settings["ranges"]:
        raise ValueError("--guard dp needs public --ranges of all columns: AGE=0:120,BMI=10:80")
    if settings["select"] or settings["compare"]:
        raise ValueError("--guard dp has no noise for --select and --compare: leave them out")


ONLY_PRIVACY = ("privacy_epsilon", "privacy_delta", "privacy_norm", "ranges", "classes")


def _refuse_privacy(settings: Settings) -> None:
    """Refuse settings of differential privacy without it: who gives them believes to have it."""
    for name in ONLY_PRIVACY:
        if settings[name] != FIELDS[name].default:
            raise ValueError(
                f"{name} is for differential privacy: give --guard dp, or leave it out"
            )


COMPARED = [name for name, problem in NAMED_PROBLEMS.items() if not problem.fixed["shared_ball"]]
"""Methods that ask guarded clients nothing but what their ledgers allow."""


def check_guard(settings: Settings) -> None:
    """Refuse, before any file is read, what a guard does not know."""
    if settings["guard"] is None:
        return
    checks.whole("--guard", settings["guard"], least=LEAST_ROWS)
    if settings["solver"] != "bundle":
        raise ValueError(
            f"a guard does not know the solver {settings['solver']!r}: take bundle, or no guard"
        )
    if settings["support"]:
        raise ValueError("a guard does not know a support: leave out the support, or the guard")
    if settings["additive"] == ("auto",):
        raise ValueError(
            "a guard does not go with --additive auto, whose folds would pass it by: name the "
            "columns, or leave out the guard"
        )
    if settings["select"]:
        raise ValueError(
            "a guard does not go with --select, whose folds would pass it by: give --radius, or "
            "leave out the guard"
        )
    for name in settings["compare"]:
        if name not in COMPARED:
            raise ValueError(
                f"a guard does not let {name!r} be compared, it knows {', '.join(COMPARED)}: "
                "compare these, or leave out the guard"
            )
