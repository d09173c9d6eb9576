"""The one type of array: real numbers, dense, float64."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
