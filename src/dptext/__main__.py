"""`python -m dptext`: the command line where its script is not on the path."""

from dptext.cli.app import main

if __name__ == "__main__":
    main()
