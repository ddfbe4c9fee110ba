"""`python -m dptext`: the command line, for systems whose path lacks its script."""

from dptext.cli.app import main

if __name__ == "__main__":
    main()
