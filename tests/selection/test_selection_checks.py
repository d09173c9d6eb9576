"""scikit-learn's own checks of the estimators that choose their radius."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from drfl import DRFLClassifierCV, DRFLRegressorCV

GRID = {"radius": [0.01, 0.1]}
ALWAYS = {
    "check_dont_overwrite_parameters",
    "check_estimators_pickle",
    "check_estimators_unfitted",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_n_features_in_after_fitting",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_requires_y_none",
    "check_sample_weight_equivalence_on_dense_data",
    "check_set_params",
}


def cases():
    for kind in (DRFLClassifierCV, DRFLRegressorCV):
        estimator = kind(grid=GRID, folds=2, tol=1e-4)
        for number, (model, check) in enumerate(estimator_checks_generator(estimator)):
            name = getattr(check, "func", check).__name__
            yield pytest.param(
                model,
                check,
                id=f"{kind.__name__}-{name}-{number}",
                marks=[] if name in ALWAYS else pytest.mark.slow,
            )


# The data of the checks are not standardised, and some are fitted with more columns than rows.
@pytest.mark.filterwarnings("ignore::drfl.ScaleWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "check"), list(cases()))
@pytest.mark.filterwarnings("ignore::drfl.estimators.NothingLearnedWarning")
def test_scikit_learn_check(estimator, check):
    check(estimator)
