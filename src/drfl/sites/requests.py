"""A site asks for a certificate; its key is made where it stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drfl.sites.certificates import common_name, fingerprint, key_text, new_key, write_private
from drfl.sites.parcel import KEY
from drfl.sites.project import NAME
from drfl.sites.provision import Layout

LEAST_BITS, LARGEST = 2048, 100_000


def make_request(name: str, folder: Path) -> tuple[Path, str]:
    """Make a key in ``folder/NAME``, and the request ``folder/NAME.request``, which holds no key.

    Returns
    -------
    path, fingerprint
        Of the request and of the key.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be a name: take letters, digits, - and _")
    place = folder / name / "flare" / "startup" / KEY
    if place.exists():
        raise ValueError(f"{place} exists: remove it if a new key is meant, or send the request")
    private = new_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(private, SHA256())
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(place, key_text(private))
    path = folder / f"{name}.request"
    path.write_bytes(request.public_bytes(Encoding.PEM))
    return path, fingerprint(private.public_key())


def approve_request(layout: Layout, path: Path) -> tuple[str, Path, str]:
    """Sign a request.

    Returns
    -------
    name, path, fingerprint
        Of the site, of its kit, and of its key.
    """
    request = _read(path)
    name = common_name(request)
    if name not in layout.project.sites:
        raise ValueError(f"{path} is a request of {name!r}, which is none of the project's sites")
    certificate = layout.authority.sign(name, request.public_key())
    return name, layout.hand_over(name, certificate, {}), fingerprint(request.public_key())


def _read(path: Path) -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    try:
        with path.open("rb") as file:
            request = x509.load_pem_x509_csr(file.read(LARGEST))
        genuine = request.is_signature_valid and common_name(request)
    except (ValueError, IndexError):
        raise ValueError(f"{path} is no request: make one with `drfl sites request`") from None
    key = request.public_key()
    if not genuine or not isinstance(key, RSAPublicKey) or key.key_size < LEAST_BITS:
        raise ValueError(f"{path} is not signed by the key in it, or by a weak one: refuse it")
    return request
