"""Text classifiers, for utility and for attacks."""
