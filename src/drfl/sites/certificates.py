"""Keys and certificates: the coordinator is the authority, a site's key is made at the site."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from drfl.sites.hardening import ORG

AUTHORITY_DAYS, DAYS = 1080, 360
"""How long certificates last: the authority's, and all others."""


@dataclass(frozen=True)
class Authority:
    """Who signs.

    Attributes
    ----------
    folder : Path
        With ``rootCA.pem`` and ``rootCA.key``; the latter must be seen by nobody else.
    """

    folder: Path

    @property
    def certificate(self) -> Path:
        """What everybody gets."""
        return self.folder / "rootCA.pem"

    @property
    def key(self) -> Path:
        """What nobody gets."""
        return self.folder / "rootCA.key"

    def create(self, name: str) -> None:
        """Make the authority of a project, once."""
        from nvflare.lighter.utils import Identity, generate_cert, generate_keys, serialize_cert

        private, public = generate_keys()
        root = Identity(name)
        made = generate_cert(root, root, private, public, valid_days=AUTHORITY_DAYS, ca=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_private(self.key, key_text(private))
        self.certificate.write_bytes(serialize_cert(made))

    def sign(self, name: str, public: Any, *, role: str | None = None, host: str = "") -> bytes:
        """Return a certificate for somebody's public key, as PEM."""
        from nvflare.lighter.utils import (
            Identity,
            generate_cert,
            load_crt,
            load_private_key_file,
            serialize_cert,
        )

        root = load_crt(str(self.certificate))
        # No certificate outlives its authority's.
        last = min(root.not_valid_after_utc, datetime.now(UTC) + timedelta(days=DAYS))
        made = generate_cert(
            Identity(name, ORG, role),
            Identity(common_name(root)),
            load_private_key_file(str(self.key)),
            public,
            server_default_host=host or None,
            not_valid_after=last,
        )
        found: bytes = serialize_cert(made)
        return found

    def issue(self, folder: Path, base: str, name: str, **how: Any) -> None:
        """Make a key and its certificate for somebody at hand: ``base.key``, ``base.crt``."""
        private = new_key()
        folder.mkdir(parents=True, exist_ok=True)
        write_private(folder / f"{base}.key", key_text(private))
        (folder / f"{base}.crt").write_bytes(self.sign(name, private.public_key(), **how))
        (folder / "rootCA.pem").write_bytes(self.certificate.read_bytes())


def new_key() -> Any:
    """A private key."""
    from nvflare.lighter.utils import generate_keys

    return generate_keys()[0]


def key_text(private: Any) -> bytes:
    """A private key as PEM."""
    from nvflare.lighter.utils import serialize_pri_key

    found: bytes = serialize_pri_key(private)
    return found


def write_private(path: Path, content: bytes) -> None:
    """Write a file that its owner alone can read."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(content)


def load_certificate(content: bytes) -> Any:
    """Read PEM; ValueError if it is none."""
    from cryptography import x509

    return x509.load_pem_x509_certificate(content)


def common_name(certificate: Any) -> str:
    """Whose certificate it is."""
    from cryptography.x509.oid import NameOID

    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def days_left(path: Path) -> float:
    """How many days the certificate in a file still lasts; negative if it has expired."""
    last: datetime = load_certificate(path.read_bytes()).not_valid_after_utc
    return (last - datetime.now(UTC)) / timedelta(days=1)


def fingerprint(public: Any) -> str:
    """A public key in a form that two people can compare by telephone."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    spki = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    digits = hashlib.sha256(spki).hexdigest()[:32]
    return " ".join(digits[k : k + 4] for k in range(0, 32, 4))
