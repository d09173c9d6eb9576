"""An engine that reaches stations as a network would: bytes and codes, nothing else."""

from drfl.engines import Answers, Engine
from drfl.protocols.federation import bind_message
from drfl.wire import Failure, decode, encode


class Loopback(Engine):
    """Sites in this process; whatever they say went through the codec."""

    name = "loopback"

    def __init__(self, stations):
        self.stations = {station.name: station for station in stations}
        self.clients = {}
        self.sent = []

    def start(self, clients, problem, handlers):
        self.clients = {client.name: client for client in clients}
        for client in clients:
            reply = self._carried(client.site, bind_message(client, problem), client.seat)
            if (failure := Failure.of(reply)) is not None:
                raise ValueError(f"client {client.name!r}: {failure.sentence}")

    def map(self, messages, deadline):
        answers = Answers({}, {}, {})
        for name, message in messages.items():
            client = self.clients.get(name)
            site, seat = (name, 0) if client is None else (client.site, client.seat)
            reply = self._carried(site, message, seat)
            failure = Failure.of(reply)
            if failure is None:
                answers.replies[name] = reply
            else:
                answers.failures[name] = failure
        return answers

    def _carried(self, site, message, seat):
        reply = decode(encode(self.stations[site].answer(decode(encode(message)), seat)))
        self.sent.append((site, reply))
        return reply

    def close(self):
        self.clients = {}


class Silent:
    """A listener that hears nothing."""

    live = False

    def say(self, *lines):
        pass

    def warn(self, sentence):
        pass

    def record(self, record):
        pass

    def progress(self, record, prefix=""):
        pass

    def clear(self):
        pass
