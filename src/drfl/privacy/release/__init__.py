"""How numbers are made fit to leave a guarded client: weights, grids, rounding."""
