"""The command line. `app` declares the commands; each command's work is in the module of its name."""
