"""The fixed token lists of PromptBERT's released code (evaluation.py; the paper's table 11 prints them with slips)."""

from __future__ import annotations

# Top 36 tokens, one list for both BERTs. Table 11 prints 34: it lacks "it" and "i" and repeats "and" for "man".
FREQUENT_BERT = frozenset(
    ". a the in , is to of and ' on man - s with for \" at ##s woman are it two that you dog said playing i an as was"
    " from : by white".split()
)

# RoBERTa's 36 entries. "Ġ, " has a trailing blank in the released code and so never matches; the punctuation stage
# removes the comma. Entries without Ġ are subwords, which the subword stage removes anyway.
FREQUENT_ROBERTA = frozenset(
    [
        "Ġ, ",
        *"Ġ. Ġa Ġthe Ġin a Ġis Ġto Ġof Ġand Ġon Ġ' s . the Ġman - Ġwith Ġfor Ġat Ġwoman Ġare Ġ\" Ġthat Ġit".split(),
        *"Ġdog Ġsaid Ġplaying Ġwas Ġas Ġfrom Ġ: Ġyou Ġan i Ġby".split(),
    ]
)

# 47 entries: [UNK], ASCII punctuation except "}", and these signs.
PUNCTUATION_BERT = frozenset(["[UNK]", *"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|~", *"´’…‚¿–»€‘•”£“™—"])
