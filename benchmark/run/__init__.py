"""Makes and executes a plan: obtains each encoder, measures it and writes the records.

A reader opens six files in this order: `prepare` reads what a run needs, `plan` makes methods x seeds x tasks of it,
`runner` goes through the plan, `fit` obtains an encoder, `measure` scores its vectors and makes records, and
`benchmark.records.folder` keeps them. Tables, the page and advice read records and are no part of a run.
"""
