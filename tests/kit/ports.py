"""Ports of this machine."""

import socket


def free_port():
    """One that nobody uses now."""
    with socket.socket() as trial:
        trial.bind(("localhost", 0))
        return trial.getsockname()[1]
