"""A participant that uses its own connection for whatever it likes; on its own Python's path only.

Orders are JSON files in the folder ROGUE: which cell sends what to whom. What comes back is
written beside them.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

FOLDER = Path(os.environ["ROGUE"])


def listen():
    begun = set()
    while True:
        for path in sorted(FOLDER.glob("*.order.json")):
            order = json.loads(path.read_text("utf-8"))
            cell = None if path in begun else own_cell(order["me"])
            if cell is not None:
                begun.add(path)
                threading.Thread(target=obey, args=(path, cell, order), daemon=True).start()
        time.sleep(0.1)


def obey(path, cell, order):
    answer = path.with_name(path.name.replace(".order.", ".answer."))
    if not answer.exists():
        part = answer.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(carried_out(cell, order)), "utf-8")
        part.rename(answer)


def own_cell(name):
    """The cell of this process; a name that ends with a dot is that of a job."""
    loaded = sys.modules.get("nvflare.fuel.f3.cellnet.core_cell")
    cells = getattr(loaded, "CoreCell", None)  # not there yet while FLARE itself is loading
    for fqcn, cell in list(cells.ALL_CELLS.items()) if cells else []:
        if cell.running and (fqcn == name or (name[-1] == "." and fqcn.startswith(name))):
            return cell
    return None


def carried_out(cell, order):
    """Send it; the answer in words."""
    for _ in range(20):
        try:
            reply = SENDERS[order["how"]](cell, order)
        except Exception as error:
            return {"raised": f"{type(error).__name__}: {error}"}
        if reply.get("code") != "target_unreachable":
            break
        time.sleep(0.2)  # the process for a job may still be on its way to the server
    return reply


def target_of(cell, order):
    """A target that ends with a dot is the job process there, of the job that runs here."""
    target = order["target"]
    return target + cell.my_info.fqcn.split(".")[1] if target[-1] == "." else target


def message(order):
    from nvflare.fuel.f3.cellnet.utils import new_cell_message
    from nvflare.private.admin_defs import Message

    payload = order.get("payload")
    if "admin" in order:
        payload = Message(order["admin"], order.get("body"))
        payload.set_headers(order.get("headers", {}))
    return new_cell_message({}, payload)


def plain(payload):
    """Whatever came back, as text."""
    body = getattr(payload, "body", payload)
    return body if isinstance(body, str) else repr(body)


def request(cell, order):
    """One message, one reply."""
    reply = cell.send_request(
        order["channel"], order["topic"], target_of(cell, order), message(order), timeout=4.0
    )
    return {"code": reply.get_header("cn__return_code"), "text": plain(reply.payload)}


def streamed(cell, order):
    """The same as a stream of bytes, the way in which FLARE sends what may be large."""
    cell = cell.get_fobs_context()["cell"]
    reply = cell._send_request(
        order["channel"], target_of(cell.core_cell, order), order["topic"], message(order), 4.0
    )
    return {"code": reply.get_header("cn__return_code"), "text": plain(reply.payload)}


def bulk(cell, order):
    """Wrapped into another message; nothing comes back."""
    cell.queue_message(order["channel"], order["topic"], [target_of(cell, order)], message(order))
    time.sleep(2.0)
    return {}


def addressed(cell, order):
    """A proper request that also names an address; FLARE calls it."""
    asked = message(order)
    asked.set_header("cn__conn_url", order["address"])
    asked.set_header("cn__from", "elsewhere")
    usual = cell._send_to_endpoint

    def send(to_endpoint, message):
        if message.get_header("cn__conn_url"):
            message.set_header("cn__from", "elsewhere")
        return usual(to_endpoint=to_endpoint, message=message)

    cell._send_to_endpoint = send
    try:
        reply = cell.send_request(
            order["channel"], order["topic"], target_of(cell, order), asked, timeout=4.0
        )
    finally:
        cell._send_to_endpoint = usual
    return {"code": reply.get_header("cn__return_code"), "text": plain(reply.payload)}


def forged(cell, order):
    """In the name of the server; the answer goes there."""
    usual = cell._send_to_endpoint

    def send(to_endpoint, message):
        if message.get_header("cn__channel") == order["channel"]:
            message.set_header("cn__origin", "server")
            for key, value in order.get("cell_headers", {}).items():
                message.set_header(key, value)
        return usual(to_endpoint=to_endpoint, message=message)

    cell._send_to_endpoint = send
    try:
        cell.fire_and_forget(
            order["channel"], order["topic"], target_of(cell, order), message(order)
        )
    finally:
        cell._send_to_endpoint = usual
    return {}


SENDERS = {
    "request": request,
    "addressed": addressed,
    "streamed": streamed,
    "bulk": bulk,
    "forged": forged,
}

threading.Thread(target=listen, daemon=True).start()
