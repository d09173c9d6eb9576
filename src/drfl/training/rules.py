"""The rules of `drfl.select` by name, without importing what they need."""

RULES = {
    "mean": "the best mean score over the clients",
    "one_se": "the largest radius within one standard error of it",
    "worst_client": "the best score of the worst client",
    "noise": "the best mean score on rows with noise (--noise-scale)",
    "new_client": "the best score on clients left out of the training, unless ERM is better",
}
