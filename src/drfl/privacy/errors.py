"""What a guard raises."""


class SpentError(Exception):
    """Raised when a budget of the ledger is used up."""
