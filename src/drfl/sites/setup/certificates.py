"""Keys and certificates: the coordinator is the authority, a site's key is made at the site."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from drfl.files import PRIVATE, write_bytes
from drfl.sites.setup.project import NAME

ORG = "drfl"
LEAST_BITS, LARGEST = 2048, 100_000  # of a key, and the bytes of a file with a request
AUTHORITY_DAYS, DAYS = 1080, 360  # how long certificates last: the authority's, and all others


@dataclass(frozen=True)
class Authority:
    """Who signs: a folder with ``rootCA.pem``, and ``rootCA.key``, which nobody else may see."""

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
        private = new_key()
        last = datetime.now(UTC) + timedelta(days=AUTHORITY_DAYS)
        made = _certificate(_name(name), _name(name), private, private.public_key(), last, None)
        write_bytes(self.key, key_text(private), mode=PRIVATE)
        write_bytes(self.certificate, made)

    def sign(self, name: str, public: Any, *, role: str | None = None, host: str = "") -> bytes:
        """Return a certificate for somebody's public key, as PEM."""
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        root = load_certificate(self.certificate.read_bytes())
        # No certificate outlives its authority's.
        last = min(root.not_valid_after_utc, datetime.now(UTC) + timedelta(days=DAYS))
        private = load_pem_private_key(self.key.read_bytes(), None)
        subject = _name(name, ORG, role)
        return _certificate(subject, root.subject, private, public, last, host or name)

    def issue(self, folder: Path, base: str, name: str, **how: Any) -> None:
        """Make a key and its certificate for somebody at hand: ``base.key``, ``base.crt``."""
        private = new_key()
        write_bytes(folder / f"{base}.key", key_text(private), mode=PRIVATE)
        write_bytes(folder / f"{base}.crt", self.sign(name, private.public_key(), **how))
        write_bytes(folder / "rootCA.pem", self.certificate.read_bytes())


def _name(name: str, organisation: str | None = None, role: str | None = None) -> Any:
    """Who somebody is; a role is where the server looks for it."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parts = {
        NameOID.COMMON_NAME: name,
        NameOID.ORGANIZATION_NAME: organisation,
        NameOID.UNSTRUCTURED_NAME: role,
    }
    return x509.Name([x509.NameAttribute(what, text) for what, text in parts.items() if text])


def _certificate(
    subject: Any, issuer: Any, private: Any, public: Any, last: datetime, host: str | None
) -> bytes:
    """A certificate, as PEM; without a host it is that of an authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding

    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(private.public_key())
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC))
        .not_valid_after(last)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(signer, critical=False)
    )
    if host is None:
        built = built.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        built = built.add_extension(_signs_others(), critical=True)
    else:
        names = x509.SubjectAlternativeName([_host(host)])
        built = built.add_extension(names, critical=False)
    return built.sign(private, SHA256()).public_bytes(Encoding.PEM)


def _signs_others() -> Any:
    from cryptography import x509

    may = ("digital_signature", "key_cert_sign", "crl_sign")
    no = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    neither = ("encipher_only", "decipher_only")
    return x509.KeyUsage(**dict.fromkeys(may, True), **dict.fromkeys((*no, *neither), False))


def _host(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def new_key() -> Any:
    """A private key."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=LEAST_BITS)


def key_text(private: Any) -> bytes:
    """A private key as PEM."""
    from cryptography.hazmat.primitives import serialization as form

    plain = form.NoEncryption()
    text: bytes = private.private_bytes(
        form.Encoding.PEM, form.PrivateFormat.TraditionalOpenSSL, plain
    )
    return text


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


def make_request(name: str, folder: Path) -> tuple[Path, str]:
    """Make a key in ``folder/NAME``, and the request ``folder/NAME.request``, which holds no key.

    The path of the request and the fingerprint of the key are returned.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be a name: take letters, digits, - and _")
    place = folder / name / "flare" / "startup" / "client.key"
    if place.exists():
        raise ValueError(f"{place} exists: remove it if a new key is meant, or send the request")
    private = new_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(private, SHA256())
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_bytes(place, key_text(private), mode=PRIVATE)
    path = folder / f"{name}.request"
    write_bytes(path, request.public_bytes(Encoding.PEM))
    return path, fingerprint(private.public_key())


def read_request(path: Path) -> Any:
    """A request that is signed by the key in it; ValueError says what is wrong."""
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
