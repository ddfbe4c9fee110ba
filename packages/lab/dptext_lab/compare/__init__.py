"""Mechanisms at many settings on several corpora, as one table: `dptext compare EXPERIMENT.toml --out DIR`.

`experiment` describes the TOML file, `grid` makes cells of it, `cell_run` and `measure` run one cell, and `runner` runs
all cells. `stored` describes the files, `report` and `dptext.recommend` read them.

An experiment reads originals, so no guarantee covers the numbers of its table. Use public corpora in the place of
private ones. Every table has the rows *original*, *public-only*, *random* and, if there are labels, *label_only*. A
mechanism that keeps no more than these rows keeps nothing.
"""
