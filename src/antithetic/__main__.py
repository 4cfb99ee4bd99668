"""``python -m antithetic`` is the command ``antithetic``."""

from antithetic.cli import main

if __name__ == "__main__":
    main()
