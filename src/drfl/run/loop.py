"""The loop: propose, let the engine carry, absorb, record, stop."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from drfl import checks
from drfl.arrays import Array
from drfl.client import Client, Party, intercept_message
from drfl.engines import Engine, make_engine
from drfl.gauges import DualNorm
from drfl.problem import Problem
from drfl.run.checkpoint import Checkpoint, CheckpointError, digest
from drfl.run.result import Meter, Record, Result
from drfl.solvers import Assignment, Session, Solver, Standing, Status, crossed, make_solver
from drfl.uncertainty import Ball

Callback = Callable[[Record], object]


def solve(
    problem: Problem,
    clients: Sequence[Party],
    *,
    solver: str | Solver = "bundle",
    engine: str | Engine = "serial",
    tol: float = 1e-6,
    max_rounds: int = 200,
    callbacks: Sequence[Callback] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    deadline: float | None = None,
) -> Result:
    """Minimise the problem's objective while every client keeps its rows.

    Parameters
    ----------
    problem : Problem
        What is minimised.
    clients : sequence of Client
        Who holds the data; their order is that of every result and every sum.
    solver : str or Solver
        The method: a name for its default settings, or an object with your own.
    engine : str or Engine
        How messages reach the clients. It is closed at the end, whatever happens.
    tol : float
        Stop when the proved relative gap is at most this.
    max_rounds : int
        Stop after so many rounds.
    callbacks : sequence of callables
        Each is called with the `Record` of every round; one that returns True stops the run.
    checkpoint : path, optional
        Where the answers of every round are written down. If the file exists, the run it holds
        goes on where it stopped; a file of another problem, of other clients or columns is refused.
    deadline : float, optional
        Seconds that a client has for its answer in a round; a later one counts as missing.

    Returns
    -------
    Result
        Also where the run did not get to the tolerance: its status says why.
    """
    solver, engine = make_solver(solver), make_engine(engine)
    _check_settings(problem, solver, tol, max_rounds, callbacks, deadline)
    names = _checked_names(problem, clients)
    _check_privacy(solver, clients)
    n = problem.coefficients(clients[0].n_features)
    if any(isinstance(client, Client) and client.guard is not None for client in clients):
        solver = solver.under_guards()
    session = solver.start(Assignment(problem, names, n, tol, max_rounds))
    log = (
        None
        if checkpoint is None
        else Checkpoint(checkpoint, _identity(problem, solver, clients, tol))
    )
    meter, history = Meter(names), list[Record]()
    if log is not None:
        history.extend(_replay(log, session, meter))
    standing = session.standing
    status = _status(standing)
    with engine:
        engine.start(clients, problem, solver.handlers)
        if history and status is None:
            engine.map(session.recall(), deadline)
        while status is None:
            with meter.server():
                messages = session.propose()
            answers = engine.map(messages, deadline)
            if log is not None:
                log.append(messages, answers, meter.seconds_server)
            with meter.server():
                session.absorb(answers.replies, answers.failures)
            meter.count(messages, answers)
            standing = session.standing
            history.append(meter.record(len(history) + 1, standing, answers.failures))
            # Every callback sees every record, also if another one wants to stop.
            wishes = [callback(history[-1]) for callback in callbacks]
            status = _status(standing)
            if status is None and any(wishes):
                status = Status.stopped(standing.gap, standing.within, _unheard(names, standing))
            if status is None and len(history) >= max_rounds:
                status = Status.max_rounds(standing.gap, tol, standing.within)
        own = _own_intercepts(problem, standing, names, engine, meter, deadline)
    return meter.result(standing, status, tuple(history), own)


def _own_intercepts(
    problem: Problem,
    standing: Standing,
    names: Sequence[str],
    engine: Engine,
    meter: Meter,
    deadline: float | None,
) -> dict[str, float | Array]:
    """The clients' own intercepts at the model, of those who tell; a guard keeps it to itself."""
    if not problem.own_intercepts or not math.isfinite(standing.objective):
        return {}
    messages = dict.fromkeys(names, intercept_message.request(standing.coef))
    answers = engine.map(messages, deadline)
    meter.count(messages, answers)
    return intercept_message.read(answers.replies, names, problem.classes)


def _unheard(names: Sequence[str], standing: Standing) -> list[str]:
    """Of whom the model's loss is not known, while that of others is."""
    known = {k: not math.isnan(loss) for k, loss in zip(names, standing.client_losses, strict=True)}
    return [name for name in names if not known[name]] if any(known.values()) else []


def _status(standing: Standing) -> Status | None:
    """Why the run ends, if it does; whatever a method says, crossed bounds prove nothing."""
    if crossed(standing.objective, standing.lower_bound, standing.at_zero):
        return Status.contradiction(standing.objective, standing.lower_bound)
    return standing.status


def _replay(log: Checkpoint, session: Session, meter: Meter) -> Iterator[Record]:
    """Let the session absorb what was recorded; the clients are not asked again."""
    for number, recorded in enumerate(log.rounds(), start=1):
        messages = session.propose()
        if digest(messages) != recorded.digest:
            raise CheckpointError(
                f"{log.path} was made by another version of drfl or on another machine, and its "
                "numbers cannot be repeated here: remove the file and start again"
            )
        session.absorb(recorded.answers.replies, recorded.answers.failures)
        meter.count(messages, recorded.answers)
        meter.seconds_server = recorded.seconds_server
        yield meter.record(number, session.standing, recorded.answers.failures)


