"""Many mechanisms at many settings on several corpora, as one table: `dptext compare EXPERIMENT.toml --out DIR`.

`experiment` says what a TOML file may hold, `grid` makes cells of it, `cell_run` and `measure` run one, and `runner`
all. `stored` says what stands in files, `recommend` and `report` read it.

An experiment looks at originals, so no guarantee covers the numbers of its table. Use public corpora in the place of
private ones. Every table has the rows *original*, *public-only*, *random* and, where there are labels, *label_only*. A
mechanism that keeps no more than these keeps nothing.
"""
