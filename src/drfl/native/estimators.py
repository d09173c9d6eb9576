"""The scikit-learn faces: two of every method."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from drfl.native.afl import AFL
from drfl.native.drfa import DRFA
from drfl.native.fedadmm import FedADMM
from drfl.native.fedavg import FedAvg
from drfl.native.fedprox import FedProx
from drfl.native.model import TRUST_ROWS, NativeClassifier, NativeRegressor
from drfl.native.qffl import QFFL
from drfl.native.scaff_pd import ScaffPD
from drfl.native.scaffold import Scaffold
from drfl.native.wafl import WAFL

AGNOSTIC = {"mixture_center": "uniform", "mixture_radius": 0.2, "mixture_norm": 1}
WHOLE_SIMPLEX = {**AGNOSTIC, "mixture_radius": math.inf}
WORST_CLIENT = {**TRUST_ROWS, **WHOLE_SIMPLEX}
# The average of AFL forgets its beginning slowly.
LONG = 500
NOTHING: Mapping[str, Any] = {}


class FedAvgClassifier(NativeClassifier):
    """A classifier trained by FedAvg; settings are those of `drfl.native.FedAvg`.

    As for all estimators here: ``random_state`` is the seed, ``max_rounds`` says when to stop, and
    the other parameters, methods and attributes are those of `drfl.DRFLClassifier` that a problem
    without a radius has. The fit proves nothing: ``lower_bound_`` is 0.

    Examples
    --------
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1]
    >>> FedAvgClassifier(local_steps=2).fit(X, y, clients=[1, 2, 1, 2]).predict([[3.0]])
    array([1])
    """

    method = FedAvg


class FedAvgRegressor(NativeRegressor):
    """A regression trained by FedAvg; settings are those of `drfl.native.FedAvg`."""

    method = FedAvg


class FedProxClassifier(NativeClassifier):
    """A classifier trained by FedProx; settings are those of `drfl.native.FedProx`."""

    method = FedProx


class FedProxRegressor(NativeRegressor):
    """A regression trained by FedProx; settings are those of `drfl.native.FedProx`."""

    method = FedProx


class ScaffoldClassifier(NativeClassifier):
    """A classifier trained by SCAFFOLD; settings are those of `drfl.native.Scaffold`."""

    method = Scaffold


class ScaffoldRegressor(NativeRegressor):
    """A regression trained by SCAFFOLD; settings are those of `drfl.native.Scaffold`."""

    method = Scaffold


class QFFLClassifier(NativeClassifier):
    """A classifier trained by q-FFL; settings are those of `drfl.native.QFFL`."""

    method = QFFL


class QFFLRegressor(NativeRegressor):
    """A regression trained by q-FFL; settings are those of `drfl.native.QFFL`."""

    method = QFFL


class AFLClassifier(NativeClassifier):
    """A classifier trained by AFL; settings are those of `drfl.native.AFL`."""

    method = AFL
    _fixed = TRUST_ROWS
    _open = AGNOSTIC
    _rounds = LONG


class AFLRegressor(NativeRegressor):
    """A regression trained by AFL; settings are those of `drfl.native.AFL`."""

    method = AFL
    _fixed = TRUST_ROWS
    _open = AGNOSTIC
    _rounds = LONG


class DRFAClassifier(NativeClassifier):
    """A classifier trained by DRFA; settings are those of `drfl.native.DRFA`."""

    method = DRFA
    _fixed = WORST_CLIENT
    _open = NOTHING


class DRFARegressor(NativeRegressor):
    """A regression trained by DRFA; settings are those of `drfl.native.DRFA`."""

    method = DRFA
    _fixed = WORST_CLIENT
    _open = NOTHING


class WAFLClassifier(NativeClassifier):
    """A classifier trained by WAFL, penalty form; settings are those of `drfl.native.WAFL`."""

    method = WAFL


class WAFLRegressor(NativeRegressor):
    """A regression trained by WAFL, penalty form; settings are those of `drfl.native.WAFL`."""

    method = WAFL


class FedADMMClassifier(NativeClassifier):
    """A classifier trained by FedADMM; settings are those of `drfl.native.FedADMM`."""

    method = FedADMM


class FedADMMRegressor(NativeRegressor):
    """A regression trained by FedADMM; settings are those of `drfl.native.FedADMM`."""

    method = FedADMM


class ScaffPDClassifier(NativeClassifier):
    """A classifier trained by SCAFF-PD; settings are those of `drfl.native.ScaffPD`."""

    method = ScaffPD
    _fixed = TRUST_ROWS
    _open = WHOLE_SIMPLEX


class ScaffPDRegressor(NativeRegressor):
    """A regression trained by SCAFF-PD; settings are those of `drfl.native.ScaffPD`."""

    method = ScaffPD
    _fixed = TRUST_ROWS
    _open = WHOLE_SIMPLEX
