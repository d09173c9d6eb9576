"""How good predictions are, and whether probabilities mean what they say."""

from drfl.metrics.predictions import METRICS, auc, class_metrics, number_metrics

__all__ = ["METRICS", "auc", "class_metrics", "number_metrics"]
