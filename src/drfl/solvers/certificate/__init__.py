"""The proof of every lower bound: pure functions over one description of the server's problem."""

from drfl.solvers.certificate.proof import Certificate
from drfl.solvers.certificate.server import ServerProblem, server_problem

__all__ = ["Certificate", "ServerProblem", "server_problem"]
