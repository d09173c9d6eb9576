"""Real sites: processes on machines of their own, joined by mutual TLS (extra ``sites``)."""
