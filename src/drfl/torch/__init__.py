"""Networks: any `torch.nn.Module` on the same clients, engines, messages and checkpoints.

No certificate is claimed here: the problems are not convex. What can be proved of a client's
worst case is shown as an interval.
"""

try:
    import torch as _torch
except ImportError as error:
    raise ImportError("networks need PyTorch: pip install 'drfl[torch]'") from error

from drfl.torch.bounds import lipschitz
from drfl.torch.client import Interval, NetworkLoss
from drfl.torch.estimators import TorchClassifier, TorchRegressor
from drfl.torch.model import MODULES, OUTPUT_LOSSES, completed, factory_of, from_dict, register
from drfl.torch.model import ModuleLoss as Model

del _torch

__all__ = [
    "MODULES",
    "OUTPUT_LOSSES",
    "Interval",
    "Model",
    "NetworkLoss",
    "TorchClassifier",
    "TorchRegressor",
    "completed",
    "factory_of",
    "from_dict",
    "lipschitz",
    "register",
]
