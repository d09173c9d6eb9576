r"""A network as a vector: what travels, and the loss of a row.

A model is a module together with the loss of one row,

.. math:: L(x; a, y) = \ell(f_x(a), y),

where :math:`x\in R^d` holds the parameters of the module, in their order. Only x travels. Every
client knows the module by its name: it is code that is installed there, never something that came
with a message.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from drfl._registry import lookup
from drfl.arrays import Array
from drfl.differentiable import RowLoss
from drfl.losses import Task
from drfl.norms import L1, L2, LInf
from drfl.rows import Rows
from drfl.supports import WholeSpace
from drfl.uncertainty import Ball

if TYPE_CHECKING:
    from drfl.torch.client import NetworkLoss

Factory = Callable[[], nn.Module]
OutputLoss = Callable[[Tensor, Tensor], Tensor]

MODULES: dict[str, Factory] = {}
"""Modules by name: what builds them. Server and clients register the same."""

INSTALLED = "drfl.modules"
"""Where installed packages name theirs: a group of entry points, which sites look into."""


def register(name: str) -> Callable[[Factory], Factory]:
    """Give a function that builds a module a name, on the server and at every client.

    Examples
    --------
    >>> @register("two layers")
    ... def build():
    ...     return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> ModuleLoss("two layers").dimension
    50
    """

    def keep(factory: Factory) -> Factory:
        if MODULES.get(name, factory) is not factory:
            raise ValueError(f"a module called {name!r} is registered: choose another name")
        MODULES[name] = factory
        return factory

    return keep


def _squared(output: Tensor, y: Tensor) -> Tensor:
    return functional.mse_loss(output.squeeze(-1), y, reduction="none")


def _huber(output: Tensor, y: Tensor) -> Tensor:
    return functional.huber_loss(output.squeeze(-1), y, reduction="none", delta=1.35)


def _logistic(output: Tensor, y: Tensor) -> Tensor:
    return functional.softplus(-y * output.squeeze(-1))


def _cross_entropy(output: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(output, y.long(), reduction="none")


@dataclass(frozen=True)
class _Kind:
    """A loss of outputs: what it computes, of what kind of target, and its Lipschitz constant."""

    of: OutputLoss
    task: Task
    lipschitz: float  # in the l2 norm of the output


OUTPUT_LOSSES: dict[str, _Kind] = {
    "cross_entropy": _Kind(_cross_entropy, "classification", 2.0**0.5),
    "logistic": _Kind(_logistic, "classification", 1.0),
    "huber": _Kind(_huber, "regression", 1.35),
    "squared": _Kind(_squared, "regression", float("inf")),
}
"""Losses of a module's output: of classes 0, 1, ...; of labels -1 and +1; of numbers."""


@dataclass(frozen=True)
class Copy:
    """Builds copies of a module, which start where it is."""

    module: nn.Module

    def __call__(self) -> nn.Module:
        return copy.deepcopy(self.module)


