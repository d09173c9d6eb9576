"""What travels: small records of named arrays, one safe format, one validator.

The same bytes serve processes, a network, checkpoints and audits. ``docs/messages.md`` describes
them byte by byte.
"""

from drfl.wire.message import Failure, Message, Sent, Tally, WireError, decode, encode, reply_kind
from drfl.wire.schema import Field, Schema, validate, validate_arrays

__all__ = [
    "Failure",
    "Field",
    "Message",
    "Schema",
    "Sent",
    "Tally",
    "WireError",
    "decode",
    "encode",
    "reply_kind",
    "validate",
    "validate_arrays",
]