def _identity(
    problem: Problem, solver: Solver, clients: Sequence[Party], tol: float
) -> dict[str, Any]:
    """What a checkpoint must agree on."""
    names = clients[0].columns
    return {
        "problem": problem.to_dict(),
        "solver": [solver.name, repr(solver)],
        "tol": tol,
        "clients": [client.name for client in clients],
        "columns": list(names) if names else clients[0].n_features,
    }


def _check_settings(
    problem: Problem,
    solver: Solver,
    tol: float,
    max_rounds: int,
    callbacks: Sequence[Callback],
    deadline: float | None,
) -> None:
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {type(problem).__name__}")
    require_known(solver, problem)
    checks.number("tol", tol, above=0.0)
    checks.whole("max_rounds", max_rounds, least=1)
    if not (isinstance(callbacks, Sequence) and all(callable(c) for c in callbacks)):
        raise TypeError("callbacks must be a list of callables that take a Record")
    checks.optional(checks.number, "deadline", deadline, above=0.0)


def require_known(solver: Solver, problem: Problem) -> None:
    """Refuse a problem that a solver does not know."""
    lacking = unknown(solver, problem)
    if lacking is not None:
        raise ValueError(f"the solver {solver.name!r} {lacking[0]}: {lacking[1]}")


def unknown(solver: Solver, problem: Problem) -> tuple[str, str] | None:
    """What of a problem a solver does not know, and what to do; None: it knows everything."""
    if problem.network is not None and not solver.networks:
        return "needs a loss of one score", (
            "for networks take a method that uses gradients alone, such as fedavg"
        )
    if problem.shared_ball and not solver.shared_ball:
        return "has no shared ball", "take shared_ball=False"
    if problem.mixture.is_capped and not solver.max_weight:
        return "knows no max_weight", "take solver='bundle', or leave it out"
    if problem.curves is not None and not solver.curves:
        return "knows no curves", "take solver='bundle'"
    if problem.own_intercepts and not solver.own_intercepts:
        return "knows no intercept per client", "take solver='bundle', or intercept='shared'"
    if problem.classes is not None and not solver.joint:
        return (
            "knows no several classes at once",
            "take solver='bundle', or one class against the rest",
        )
    scored = problem.curves is None and problem.classes is None and problem.network is None
    if scored and not solver.gauges and not isinstance(problem.gauge(1), DualNorm):
        return "knows no gauge but the dual norm", "take solver='bundle'"
    return None


def _check_privacy(solver: Solver, clients: Sequence[Party]) -> None:
    """Noise is for a method that knows it, and for clients that all want it."""
    here = [client for client in clients if isinstance(client, Client)]
    for client in here:
        if client.privacy is not None and not solver.private:
            raise ValueError(
                f"client {client.name!r} has differential privacy, which the solver "
                f"{solver.name!r} does not keep: take solver='private'"
            )
        if client.privacy is None and solver.private:
            raise ValueError(
                f"client {client.name!r} has no differential privacy, which the solver "
                f"{solver.name!r} needs: give it privacy=DifferentialPrivacy(...)"
            )


def _checked_names(problem: Problem, clients: Sequence[Party]) -> tuple[str, ...]:
    """The clients' names, if the clients fit together and the problem knows them."""
    if not (isinstance(clients, Sequence) and all(isinstance(c, Party) for c in clients)):
        raise TypeError("clients must be a list of drfl.Client")
    if not clients:
        raise ValueError("there is no client: give at least one drfl.Client")
    names = tuple(client.name for client in clients)
    known = set[str]()
    for name in names:
        if name in known:
            raise ValueError(f"two clients are called {name!r}: give every client its own name")
        known.add(name)
    _check_columns(clients)
    unknown = [] if isinstance(problem.ball, Ball) else [s for s in problem.ball if s not in known]
    if unknown:
        raise ValueError(f"the problem has a ball for {unknown[0]!r}, but there is no such client")
    center = problem.mixture.center
    if not isinstance(center, str) and len(center) != len(names):
        raise ValueError(f"the mixture has {len(center)} weights, but {len(names)} clients exist")
    for name in names:
        problem.ball_of(name)
    return names


def _check_columns(clients: Sequence[Party]) -> None:
    first = clients[0]
    for client in clients[1:]:
        if client.n_features != first.n_features:
            raise ValueError(
                f"client {client.name!r} has {client.n_features} columns, but "
                f"{first.name!r} has {first.n_features}: all need the same"
            )
    named = [client for client in clients if client.columns is not None]
    for client in named[1:]:
        pairs = zip(named[0].columns or (), client.columns or (), strict=True)
        for k, (one, other) in enumerate(pairs):
            if one != other:
                raise ValueError(
                    f"column {k} is {one!r} at client {named[0].name!r} but {other!r} at "
                    f"{client.name!r}: all need the same columns in the same order"
                )
