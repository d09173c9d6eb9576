"""scikit-learn's own checks, with no expected failures."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from drfl import baselines
from drfl.estimators import DRFLClassifier, DRFLRegressor

EVERYTHING = [DRFLClassifier(), DRFLRegressor()]
# These share all code but the constructor, and probabilities: their other checks are slow ones.
VARIANTS = [
    DRFLClassifier(loss="logistic"),
    *(
        getattr(baselines, method + task)()
        for method in ("ERM", "AFL", "DRFA", "WAFL")
        for task in ("Classifier", "Regressor")
    ),
]
ALWAYS = {
    "check_decision_proba_consistency",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_dont_overwrite_parameters",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_estimators_unfitted",
    "check_fit_idempotent",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_n_features_in",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_requires_y_none",
    "check_set_params",
    "check_valid_tag_types",
}


def cases():
    for estimator in EVERYTHING + VARIANTS:
        for number, (model, check) in enumerate(estimator_checks_generator(estimator)):
            check_name = getattr(check, "func", check).__name__
            fast = estimator in EVERYTHING or check_name in ALWAYS
            yield pytest.param(
                model,
                check,
                id=f"{estimator}-{check_name}-{number}",
                marks=[] if fast else pytest.mark.slow,
            )


# The data of the checks are not standardised, and some are fitted with more columns than rows.
@pytest.mark.filterwarnings("ignore::drfl.estimators.ScaleWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "check"), list(cases()))
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_every_baseline_is_checked():
    checked = {type(estimator).__name__ for estimator in EVERYTHING + VARIANTS}
    assert checked == {*baselines.__all__, "DRFLClassifier", "DRFLRegressor"}
