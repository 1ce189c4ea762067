"""``python -m jobplaybook``: the command line, where it is not installed as a program."""

from jobplaybook.commands import main

if __name__ == "__main__":
    main()
