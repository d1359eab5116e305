"""Ways to share a plan: processes of this machine (`workers`), of torchrun (`ranks`), of a Ray cluster (`cluster`)."""
