"""How good predictions are, and whether probabilities mean what they say."""

from drfl.metrics.predictions import (
    LOWER_IS_BETTER,
    METRICS,
    auc,
    class_metrics,
    number_metrics,
    worst,
)

__all__ = ["LOWER_IS_BETTER", "METRICS", "auc", "class_metrics", "number_metrics", "worst"]
