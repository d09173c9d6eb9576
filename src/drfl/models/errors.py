"""What is wrong with a model file, in one sentence."""


class ModelError(ValueError):
    """A model file that cannot be used."""
