"""The paper's choices, for tests that check its mathematics whatever the defaults are."""

from typing import Any

from drfl.estimators import DRFLClassifier, DRFLRegressor

BALL_AND_CENTER = {"norm": "l1", "mixture_center": "uniform"}
CLASSES = {"loss": "hinge", "mixture_radius": 0.2, **BALL_AND_CENTER}
NUMBERS = {"loss": "huber", "mixture_radius": 0.0, **BALL_AND_CENTER}


def paper(kind: type[Any], loss: Any = None, **params: Any) -> Any:
    """An estimator with the paper's norm and centre, as far as it has them."""
    wishes = {**BALL_AND_CENTER, **({} if loss is None else {"loss": loss})}
    known = kind().get_params()
    return kind(**{**{k: v for k, v in wishes.items() if k in known}, **params})


def classifier(**params: Any) -> DRFLClassifier:
    """Hinge, l1, theta 0.2, uniform."""
    return DRFLClassifier(**{**CLASSES, **params})


def regressor(**params: Any) -> DRFLRegressor:
    """Huber, l1, theta 0, uniform."""
    return DRFLRegressor(**{**NUMBERS, **params})
