"""The TLS handshake, tried before FLARE does: it would be silent about a refusal."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from drfl.sites.setup.certificates import days_left


class EntryError(ValueError):
    """The server cannot be reached, or one of the two refuses the other."""


class UnreachableError(EntryError):
    """Nobody answers; somebody may later."""


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
"""What a gRPC client says first; a server that accepts it answers."""


def check_own(startup: Path) -> float:
    """How many days the own certificate lasts; refuse one that is missing or has expired."""
    for name in ("rootCA.pem", "client.crt", "client.key"):
        if not (startup / name).exists():
            raise ValueError(f"{startup / name} is missing: ask the coordinator for a kit")
    for name, whose in (("client.crt", "this site"), ("rootCA.pem", "the coordinator's authority")):
        if days_left(startup / name) <= 0.0:
            raise ValueError(f"the certificate of {whose} has expired: ask for a new kit")
    return days_left(startup / "client.crt")


def shake_hands(startup: Path, host: str, port: int, timeout: float = 10.0) -> None:
    """Greet the server as FLARE would; `EntryError` says why it does not work.

    ``startup`` is the folder with the key and the certificates of this participant.
    """
    where = f"{host}:{port}"
    context = _context(startup)
    try:
        with (
            socket.create_connection((host, port), timeout) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            # A server of TLS 1.3 looks at the certificate when the client believes to be done.
            secure.sendall(PREFACE)
            if not secure.recv(1):
                raise EntryError(_refused(where))
    except ssl.SSLCertVerificationError as error:
        raise EntryError(_foreign(where, error)) from None
    except ssl.SSLError as error:
        raise EntryError(_alert(where, error)) from None
    except socket.gaierror:
        raise UnreachableError(
            f"the name {host} is not known here: check the server's name"
        ) from None
    except ConnectionRefusedError:
        raise UnreachableError(f"no server answers at {where}: is it started?") from None
    except (ConnectionResetError, BrokenPipeError):
        raise EntryError(_refused(where)) from None
    except TimeoutError:
        raise UnreachableError(
            f"{where} does not answer within {timeout:g} s: a firewall may be in between"
        ) from None
    except OSError as error:
        raise UnreachableError(f"{where} cannot be reached: {error.strerror or error}") from None


def answers(startup: Path, host: str, port: int, timeout: float = 10.0) -> bool:
    """Whether somebody is there, be it one who refuses."""
    try:
        shake_hands(startup, host, port, timeout)
    except UnreachableError:
        return False
    except EntryError:
        return True
    return True


def _context(startup: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(startup / "rootCA.pem"))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    # The extensions that newer versions of Python insist on are FLARE's to write.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if (startup / "client.crt").exists():
        context.load_cert_chain(startup / "client.crt", startup / "client.key")
    return context


def _foreign(where: str, error: ssl.SSLCertVerificationError) -> str:
    if "expired" in error.verify_message:
        return f"the certificate of the server at {where} has expired: tell the coordinator"
    if "ostname" in error.verify_message or "IP address" in error.verify_message:
        return f"the server at {where} shows the certificate of another name: check the address"
    return (
        f"the server at {where} shows a certificate of another authority than this kit's: it is "
        "another project's server, or somebody in between"
    )


def _refused(where: str) -> str:
    return (
        f"the server at {where} refuses the certificate of this kit: it is of another authority "
        "or none was shown; ask the coordinator for a kit"
    )


def _alert(where: str, error: ssl.SSLError) -> str:
    reason = str(error.reason or error).lower()
    if "expired" in reason:
        return f"the server at {where} says that the certificate of this kit has expired"
    if "alert" in reason:
        return _refused(where)
    return f"what answers at {where} does not speak TLS: check the port"
