"""``python -m drfl`` is the program ``drfl``."""

from drfl.cli import main

if __name__ == "__main__":
    main()
