r"""The table that a statistician reads: coefficients, errors, intervals, odds ratios, tests."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import chi2, norm

from drfl import checks
from drfl._registry import listed, lookup
from drfl.arrays import Array
from drfl.inference.estimate import KINDS, Estimate, InferenceError

if TYPE_CHECKING:
    import pandas as pd

CLUSTERS = 20
"""With fewer clients, errors that are clustered by client are too small."""
INTERCEPT = "intercept"


class FewClustersWarning(UserWarning):
    """Standard errors are clustered by fewer clients than are needed."""


@dataclass(frozen=True)
class Wald:
    r"""The test that several coefficients are all zero.

    :math:`\beta_J^T\Sigma_{JJ}^{-1}\beta_J`, in ``degrees`` degrees of freedom.
    """

    statistic: float
    degrees: int
    p: float


@dataclass(frozen=True, eq=False)
class Inference:
    """The unpenalised estimate with its standard errors; beside it the robust coefficients.

    Print it for a table.

    Attributes
    ----------
    names : tuple of str
        Of the coefficients, the intercept last; a column that is zero in all rows has none.
    robust, coef : arrays of shape (d,)
        The robust model, and the estimate that everything below belongs to.
    covariance : array of shape (d, d)
        Of the estimate.
    kind : {"model", "robust", "clustered"}
        How it was taken.
    level : float
        Of the intervals.
    odds : bool
        Whether exponentials of coefficients are odds ratios.
    weights, rows : dict of str to float
        The clients' weights in what is estimated, and their rows.
    log_likelihood : float or None
        Of all rows at the estimate, if the loss is that of a likelihood.
    factors : dict of str to tuple of str
        The coefficients of every column.
    steps : int
        Corrections from the robust model to the estimate.
    """

    names: tuple[str, ...]
    robust: Array
    coef: Array
    covariance: Array
    kind: str
    level: float
    odds: bool
    weights: dict[str, float]
    rows: dict[str, float]
    log_likelihood: float | None
    factors: Mapping[str, tuple[str, ...]]
    steps: int

    @classmethod
    def of(
        cls,
        estimate: Estimate,
        names: Sequence[str],
        *,
        kind: str = "robust",
        level: float = 0.95,
        odds: bool = False,
        factors: Mapping[str, tuple[str, ...]] | None = None,
        units: tuple[Array, Array] | None = None,
    ) -> Inference:
        """From an estimate, in units of its own.

        Parameters
        ----------
        estimate : Estimate
            In scaled units.
        names : sequence of str
            Of the features.
        kind, level, odds, factors
            As the attributes; every feature is a factor of its own by default.
        units : tuple of arrays (d, d) and (d,), optional
            What the coefficients are multiplied by, and what is added.
        """
        lookup("kind", kind, dict.fromkeys(KINDS))
        checks.number("level", level, above=0.0, below=1.0)
        if kind not in estimate.covariances:
            raise InferenceError(estimate.refusals[kind])
        clients = len(estimate.weights)
        if kind == "clustered" and clients < CLUSTERS:
            warnings.warn(
                f"errors clustered by {clients} clients are too small: they need at least "
                f"{CLUSTERS}; take kind='robust', which speaks of these clients alone",
                FewClustersWarning,
                stacklevel=3,
            )
        d = len(estimate.point)
        T, shift = (np.eye(d), np.zeros(d)) if units is None else units
        at = np.flatnonzero(estimate.used)
        full = tuple((*names, INTERCEPT)[j] for j in at)
        return cls(
            names=full,
            robust=(T @ estimate.robust + shift)[at],
            coef=(T @ estimate.point + shift)[at],
            covariance=(T @ estimate.covariances[kind] @ T.T)[np.ix_(at, at)],
            kind=kind,
            level=level,
            odds=odds,
            weights=dict(estimate.weights),
            rows=dict(estimate.rows),
            log_likelihood=estimate.log_likelihood,
            factors=_present(factors or {name: (name,) for name in names}, full),
            steps=estimate.steps,
        )

    @property
    def standard_error(self) -> Array:
        """Of every coefficient (d,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def z(self) -> Array:
        """Coefficients in standard errors (d,)."""
        return self.coef / self.standard_error

    @property
    def p(self) -> Array:
        """Two-sided p-values (d,)."""
        return np.asarray(2.0 * norm.sf(np.abs(self.z)))

    @property
    def interval(self) -> tuple[Array, Array]:
        """The ends of the intervals, (d,) each."""
        half = float(norm.ppf(0.5 + 0.5 * self.level)) * self.standard_error
        return self.coef - half, self.coef + half

    @property
    def deviance(self) -> float | None:
        """Minus twice the log-likelihood."""
        return None if self.log_likelihood is None else -2.0 * self.log_likelihood

    def wald(self, names: Iterable[str]) -> Wald:
        """Test that all of these coefficients are zero."""
        places = {name: j for j, name in enumerate(self.names)}
        at = [lookup("coefficient", name, places) for name in dict.fromkeys(names)]
        if not at:
            raise ValueError("a test needs a coefficient: name one at least")
        cov = self.covariance[np.ix_(at, at)]
        # In standard errors, so that the units of the columns say nothing about the rank.
        error = np.sqrt(np.diag(cov))
        z, cov = self.coef[at] / error, cov / np.outer(error, error)
        if np.linalg.matrix_rank(cov) < len(at):
            raise InferenceError(
                f"the covariance of {listed([self.names[j] for j in at])} is singular: there are "
                "too few clients for clustered errors"
            )
        statistic = float(z @ np.linalg.solve(cov, z))
        return Wald(statistic, len(at), float(chi2.sf(statistic, len(at))))

    def tests(self) -> dict[str, Wald | None]:
        """The Wald test of every column; None where the clients are too few for it."""
        found: dict[str, Wald | None] = {}
        for column, names in self.factors.items():
            try:
                found[column] = self.wald(names)
            except InferenceError:
                found[column] = None
        return found

    def records(self) -> list[dict[str, Any]]:
        """One object per coefficient."""
        low, high = self.interval
        found = []
        for j, name in enumerate(self.names):
            entry = {"name": name, "robust": self.robust[j], "coef": self.coef[j]}
            entry |= {"se": self.standard_error[j], "z": self.z[j], "p": self.p[j]}
            entry |= {"low": low[j], "high": high[j]}
            if self.odds:
                with np.errstate(over="ignore"):
                    ratios = np.exp([self.coef[j], low[j], high[j]]).tolist()
                entry |= dict(zip(("odds_ratio", "odds_low", "odds_high"), ratios, strict=True))
            found.append({k: v if k == "name" else float(v) for k, v in entry.items()})
        return found

    def to_frame(self) -> pd.DataFrame:
        """The table as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.records()).set_index("name")

    def lines(self) -> list[str]:
        """The table as text."""
        return [*self.heading(), "", *self.body(), "", *self.factor_lines()]

    def heading(self) -> list[str]:
        """What is estimated, from what."""
        total = sum(self.rows.values())
        lines = [
            f"the unpenalised estimate, {_counted(self.steps, 'step')} from the robust model; "
            f"{self.kind} standard errors, intervals at {100 * self.level:g} %",
            f"{total:g} rows of {_counted(len(self.rows), 'client')}; weight in the target (rows): "
            + ", ".join(f"{c} {w:.4g} ({self.rows[c]:g})" for c, w in self.weights.items()),
        ]
        if self.log_likelihood is not None:
            told = (
                f"log-likelihood {self.log_likelihood:.6g}, deviance {-2 * self.log_likelihood:.6g}"
            )
            lines.append(told)
        return lines

    def body(self) -> list[str]:
        """A line for every coefficient."""
        width = max(len(name) for name in ("coefficient", *self.names))
        tail = 50.0 * (1.0 - self.level)
        ends = f"{f'[{tail:g} %':>9} {f'{100 - tail:g} %]':>9}"
        heads = f"{'robust':>9} {'estimate':>9} {'std err':>8} {'z':>7} {'P>|z|':>7} {ends}"
        odds = f" {'odds':>9} {'from':>9} {'to':>9}" if self.odds else ""
        lines = [f"{'coefficient':{width}} {heads}{odds}"]
        for r in self.records():
            line = (
                f"{r['name']:{width}} {_short(r['robust'])} {_short(r['coef'])} "
                f"{_short(r['se'], 8)} {r['z']:>7.2f} {r['p']:>7.4f} {_short(r['low'])} "
                f"{_short(r['high'])}"
            )
            if self.odds:
                keys = ("odds_ratio", "odds_low", "odds_high")
                line += "".join(f" {_short(r[key])}" for key in keys)
            lines.append(line)
        return lines

    def factor_lines(self) -> list[str]:
        """The Wald tests of factors: columns whose coefficients are of levels, or pieces."""
        lines = []
        for column, test in self.tests().items():
            if self.factors[column] != (column,):  # a column of numbers has its own line
                told = (
                    "too few clients for this test"
                    if test is None
                    else f"chi2 {test.statistic:.4g}, {test.degrees} degrees, p {test.p:.4g}"
                )
                n = len(self.factors[column])
                what = f"all {n} are zero" if n > 1 else "its coefficient is zero"
                lines.append(f"{column}: {what}: {told}".replace("1 degrees", "1 degree"))
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__


def _present(
    factors: Mapping[str, tuple[str, ...]], names: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """The factors with those of their coefficients that are estimated."""
    kept = {column: tuple(n for n in own if n in names) for column, own in factors.items()}
    return {column: own for column, own in kept.items() if own}


def _counted(count: int, what: str) -> str:
    """How many of something.

    Examples
    --------
    >>> _counted(1, "step"), _counted(3, "step")
    ('1 step', '3 steps')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def _short(value: float, width: int = 9) -> str:
    return f"{value:>{width}.4g}"


def file_units(
    shift: Array, scale: Array, target_shift: float, target_scale: float, d: int
) -> tuple[Array, Array]:
    r"""From scaled columns to those of a file: what (w, b) is multiplied by, and what is added.

    :math:`w_j\mapsto\tau w_j/\sigma_j` and :math:`b\mapsto t+\tau(b-\sum_jw_j\mu_j/\sigma_j)`.

    Parameters
    ----------
    shift, scale : arrays of shape (n,)
        :math:`\mu` and :math:`\sigma`.
    target_shift, target_scale : float
        t and :math:`\tau`; 0 and 1 for classes.
    d : int
        n, or n + 1 with an intercept.
    """
    n = len(scale)
    T, moved = np.zeros((d, d)), np.zeros(d)
    T[:n, :n] = np.diag(target_scale / scale)
    if d > n:
        T[n, :n], T[n, n] = -target_scale * shift / scale, target_scale
        moved[n] = target_shift
    return T, moved
