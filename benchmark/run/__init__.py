"""From a plan to records: obtain each encoder, measure it, write what was measured."""
