"""Flower is loaded here, where a warning of what it loads is not ours."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import flwr.clientapp
    import flwr.serverapp  # noqa: F401