@dataclass(frozen=True)
class ModuleLoss(RowLoss):
    """A module and the loss of its output, for `drfl.Problem`: this is `drfl.torch.Model`.

    Parameters
    ----------
    module : str or callable
        The name of a registered module, or what builds one. Clients in other places need the name.
    loss : {"cross_entropy", "logistic", "huber", "squared"}
        Of its output.

    Notes
    -----
    Modules with buffers (batch normalisation) are refused, since what they collect of rows would
    have to travel as well, and so are modules that draw (dropout): a run has to repeat itself.
    """

    module: str | Factory
    loss: str = "cross_entropy"
    name: ClassVar[str] = "network"

    def __post_init__(self) -> None:
        lookup("loss", self.loss, OUTPUT_LOSSES)
        if not isinstance(self.module, str) and not callable(self.module):
            raise TypeError("module must be a registered name, or a function that builds a module")
        _require_plain(self.built)

    @property
    def task(self) -> Task:
        """Whether targets are classes or numbers."""
        return OUTPUT_LOSSES[self.loss].task

    @property
    def signed(self) -> bool:
        """Whether the two classes are -1 and +1."""
        return self.loss == "logistic"

    @property
    def output_lipschitz(self) -> float:
        """How much the loss may change with the output, in the l2 norm."""
        return OUTPUT_LOSSES[self.loss].lipschitz

    @cached_property
    def built(self) -> nn.Module:
        """The module, for its shape; its parameters are not used."""
        return self.build()

    @property
    def dimension(self) -> int:
        """The number d of parameters."""
        return sum(p.numel() for p in self.built.parameters())

    @property
    def dtype(self) -> torch.dtype:
        """That of the parameters; rows are turned into it."""
        return next(self.built.parameters()).dtype

    def start(self, seed: int) -> Array:
        """The parameters that the module is built with, after this seed: the first model."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = self.build()
        flat = parameters_to_vector(module.parameters()).detach()
        return np.asarray(flat.numpy(), dtype=np.float64)

    def to_dict(self) -> dict[str, str]:
        if not isinstance(self.module, str):
            raise ValueError(
                "a module without a name cannot be written down: register it (drfl.torch.register)"
            )
        return {"module": self.module, "loss": self.loss}

    def check_ball(self, ball: Ball) -> None:
        if ball.radius == 0.0:
            return
        if ball.order == 1.0:
            raise ValueError(
                "a network has no ball of order 1: on the whole space its worst case lies at "
                "infinity, in whatever direction the network is steepest there; take order=2 or "
                "order=math.inf"
            )
        if not isinstance(ball.support, WholeSpace) or ball.label_cost != float("inf"):
            raise ValueError("networks move rows in the whole space, and no labels")
        if ball.order == 2.0 and not isinstance(ball.norm, L2):
            raise ValueError(f"order 2 takes norm='l2', not {ball.norm.name!r}")
        if not isinstance(ball.norm, L1 | L2 | LInf):
            raise ValueError(f"networks know the norms l1, l2 and linf, not {ball.norm.name!r}")

    def at(self, rows: Rows, ball: Ball, name: str) -> NetworkLoss:
        from drfl.torch.client import NetworkLoss  # it knows models

        return NetworkLoss(rows, self, ball, name)

    def scores(self, x: Array, X: Array) -> Array:
        module = self.module_at(x).eval()
        try:
            with torch.no_grad():
                output = module(torch.as_tensor(X, dtype=self.dtype))
        except (RuntimeError, ValueError):
            raise ValueError(f"the module does not take rows of {X.shape[1]} columns") from None
        z = np.asarray(output.reshape(len(X), -1).numpy(), dtype=np.float64)
        return _log_odds(z) if self.loss == "cross_entropy" else z

    def check_travel(self) -> None:
        if isinstance(self.module, Copy):
            raise ValueError(
                "a module as it is does not travel to other processes: give its registered name, "
                "or a function at the top level of a module that builds it"
            )

    def losses(self, output: Tensor, y: Tensor) -> Tensor:
        """The losses of outputs (B, K) with targets (B,): (B,)."""
        return OUTPUT_LOSSES[self.loss].of(output, y)

    def module_at(self, x: Array) -> nn.Module:
        """A module with these parameters, for use elsewhere."""
        module = self.build()
        vector_to_parameters(torch.tensor(x, dtype=self.dtype), module.parameters())
        return module

    def build(self) -> nn.Module:
        """A module with parameters as its code draws them."""
        factory = factory_of(self.module) if isinstance(self.module, str) else self.module
        module = factory()
        if not isinstance(module, nn.Module):
            raise TypeError(f"module must build a torch.nn.Module, got {type(module).__name__}")
        return module

    # What goes to a process on this machine: a name, or where a function is; never a module.
    def __getstate__(self) -> dict[str, Any]:
        state = {key: value for key, value in vars(self).items() if key != "built"}
        known = MODULES.get(self.module) if isinstance(self.module, str) else None
        return {"fields": state, "home": getattr(known, "__module__", "")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state["fields"])
        if state["home"] and self.module not in MODULES:
            import_module(state["home"])  # which registers it


LAYERS = "mlp:"
MOST = 10**7  # parameters of such a module: whoever names one makes others build it


def completed(name: str, inputs: int, outputs: int) -> str:
    """The name of a module for so many columns; ``mlp:32,16`` names hidden layers only.

    Examples
    --------
    >>> completed("mlp:32,16", 13, 2)
    'mlp:13-32-16-2'
    """
    if not name.startswith(LAYERS) or "-" in name:
        return name
    sizes = name.removeprefix(LAYERS).split(",")
    return LAYERS + "-".join([str(inputs), *(size.strip() for size in sizes), str(outputs)])


def _layered(name: str) -> Factory:
    """Linear layers with ReLU between them, in double precision: ``mlp:13-32-2``."""
    sizes = [int(s) if s.isdecimal() else 0 for s in name.removeprefix(LAYERS).split("-")]
    pairs = list(pairwise(sizes))
    if not pairs or min(sizes) < 1:
        raise ValueError(f"{name!r} names no layers: write mlp:32, or mlp:32,16 for two")
    if sum((m + 1) * n for m, n in pairs) > MOST:
        raise ValueError(f"{name!r} has more than {MOST} parameters: register a module of your own")

    def build() -> nn.Module:
        parts = [part for m, n in pairs for part in (nn.Linear(m, n).double(), nn.ReLU())]
        return nn.Sequential(*parts[:-1])

    return build


def _log_odds(z: Array) -> Array:
    """Of the second of two classes (N, 1), or of each class against the rest (N, K)."""
    if z.shape[1] == 2:
        return np.asarray(z[:, 1:] - z[:, :1])
    others = [np.logaddexp.reduce(np.delete(z, k, axis=1), axis=1) for k in range(z.shape[1])]
    return np.asarray(z - np.stack(others, axis=1))


def factory_of(name: str) -> Factory:
    """What builds a module: registered here, named by an installed package, or only layers."""
    if name.startswith(LAYERS):
        return _layered(name)
    if name not in MODULES:
        for point in entry_points(group=INSTALLED, name=name):
            found: Factory = point.load()
            return found
    return lookup("module", name, MODULES)


def from_dict(data: dict[str, Any]) -> ModuleLoss:
    """Read what `ModuleLoss.to_dict` wrote."""
    if set(data) != {"module", "loss"} or not all(isinstance(v, str) for v in data.values()):
        raise ValueError("a network must be an object with the fields 'module' and 'loss'")
    return ModuleLoss(data["module"], data["loss"])


def _require_plain(module: nn.Module) -> None:
    buffers = [name for name, _ in module.named_buffers()]
    if buffers:
        raise ValueError(
            f"the module has the buffer {buffers[0]!r}, which would have to travel beside its "
            "parameters: use layers without (LayerNorm or GroupNorm for BatchNorm)"
        )
    mixing = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if mixing:
        raise ValueError(
            f"{type(mixing[0]).__name__} mixes the rows of a batch, and a loss has to be one of "
            "single rows: use LayerNorm or GroupNorm"
        )
    parameters = list(module.parameters())
    if not parameters:
        raise ValueError("the module has no parameters: there is nothing to train")
    if len({p.dtype for p in parameters}) > 1:
        raise ValueError("all parameters of a module must have one dtype")
    if parameters[0].dtype not in (torch.float32, torch.float64):
        raise ValueError(f"parameters must be float32 or float64, got {parameters[0].dtype}")
    if not all(p.requires_grad for p in parameters):
        raise ValueError(
            "the module has parameters with requires_grad=False, but all of them travel and are "
            "trained: leave them out of its parameters, or train them"
        )
