"""Mechanisms that release a public text in the place of a private one."""
