"""scikit-learn's own checks, with no expected failures."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from drfl import baselines
from drfl.estimators import DRFLClassifier, DRFLRegressor

EVERYTHING = [DRFLClassifier(), DRFLRegressor()]
# What else has code of its own: probabilities, and a constructor that is made from a problem.
OTHERS = [DRFLClassifier(loss="logistic"), baselines.ERMClassifier(), baselines.WAFLRegressor()]
# These share all their code with one of the above.
VARIANTS = [
    estimator
    for estimator in (getattr(baselines, name)() for name in baselines.__all__)
    if type(estimator) not in map(type, OTHERS)
]
OWN = {
    "check_decision_proba_consistency",
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
}


CONSTRUCTOR = OWN - {"check_decision_proba_consistency", "check_fit_idempotent"}


def cases():
    for kind, wanted in ((EVERYTHING, None), (OTHERS, OWN), (VARIANTS, CONSTRUCTOR)):
        for estimator in kind:
            for number, (model, check) in enumerate(estimator_checks_generator(estimator)):
                check_name = getattr(check, "func", check).__name__
                if wanted is None or check_name in wanted:
                    yield pytest.param(model, check, id=f"{estimator}-{check_name}-{number}")


# The data of the checks are not standardised, and some are fitted with more columns than rows.
@pytest.mark.filterwarnings("ignore::drfl.estimators.ScaleWarning")
@pytest.mark.filterwarnings("ignore::drfl.estimators.FewRowsWarning")
@pytest.mark.filterwarnings("ignore::drfl.estimators.NothingLearnedWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "check"), list(cases()))
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_every_baseline_is_checked():
    checked = {type(estimator).__name__ for estimator in EVERYTHING + OTHERS + VARIANTS}
    assert checked == {*baselines.__all__, "DRFLClassifier", "DRFLRegressor"}


def test_plain_arrays_are_taken_as_scikit_learn_takes_any_rows():
    """The quick look at arrays and the careful one at frames lead to the same model."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    for labels in (["no", "yes"], [0, 1], [-1.0, 1.0], [2.5, 3.5], [False, True], [0, 1, 2]):
        y = np.array(labels)[np.arange(40) % len(labels)]
        named = DRFLClassifier()
        if labels == [2.5, 3.5]:
            for rows in (X, pd.DataFrame(X)):
                with pytest.raises(ValueError, match="continuous"):
                    named.fit(rows, y)
            continue
        named.fit(pd.DataFrame(X, columns=list("abc")), pd.Series(y))
        plain = DRFLClassifier().fit(X, y)
        np.testing.assert_array_equal(plain.coef_, named.coef_)
        np.testing.assert_array_equal(plain.classes_, np.unique(y))
        assert plain.classes_.dtype == y.dtype
        assert plain.n_features_in_ == 3
        assert named.fit(X, y).coef_.tolist() == plain.coef_.tolist()
        assert not hasattr(named, "feature_names_in_")  # the names of the first fit are forgotten
