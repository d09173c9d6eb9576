"""The facts about FLARE that `drfl.sites.flare` and the job rest on, each by its name.

If one of these fails after an update, it says what has to be looked at again.
"""

import inspect
import json
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import nvflare.collab.runtime.controller as controller
import nvflare.collab.runtime.executor as executor
import pytest
from nvflare.apis.workspace import Workspace
from nvflare.collab import CollabCallError, collab
from nvflare.collab.api.app import ClientApp, ServerApp
from nvflare.collab.api.exceptions import RunAborted
from nvflare.collab.api.proxy import Proxy
from nvflare.collab.runtime.cell_dispatcher import CellDispatcher
from nvflare.collab.runtime.defs import CallHeaderKey, CallReplyKey, ObjectCallKey
from nvflare.collab.runtime.dispatch import _call_app_method, make_participant_map
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.utils import new_cell_message
from nvflare.private.fed.server.server_commands import AppCommandProcessor, ServerCommands
from nvflare.private.fed.server.server_engine import ServerEngine
from nvflare.private.fed.server.server_json_config import ServerJsonConfigurator

from drfl.sites.carrier import CallError, Question
from drfl.sites.flare import app as flare
from drfl.sites.flare import doors
from drfl.sites.flare.job import CLIENT_CONFIG, server_config
from drfl.wire import Failure, Message, decode, encode


def test_flare_is_named_in_one_folder_only():
    sites = Path(flare.__file__).parents[1]
    for path in sites.glob("*.py"):
        assert "nvflare" not in path.read_text("utf-8").lower(), path
        assert "FLARE" not in path.read_text("utf-8"), path


def test_the_version_is_the_one_that_was_looked_at():
    assert version("nvflare").startswith("2.9.")


# ---------------------------------------------------------------------------- the job
def test_the_classes_of_the_job_take_the_arguments_that_it_gives():
    (workflow,) = server_config("{}")["workflows"]
    (entry,) = CLIENT_CONFIG["executors"]
    for place, given in (
        (controller.CollabController, workflow["args"]),
        (executor.CollabExecutor, entry["executor"]["args"]),
    ):
        known = inspect.signature(place.__init__).parameters
        assert set(given) <= set(known), place
        assert place.__module__ in (workflow["path"] + entry["executor"]["path"])


def test_the_server_knows_how_often_sites_ask_for_tasks():
    known = inspect.getsource(ServerJsonConfigurator.process_config_element)
    for name in server_config("{}")["server"]:
        assert f'"server.{name}"' in known


def test_the_server_object_has_one_main_function():
    assert [name for name, _ in ServerApp(flare.ServerApp("{}")).mains] == ["run"]


def test_the_site_object_publishes_one_method_with_fixed_arguments():
    assert {name: list(methods) for name, methods in interface().items()} == {
        "": [],
        "client": ["answer"],
    }
    arguments = interface()["client"]["answer"]
    assert [entry["name"] for entry in arguments] == ["number", "seat", "message", "seconds"]


def interface():
    """What a site tells the server of its object."""
    return ClientApp(flare.SiteApp()).get_collab_interface()


# ---------------------------------------------------------------------------- a call, at the site
class Stub:
    """A gate that answers at once."""

    def __init__(self):
        self.asked = []

    def answer(self, number, question, seconds):
        self.asked.append((number, question, seconds))
        return b"reply"


def called(arguments, caller="server", method="answer"):
    """What FLARE makes of a call that has come over the network."""
    app = ClientApp(flare.SiteApp())
    app.name = "north"
    app.obj._gate = Stub()
    headers = {
        CallHeaderKey.TARGET_NAME: "north.client",
        CallHeaderKey.METHOD_NAME: method,
        CallHeaderKey.AUTHENTICATED_CALLER: caller,
    }
    payload = {ObjectCallKey.KWARGS: arguments}
    silent = SimpleNamespace(debug=print, info=print, error=print)
    return app.obj._gate, _call_app_method(new_cell_message(headers, payload), app, silent)


GOOD = {"number": 1, "seat": 0, "message": b"question", "seconds": 3.0}


def test_a_call_reaches_the_gate_and_its_bytes_come_back():
    gate, reply = called(GOOD)
    assert reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.OK
    assert reply.payload == {CallReplyKey.RESULT: b"reply"}
    assert gate.asked == [(1, Question(0, b"question"), 3.0)]


def test_another_site_is_not_answered_though_flare_lets_it_call():
    participants = make_participant_map(
        "server.job", "job", [SimpleNamespace(name="south", get_fqcn=lambda: "south")]
    )
    assert participants == {"server.job": flare.SERVER, "south.job": "south"}
    gate, reply = called(GOOD, caller="south")
    assert gate.asked == []
    assert Failure.of(decode(reply.payload[CallReplyKey.RESULT])) is Failure.BAD_REQUEST


@pytest.mark.parametrize(
    "wrong",
    [
        {"number": True},
        {"number": "1"},
        {"seat": -1},
        {"message": "text"},
        {"message": bytearray(b"x")},
        {"seconds": 3},
        {"seconds": float("nan")},
        {"seconds": float("inf")},
    ],
)
def test_arguments_of_another_type_are_refused(wrong):
    gate, reply = called({**GOOD, **wrong})
    assert gate.asked == []
    assert Failure.of(decode(reply.payload[CallReplyKey.RESULT])) is Failure.BAD_REQUEST


