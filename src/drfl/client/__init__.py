"""A client lives where its rows live: it answers messages, and its rows never leave.

`Client` owns the data and says what it allows. `Site` is a client bound to a problem: it turns a
message into a reply through a table of handlers, the client halves of a method. `RemoteClient` is
what a server knows of a client elsewhere.
"""

from drfl.client.party import Client, Party, Policy, RefusedError, RemoteClient, at_hand
from drfl.client.site import Checked, Handler, Site, WithheldError, code_of, row_shaped

__all__ = [
    "Checked",
    "Client",
    "Handler",
    "Party",
    "Policy",
    "RefusedError",
    "RemoteClient",
    "Site",
    "WithheldError",
    "at_hand",
    "code_of",
    "row_shaped",
]
