"""What private outputs are still good for, always beside rows that keep nothing: no number without its baselines.

* `fidelity`: how much of each record came through.
* `stylometry`: how far the style of each output is from its original's.
* `classification`: what a classifier that is trained on the outputs knows.
* `balance`: the class balance of the private records, recovered from the outputs, where it is not the public one.
* `tables`: all of it in one table, with the rows that nothing may be shown without.

Everything here looks at private originals: these are experiments on public corpora in the place of private ones, and
what they print is not covered by any guarantee. Classifiers need the extra `[audit]`, the neural one `[neural]`.
"""