def test_a_site_without_settings_refuses_alone(monkeypatch, capsys):
    monkeypatch.delenv(flare.SETTINGS, raising=False)
    app = flare.SiteApp()
    assert "drfl: " in capsys.readouterr().err
    monkeypatch.setattr(flare, "collab", SimpleNamespace(caller="server"))
    reply = decode(app.answer(1, 0, encode(Message("hello", 0)), 1.0))
    assert Failure.of(reply) is Failure.REFUSED
    app.close()


# ---------------------------------------------------------------------------- a call, at the server
def proxies(backend):
    app = ServerApp(flare.ServerApp("{}"))
    proxy = Proxy(app, "north", "north", backend, interface()[""])
    proxy.add_child("client", Proxy(app, "north.client", "", backend, interface()["client"]))
    return flare.FlareCarrier({"north": proxy}, silence=13.0, patience=600.0).call


class Backend:
    """The way to a site, which brings this result or this error."""

    def __init__(self, result):
        self.result, self.seen = result, []

    def call_target(self, context, target_name, call_opt, func_name, *args, **kwargs):
        self.seen.append((target_name, call_opt.timeout, func_name, kwargs))
        return self.result


def test_a_site_is_called_with_a_time_limit_and_named_arguments():
    backend = Backend(b"reply")
    call = proxies(backend)
    assert call("north", 1, Question(2, b"question"), 3.0, 4.0) == b"reply"
    (target, timeout, method, arguments) = backend.seen[0]
    assert (target, timeout, method) == ("north.client", 4.0, "answer")
    assert arguments == {"number": 1, "seat": 2, "message": b"question", "seconds": 3.0}


@pytest.mark.parametrize(
    "result", [CollabCallError("north", "answer", TimeoutError("late")), "text", None, 3]
)
def test_a_failed_call_and_a_reply_that_is_no_bytes_are_no_answer(result):
    call = proxies(Backend(result))
    with pytest.raises(CallError):
        call("north", 1, Question(0, b""), 1.0, 1.0)


def test_the_end_of_a_job_is_no_failure_of_a_site():
    call = proxies(Backend(RunAborted("over")))
    with pytest.raises(RunAborted):
        call("north", 1, Question(0, b""), 1.0, 1.0)


def test_a_time_out_is_an_error_of_its_own():
    source = inspect.getsource(CellDispatcher._call_target)
    assert "ReturnCode.TIMEOUT" in source
    assert CollabCallError("north", "answer", TimeoutError()).cause_type == "TimeoutError"


# ---------------------------------------------------------------------------- around it
def test_an_application_command_gets_topic_data_and_context(monkeypatch):
    monkeypatch.setattr(ServerCommands, "app_cmd_registry", {})
    engine = SimpleNamespace(
        register_app_command=lambda *command: ServerEngine.register_app_command(
            SimpleNamespace(logger=SimpleNamespace(debug=print)), *command
        )
    )
    flare._publish(SimpleNamespace(get_engine=lambda: engine), "drfl.progress", lambda data: data)
    request = {"topic": "drfl.progress", "data": {"since": 3}}
    command = AppCommandProcessor()
    reply = command.process(SimpleNamespace(get=request.get), None)
    assert reply["data"] == {"since": 3}


def test_the_decorators_and_the_context_are_there():
    for name in ("main", "publish", "init", "final", "caller", "clients", "workspace", "fl_ctx"):
        assert name in dir(collab), name


def test_results_have_a_folder_of_their_own():
    assert callable(Workspace.get_result_root)


def test_order_and_configuration_are_json():
    json.dumps([server_config("{}"), CLIENT_CONFIG])


# ---------------------------------------------------------------------------- what would answer
def handlers():
    """Every topic that FLARE's client listens to, as channel:topic."""
    from nvflare.fuel.f3.cellnet import net_agent
    from nvflare.private.fed.client.admin_commands import AdminCommands
    from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

    asked = ClientRequestProcessors.request_processors
    found = {f"admin:{topic}" for one in asked for topic in one.get_topics()}
    found |= {f"client_command:{one.get_command_name()}" for one in AdminCommands.commands}
    names = [name for name in vars(net_agent) if name.startswith("_TOPIC_")]
    return found | {f"_net_manager:{getattr(net_agent, name)}" for name in names}


def test_every_handler_of_a_client_is_let_in_on_purpose_or_listed_as_refused():
    """A version of FLARE with a new one is not taken over unseen."""
    needed = {f"admin:{topic}" for topic in doors.REQUESTS}
    needed |= doors.FROM_OWN_JOB | doors.TO_OWN_JOB
    page = (Path(__file__).parents[2] / "docs" / "sites.md").read_text("utf-8")
    refused = handlers() - needed
    missing = {what for what in refused if f"`{what.split(':')[1]}`" not in page}
    assert missing == set()
    assert {f"admin:{topic}" for topic in doors.REQUESTS} <= handlers()
    assert "admin:sys.shell" in refused
