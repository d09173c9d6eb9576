"""The bundle method: exact solutions with a certificate in tens of rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from drfl.client import Checked, Handler, intercept_message
from drfl.solvers.base import Assignment, Session, Solver, require_few_columns
from drfl.solvers.bundle import client_cache, guard, messages
from drfl.solvers.bundle.client_half.answers import answer
from drfl.solvers.bundle.session import BundleSession
from drfl.solvers.bundle.settings import BundleSettings
from drfl.solvers.bundle.state import begin
from drfl.solvers.first_order import FirstOrder, takes_over


@dataclass(frozen=True)
class Bundle(BundleSettings, Solver):
    """The default solver; see `BundleSettings` for what can be chosen.

    More than 2000 columns are left to the first-order method, where it knows the problem and no
    client has a guard.
    """

    name: ClassVar[str] = "bundle"
    shared_ball: ClassVar[bool] = True
    max_weight: ClassVar[bool] = True
    curves: ClassVar[bool] = True
    joint: ClassVar[bool] = True
    gauges: ClassVar[bool] = True
    own_intercepts: ClassVar[bool] = True
    handlers: ClassVar[Mapping[str, Handler]] = {
        messages.KIND: Checked(answer, messages.REQUEST, messages.REPLY, guarded=True),
        guard.KIND: Checked(guard.constants, guard.REQUEST, guard.REPLY, guarded=True),
        intercept_message.KIND: intercept_message.HANDLER,
        client_cache.KIND: Checked(client_cache.recall, client_cache.REQUEST, {}, guarded=True),
        **FirstOrder.handlers,
    }

    def start(self, task: Assignment) -> Session:
        if self.guarded:
            require_few_columns(self.name, task, "under a guard there is no other; ")
        elif takes_over(task):
            return FirstOrder(column_sizes=self.column_sizes).start(task)
        return BundleSession(begin(self, task, task.names))

    def under_guards(self) -> Bundle:
        return replace(self, guarded=True)
