"""Modules, rows and clients for the tests of networks."""

import numpy as np
import torch
from torch import nn

import drfl
from drfl.torch import MODULES, register

torch.set_num_threads(1)


def mlp():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()


def line():
    return nn.Linear(4, 1).double()


class Tied(nn.Module):
    """One matrix, used twice."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, rows):
        return self.second(torch.tanh(self.first(rows)))


class Halved(nn.Module):
    """Has a matrix that it does not use."""

    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, rows):
        return self.used(rows)


for name, build in {"mlp": mlp, "line": line}.items():
    if name not in MODULES:  # test files share a process
        register(name)(build)


def rows(rng, N=40, n=4, classes=3):
    X = rng.normal(size=(N, n))
    return X, rng.integers(0, classes, N).astype(float)


def clients(S=3, labels="classes"):
    made = []
    for s in range(S):
        rng = np.random.default_rng(s)
        X, y = rows(rng, 20 + 5 * s)
        X = X + 0.3 * s
        if labels == "signs":
            y = np.where(X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=len(X)) > 0.0, 1.0, -1.0)
        if labels == "numbers":
            y = X @ [1.0, -1.0, 0.5, 0.0] + 0.1 * rng.normal(size=len(X))
        made.append(drfl.Client(f"c{s}", X, y))
    return made
