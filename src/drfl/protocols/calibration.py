"""A calibration over sites: rows stay where they are, and with them their scores.

Every site is bound to the scores of the model on its rows, a column, or one for each of several
classes in one problem (`Binding.scores_of`). A
slope is fitted by the rounds of a training, an intercept alone by the message of standard errors:
there is no kind of message that a training does not have.
"""

from __future__ import annotations

from drfl.client import RemoteClient
from drfl.models import Model
from drfl.models.calibration import (
    fitted_class_intercepts,
    fitted_intercept,
    fitted_slope,
    require_calibratable,
    with_calibration,
)
from drfl.one_vs_rest import positives
from drfl.protocols.evaluation import model_array
from drfl.protocols.federation import Remote, binding_of

COLUMN = ("score",)


def calibrate(sites: Remote, model: Model, kind: str) -> Model:
    """The model with an intercept or a slope that these sites have fitted.

    One site gets a calibration of its own; several fit one for everyone.
    """
    require_calibratable(model, kind)
    classes = model.target.classes
    if classes is None:
        raise ValueError(
            "the intercept of a numeric target can be one row's own number, and does not leave a "
            "site: fit it there, with `drfl calibrate MODEL FILE`"
        )
    if model.joint:
        parties = _parties(sites, model, 0, None)
        every = fitted_class_intercepts(parties, len(classes), sites.engine)
        return with_calibration(model, sites.names, kind, every)
    fitted = fitted_slope if kind == "slope" else fitted_intercept
    found = [
        fitted(_parties(sites, model, seat, positive), sites.engine)
        for seat, positive in enumerate(positives(len(classes)))
    ]
    return with_calibration(model, sites.names, kind, found)


def _parties(sites: Remote, model: Model, seat: int, positive: int | None) -> list[RemoteClient]:
    binding = binding_of(model, positive, folds=False)
    binding["scores_of"] = model_array(model)
    columns = tuple(f"score {k}" for k in range(len(model.coef))) if model.joint else COLUMN
    return [RemoteClient(name, columns, name, seat, binding) for name in sites.names]
