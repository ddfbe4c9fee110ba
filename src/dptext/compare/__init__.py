"""Many mechanisms at many settings on several corpora, as one table: `dptext compare EXPERIMENT.toml --out DIR`.

* `experiment`, `corpus_plans`: what a TOML file says. `toml_models`: how its errors name the key.
* `corpora`: the public, private and test part of a corpus, with their digests.
* `grid`: the cells of an experiment. `cells`: one cell, and the signature of all that makes its numbers.
* `cell_run`: one cell from the fit to its file. `fits`: what cells share of it. `measure`: its utilities and audits.
* `worker`: the process that runs cells. `runner`, `processes`: many of them. `folder`: where a run goes on.
* `stored`: rows, cells and descriptions as they stand in files. `reading` reads them, `table` writes the table.
* `recommend`, `pooled`, `measured_table`: what `dptext recommend` reads off such a table.
* `report`: the page and the Markdown table of `dptext report`.

An experiment looks at originals, so no guarantee covers the numbers of its table. Use public corpora in the place of
private ones. Every table has the rows *original*, *public-only*, *random* and, where there are labels, *label_only*. A
mechanism that keeps no more than these keeps nothing.
"""
