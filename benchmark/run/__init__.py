"""Makes and executes a plan: obtains each encoder, measures it and writes the records.

A reader opens these files in this order: `prepare` goes from the options to a run, by `rows` (what was named, resolved)
and `plan` (rows x seeds x tasks); `runner` goes through the plan, `fit` obtains an encoder, `measure` scores its
vectors and makes records, and `benchmark.records.folder` keeps them. Tables, the page and advice are no part of a run.
"""
