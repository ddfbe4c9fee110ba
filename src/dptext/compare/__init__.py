"""Many mechanisms at many settings on several corpora, as one table: `dptext compare EXPERIMENT.toml --out DIR`.

* `experiment`: what a TOML file says, read with errors that name the key.
* `corpora`: the public, private and test part of a corpus, with their digests.
* `cells`: the grid, one cell for each corpus, row and trial, with the signature of all that makes it.
* `measure`: utilities and audits of the releases of a cell; `rows`: one cell from fit to numbers.
* `worker`: the process that runs cells; `runner`: the processes, and the folder that can be gone on with.
* `table`: the tidy table as Parquet and JSON.
* `recommend`: what `dptext recommend` reads off such a table.

An experiment looks at originals, so it is for public corpora in the place of private ones: the numbers of a table are
covered by no guarantee. Rows *original*, *public-only*, *random* and, where there are labels, *label_only* are in every
table: what keeps no more than they do keeps nothing.
"""
