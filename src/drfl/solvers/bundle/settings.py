"""Settings of the bundle method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from drfl import checks


@dataclass(frozen=True)
class BundleSettings:
    """What can be chosen; the defaults are what measured best.

    Attributes
    ----------
    curvature : {"auto", "never"}
        Whether clients are asked for second-order information (they may refuse).
    groups : int or None
        How many groups of rows a client sends cuts of; None: from the dimension.
    dual_cuts : bool
        Whether smooth losses use cuts made of the master's multipliers.
    second_point : bool
        Whether a round may carry a second, bolder point.
    smallest : bool
        Whether a run goes on where no radius singles out an optimum, to prove where all optima are
        and to find the one of smallest norm.
    warm_start : bool
        Whether the clients' own optima are asked for in the first round.
    guarded : bool
        Whether some clients have guards, which the first-order method does not keep: up to 8000
        columns then stay with this one.
    column_sizes : mapping of str to (n,) numbers, optional
        By client the root mean square of each of its columns, or more, if the server knows it
        from elsewhere: answers that such columns cannot give are refused.
    """

    curvature: str = "auto"
    groups: int | None = None
    dual_cuts: bool = True
    second_point: bool = True
    smallest: bool = True
    warm_start: bool = True
    guarded: bool = False
    column_sizes: Mapping[str, Sequence[float]] | None = field(
        default=None, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.curvature not in ("auto", "never"):
            raise ValueError(f"curvature must be 'auto' or 'never', got {self.curvature!r}")
        for name in ("dual_cuts", "second_point", "smallest", "warm_start", "guarded"):
            checks.flag(name, getattr(self, name))
        checks.optional(checks.whole, "groups", self.groups, least=1)
