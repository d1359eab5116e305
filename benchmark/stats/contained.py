"""Which noise an interval, a p-value or a mark contains, in the same words for every output."""

from __future__ import annotations

ONE_TRAINING = "one training"
NO_SEEDS = "no row depends on a seed"
NOT_TUNED = "no row is tuned"
ONE_STUDY = "a tuned row is of one study"
NOT_STATED = "others state none"
FINISHED = "nothing is trained here"


def contained(unit: str, *, seeds: str = "", tuning: str = NOT_TUNED) -> str:
    """Return a sentence on the noise of units, of seeds and of tuning.

    Args:
        unit: What the score is a mean or a correlation of: pairs, items, queries, tasks.
        seeds: Why the noise of seeds is not contained; "": it is.
        tuning: Why the noise of tuning is not contained; "": it is.

    Examples:
        >>> contained("pairs", tuning="one study")
        'Noise of pairs: contained; of seeds: contained; of tuning: not contained (one study).'
    """
    reasons = ((unit, ""), ("seeds", seeds), ("tuning", tuning))
    parts = [f"of {what}: {f'not contained ({why})' if why else 'contained'}" for what, why in reasons]
    return f"Noise {'; '.join(parts)}."
