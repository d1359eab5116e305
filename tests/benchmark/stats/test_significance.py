"""Differences against scipy's Welch test and against the truth; sets of the best; Williams' test as published."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import make_record
from scipy import stats
from test_bootstrap import correlated

from benchmark.stats.bootstrap import resample
from benchmark.stats.compare import _sd, largest, williams
from benchmark.stats.draws import by_seed
from benchmark.stats.marks import arrows_against
from benchmark.stats.mcb import (
    SeedNoise,
    best_set,
    differences,
    equivalence,
    pooled_noise,
    sample,
    sample_pairs,
    sampled,
)
from benchmark.stats.power import Noise, detectable, median_noise, seeds_needed
from tools.floors import least_deviation
from zoo.errors import ContractError


def test_seeds_alone_are_welch_s_test() -> None:
    """Without noise of pairs: t, degrees of freedom, interval and p of scipy."""
    generator = np.random.default_rng(0)
    by_seed = [generator.normal(50, 1, 5), generator.normal(51, 3, 3), generator.normal(40, 0.1, 2)]
    drawn = np.repeat([[one.mean()] for one in by_seed], 100, axis=1)
    result = differences(sample(by_seed, drawn, 1000))
    for i in range(3):
        for j in range(3):
            if i == j:
                assert (result.value[i, j], result.error[i, j], result.p[i, j]) == (0, 0, 1)
                continue
            expected = stats.ttest_ind(by_seed[i], by_seed[j], equal_var=False)
            # At most twice those of the side with fewer seeds.
            df = min(2 if 2 in (i, j) else 4, expected.df)
            assert result.df[i, j] == pytest.approx(df)
            assert result.p[i, j] == pytest.approx(2 * stats.t.sf(abs(expected.statistic), df))
            margin = stats.t.ppf(0.975, df) * result.error[i, j]
            assert (result.low[i, j], result.high[i, j]) == pytest.approx(
                (result.value[i, j] - margin, result.value[i, j] + margin)
            )
    alike = [generator.normal(50, sd, 3) for sd in (1, 3)]
    result = differences(sample(alike, np.repeat([[one.mean()] for one in alike], 100, axis=1), 1000))
    expected = stats.ttest_ind(*alike, equal_var=False)
    assert (result.p[0, 1], result.df[0, 1]) == pytest.approx((expected.pvalue, expected.df))


def test_pairs_alone_are_the_bootstrap_s_spread() -> None:
    """Without seeds: the standard error is that of the resampled differences, the degrees of freedom the pairs'."""
    predicted, gold = correlated(np.random.default_rng(1), [0.8, 0.75, 0.4], 120)
    sampled = sample_pairs(list(predicted), gold, resamples=1500)
    drawn = resample(predicted, gold, resamples=1500)
    result = differences(sampled)
    assert sampled.value == pytest.approx([stats.spearmanr(row, gold).statistic for row in predicted])
    for i, j in ((0, 1), (2, 0)):
        assert result.pairs_error[i, j] == pytest.approx((drawn[i] - drawn[j]).std(ddof=1))
        assert (result.seeds_error[i, j], result.error[i, j]) == (0, pytest.approx(result.pairs_error[i, j]))
        assert result.df[i, j] == pytest.approx(119)
        t = (sampled.value[i] - sampled.value[j]) / result.error[i, j]
        assert result.p[i, j] == pytest.approx(2 * stats.t.sf(abs(t), 119))


def test_rows_that_share_seeds_are_compared_seed_by_seed() -> None:
    """Without noise of pairs it is scipy's paired t-test; the spread that both seeds have is no noise."""
    generator = np.random.default_rng(12)
    common = generator.normal(50, 1, 3)
    by_seed = [common, common + np.array([0.020, 0.027, 0.008])]
    drawn = np.repeat([[one.mean()] for one in by_seed], 100, axis=1)
    expected = stats.ttest_rel(*by_seed)
    result = differences(sample(by_seed, drawn, 1000, shared=[(0, 1)]))
    assert (result.p[0, 1], result.df[0, 1]) == pytest.approx((expected.pvalue, 2))
    interval = expected.confidence_interval()
    assert (result.low[0, 1], result.high[0, 1]) == pytest.approx((interval.low, interval.high))
    assert differences(sample(by_seed, drawn, 1000)).p[0, 1] > 0.9


@pytest.mark.parametrize("margin", [0.1, 0.9, 1.1, 3.0])
def test_equivalence_is_the_larger_of_two_one_sided_tests(margin: float) -> None:
    """A difference beyond the margin is never shown to be within it."""
    generator = np.random.default_rng(5)
    by_seed = [mean + noise - noise.mean() for mean in (50, 51) for noise in [generator.normal(0, 0.3, 4)]]
    result = differences(sample(by_seed, np.repeat([[one.mean()] for one in by_seed], 100, axis=1), 1000))
    p = equivalence(result, margin)
    gap, error, df = (float(of[0, 1]) for of in (result.value, result.error, result.df))
    sides = stats.t.sf((gap + margin) / error, df), stats.t.cdf((gap - margin) / error, df)
    assert p[0, 1] == p[1, 0] == pytest.approx(max(sides))
    assert (p[0, 1] > 0.5) == (abs(gap) > margin) and abs(gap) == pytest.approx(1)


def test_seeds_that_lie_together_by_chance_have_a_floor() -> None:
    """Half the median spread of at least five rows; a row without seeds keeps none."""
    rows = [[0.0, 2 * spread] for spread in (0.001, 1.0, 2.0, 3.0, 4.0)]
    least = least_deviation([*rows, [7.0]]) ** 2
    assert least == pytest.approx((np.std([0.0, 4.0], ddof=1) / 2) ** 2)
    assert least_deviation(rows[1:]) == 0
    sampled = sample([rows[0], [5.0], rows[4]], np.zeros((3, 50)), 100, least=least)
    assert sampled.seed_variance == pytest.approx([least / 2, 0, np.var(rows[4], ddof=1) / 2])


def test_both_sources_add_up() -> None:
    """Three seeds against one that has none: t's quantile is the mean of the pairs' and the seeds'."""
    generator = np.random.default_rng(2)
    predicted, gold = correlated(generator, [0.8, 0.7, 0.6, 0.65], 200)
    sampled = sample_pairs([predicted[:3], predicted[3]], gold, resamples=800)
    result = differences(sampled)
    scores = [stats.spearmanr(row, gold).statistic for row in predicted]
    drawn = resample(predicted, gold, resamples=800)
    pairs = (drawn[:3].mean(axis=0) - drawn[3]).var(ddof=1)
    seeds = np.var(scores[:3], ddof=1) / 3
    assert result.value[0, 1] == pytest.approx(np.mean(scores[:3]) - scores[3])
    assert result.error[0, 1] == pytest.approx(np.sqrt(pairs + seeds))
    share = seeds / (pairs + seeds)
    quantile = (1 - share) * stats.t.ppf(0.975, 199) + share * stats.t.ppf(0.975, 2)
    assert stats.t.ppf(0.975, result.df[0, 1]) == pytest.approx(quantile)
    assert result.low[0, 1] == pytest.approx(result.value[0, 1] - quantile * np.sqrt(pairs + seeds))


def test_one_seed_says_nothing() -> None:
    """No p, interval or set of the best with a method of a single seed, unless a variance stands in for its own."""
    predicted, gold = correlated(np.random.default_rng(3), [0.8, 0.7], 100)
    alone = sample_pairs([predicted[:1], predicted[1]], gold, resamples=300)
    result = differences(alone)
    spread = (alone.drawn[0] - alone.drawn[1]).std(ddof=1)
    assert result.pairs_error[0, 1] == pytest.approx(spread)
    assert np.isnan([result.p[0, 1], result.low[0, 1], result.high[0, 1], result.df[0, 1]]).all()
    assert result.p.diagonal().tolist() == [1, 1]
    with pytest.raises(ContractError, match="one seed"):
        best_set(alone)
    noise = pooled_noise([[0.7, 0.8], [0.5, 0.5, 0.8], [0.3]])
    assert (noise.variance, noise.df) == pytest.approx(((0.005 + 0.06) / 3, 3))
    result = differences(sample([[0.8], [0.7]], alone.drawn, 100, {0: noise}))
    assert result.error[0, 1] == pytest.approx(np.sqrt(spread**2 + noise.variance))
    assert 1.5 < result.df[0, 1] < 99


def test_rows_that_borrow_one_noise_have_half_its_degrees_of_freedom_each() -> None:
    """Six degrees of freedom: any two rows count them once, and how many others borrow changes nothing."""
    drawn = np.random.default_rng(0).normal(size=(3, 50))
    for borrowing, df in ((1, [3, 0, 0]), (2, [3, 3, 0]), (3, [3, 3, 3])):
        sampled = sample([[0.5], [0.6], [0.7]], drawn, 50, {place: SeedNoise(0.04, 6) for place in range(borrowing)})
        assert sampled.seed_df.tolist() == df and sampled.seed_variance[0] == 0.04


def test_of_pairs_that_differ_alike_the_first_come_first() -> None:
    assert largest(np.array([-2.0, 1.0, 2.0 + 1e-9, 3.0, -2.0]), 4) == [3, 0, 2, 4]


def test_methods_without_a_value_are_refused() -> None:
    """Resamples in which any method is undefined are left out; where all are, nothing can be said."""
    predicted, gold = correlated(np.random.default_rng(3), [0.8, 0.8], 20)
    predicted[1] = np.arange(20) == 4
    drawn = resample(predicted, gold, resamples=2000)
    kept = np.isfinite(drawn[1])
    result = differences(sample([[0.8], [0.1]], drawn, 20))
    assert result.error[0, 1] == pytest.approx((drawn[0] - drawn[1])[kept].std(ddof=1))
    with pytest.raises(ContractError, match="all equal"):
        sample_pairs([np.ones(20)], gold, resamples=50)


@pytest.mark.slow
def test_intervals_cover_the_truth() -> None:
    """95% intervals of differences hold the truth 92-98% of the time; with noise of seeds up to 99.5%.

    The seeds here share no noise of pairs, which both parts of the variance then count; and few seeds beside pairs have
    fewer degrees of freedom than would do on average.
    400 data sets of 150 pairs; the truth is the rho of the normal distribution they come from: 6/pi arcsin(r/2) for a
    Pearson correlation of r. A seed moves a method's r; three of them are measured.
    """
    generator = np.random.default_rng(4)
    rhos = [0.7, 0.7, 0.5]
    truth = 6 / np.pi * np.arcsin(np.array(rhos) / 2)
    between = truth[:, None] - truth
    covered, with_seeds, wrong = [], [], []
    for _ in range(400):
        predicted, gold = correlated(generator, rhos, 150)
        result = differences(sample_pairs(list(predicted), gold, resamples=200))
        covered.append((result.low <= between) & (between <= result.high))
        wrong.append(result.p[0, 1] < 0.05)
        moved = (np.repeat(rhos, 3) + generator.normal(0, 0.06, 9)).tolist()
        predicted, gold = correlated(generator, moved, 150)
        result = differences(sample_pairs(predicted.reshape(3, 3, 150), gold, resamples=200))
        with_seeds.append((result.low <= between) & (between <= result.high))
    for coverage, most in ((np.mean(covered, axis=0), 0.98), (np.mean(with_seeds, axis=0), 0.995)):
        for i, j in ((0, 1), (0, 2), (1, 2)):
            assert 0.92 <= coverage[i, j] <= most
    assert 0.02 <= np.mean(wrong) <= 0.08  # two equally good methods are told apart this often


def drawn_scores(
    generator: np.random.Generator, truth: np.ndarray, seeds_sd: np.ndarray, seeds: int, resamples: int = 500
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return scores by seed and resamples of methods: pairs' noise of sd 1, half of its variance shared by all."""
    shape = (len(truth), 1)
    seed_noise, common = generator.normal(size=shape), generator.normal()
    measured = truth + (seed_noise[:, 0] + common) * np.sqrt(0.5)
    by_seed = [m + generator.normal(0, sd, seeds) for m, sd in zip(measured, seeds_sd, strict=True)]
    noise = generator.normal(size=(len(truth), resamples)) + generator.normal(size=resamples)
    return by_seed, np.array([one.mean() for one in by_seed])[:, None] + noise * np.sqrt(0.5)


@pytest.mark.slow
@pytest.mark.parametrize("seeds_sd", [0.0, 0.5, 3.0])
def test_the_set_holds_the_best(seeds_sd: float) -> None:
    """Twenty equally good methods, 100 draws: each is in the set at least 88% of the time, on average 94%.

    Three seeds each, whose noise is none in some methods and twice `seeds_sd` in others.
    """
    generator = np.random.default_rng(5)
    spread = np.linspace(0, 2, 20) * seeds_sd
    inside = np.zeros(20)
    for _ in range(100):
        by_seed, drawn = drawn_scores(generator, np.full(20, 50.0), spread, 3 if seeds_sd else 1)
        inside += best_set(sample(by_seed, drawn, 5000))
    assert inside.mean() / 100 >= 0.94
    assert inside.min() / 100 >= 0.88


@pytest.mark.slow
def test_the_set_holds_the_best_of_unlike_seeds() -> None:
    """Forty equally good methods, 100 draws: six without noise of seeds, of the others some have much more than others.

    Each is in the set at least 92% of the time, on average 95%. With each variance over seeds taken for the true one it
    was 88% and 94%: methods without noise of their own were left out because of others' variances, small by chance.
    """
    generator = np.random.default_rng(9)
    spread = np.concatenate([np.zeros(6), np.geomspace(0.7, 8, 34)])
    inside = np.zeros(40)
    for _ in range(100):
        by_seed, drawn = drawn_scores(generator, np.full(40, 50.0), spread, 3, 300)
        by_seed[:2] = [one[:1] for one in by_seed[:2]]
        inside += best_set(sample(by_seed, drawn, 5000))
    assert inside.mean() / 100 >= 0.95
    assert inside.min() / 100 >= 0.92


def test_the_set_leaves_out_what_is_worse() -> None:
    """Five methods six standard errors below fifteen good ones are out; so is nearly nothing else."""
    generator = np.random.default_rng(6)
    truth = np.where(np.arange(20) < 15, 50.0, 42.0)
    good = 0
    for _ in range(20):
        by_seed, drawn = drawn_scores(generator, truth, np.full(20, 0.3), 3)
        in_set = best_set(sample(by_seed, drawn, 5000))
        good += in_set[:15].sum()
        assert not in_set[15:].any()
    assert good >= 0.94 * 20 * 15


def test_rows_far_below_do_not_widen_the_set() -> None:
    """Two methods without seeds, 3.3 standard errors apart: so they stay with 100 noisy ones of 3 seeds far below."""
    generator = np.random.default_rng(10)
    drawn = generator.normal(size=(102, 2000))
    drawn -= drawn.mean(axis=1, keepdims=True)
    drawn[:2] *= 1 / (drawn[0] - drawn[1]).std(ddof=1)
    below = [generator.normal(-30, sd, 3) for sd in np.geomspace(0.05, 3, 100)]
    assert best_set(sample([[3.3], [0.0], *below], drawn, 5000)).tolist() == [True] + 101 * [False]


@pytest.mark.slow
@pytest.mark.parametrize(("pairs", "seeds"), [(0.0, 1.0), (1.0, 1.0), (2.0, 0.5)])
def test_power_is_that_of_repetitions(pairs: float, seeds: float) -> None:
    """The noise of a table of 30 rows is recovered, and its detectable difference has p < 0.05 in 75 to 85 of 100."""
    generator = np.random.default_rng(11)

    rows = [generator.normal(50, seeds, 3) for _ in range(30)]
    drawn = np.array([[one.mean()] for one in rows]) + pairs * generator.normal(size=(30, 400)) / np.sqrt(2)
    noise = median_noise(sample(rows, drawn, 5000), [3] * 30)
    assert noise is not None
    assert (noise.pairs, noise.seeds) == (pytest.approx(pairs, rel=0.1, abs=1e-9), pytest.approx(seeds, rel=0.25))
    exact = Noise(pairs, seeds, 399)
    for count in (3, 6):
        apart, significant = detectable(exact, count), []
        for _ in range(1000):
            seed_scores = generator.normal(0, seeds, (2, count)) + pairs * generator.normal(size=(2, 1)) / np.sqrt(2)
            seed_scores[0] += apart
            drawn = seed_scores.mean(axis=1, keepdims=True) + pairs * generator.normal(size=(2, 400)) / np.sqrt(2)
            significant.append(differences(sample(list(seed_scores), drawn, 5000)).p[0, 1] < 0.05)
        assert 0.75 <= np.mean(significant) <= 0.85
    needed = seeds_needed(exact, 3.5)
    if needed is None:
        assert pairs == 2.0
    else:
        assert detectable(exact, needed) <= 3.5
        assert needed == 2 or detectable(exact, needed - 1) > 3.5


def test_two_methods_are_a_one_sided_test() -> None:
    """With one other method the bound is that of one t-test at 5%, one-sided."""
    for lead, expected in ((1.60, True), (1.69, False)):  # the 95% quantile of t with 499 degrees of freedom: 1.648
        drawn = np.random.default_rng(7).normal(size=(2, 200_000)) / np.sqrt(2)
        drawn -= drawn.mean(axis=1, keepdims=True)
        drawn /= (drawn[0] - drawn[1]).std(ddof=1)
        assert best_set(sample([[0.0], [lead]], drawn, 500)).tolist() == [expected, True]


def test_equal_methods_stay_together() -> None:
    """The same vectors twice, and a single method: nothing is left out."""
    predicted, gold = correlated(np.random.default_rng(8), [0.8], 100)
    twice = sample_pairs([predicted[0], predicted[0]], gold, resamples=200)
    assert best_set(twice).tolist() == [True, True]
    assert differences(twice).p.tolist() == [[1, 1], [1, 1]]
    assert best_set(sample_pairs([predicted[0]], gold, resamples=200)).tolist() == [True]


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_methods_and_rounding_decide_no_mark(seed: int) -> None:
    """Ten of forty methods are another's copy; a permutation and the last bits of the variances change nothing."""
    generator = np.random.default_rng(seed)
    copies = np.r_[0:30, generator.integers(0, 30, 10)]
    errors = (generator.normal(size=(30, 300)) / 17 + generator.normal(size=300) / 17)[copies]
    errors[30:] *= 1 + 1e-16
    seeds = [generator.normal(50 + place / 4, 0.3, 3 if place % 3 else 1) for place in range(30)]
    between = ((errors[:, None] - errors) ** 2).sum(axis=-1)

    def among(order: np.ndarray, jitter: float) -> np.ndarray:
        moved = between[np.ix_(order, order)]
        moved = moved * (1 + jitter * (moved + moved.T))
        by_seed = [seeds[copies[place]] for place in order]
        inside = best_set(sampled(by_seed, (moved, np.full(moved.shape, 299)), 300))
        return inside[np.argsort(order)]

    expected = among(np.arange(40), 0.0)
    assert 1 < expected.sum() < 40
    for number in range(4):
        order = generator.permutation(40)
        assert among(order, number * 1e-15).tolist() == expected.tolist()
    for place in range(30):
        assert set(expected[copies == place].tolist()) == {expected[place]}


@pytest.mark.slow
def test_williams_errs_as_often_as_it_says() -> None:
    """Two equal correlations of 0.5, 30 pairs, 4,000 data sets: 5% are called different."""
    generator = np.random.default_rng(6)
    rejections = []
    for _ in range(4000):
        matrix = np.corrcoef(np.vstack([*(pair := correlated(generator, [0.5, 0.5], 30))[0], pair[1]]))
        rejections.append(williams(matrix[0, 2], matrix[1, 2], matrix[0, 1], 30).p < 0.05)
    assert 0.04 <= np.mean(rejections) <= 0.06


@pytest.mark.parametrize("unknown", [1, 2, 4])
def test_a_row_whose_noise_is_not_known_hides_no_other(unknown: int) -> None:
    """Holm's procedure over the rows that have a p; where the other stands changes nothing."""
    scores = [[50.0, 50.1], [70.0, 70.1], [30.0, 30.1], [50.0, 50.2], [71.0, 71.1]]
    drawn = np.random.default_rng(0).normal(0, 0.1, (5, 500))
    compared = differences(sample(scores, drawn, 5000, {unknown: SeedNoise()}))
    expected = {1: "↑", 2: "↓", 4: "↑"}
    expected.pop(unknown)
    assert np.isnan(compared.p[unknown, 0]) and arrows_against(compared, 0) == expected


def test_a_mean_over_tasks_has_the_same_bits_in_every_process() -> None:
    """The order of the sum is the row's, not that of a set, which another process has otherwise."""
    scores = dict(zip("abcdefgh", np.random.default_rng(0).uniform(0.1, 0.9, 8).tolist(), strict=True))
    means = set()
    for shift in range(8):
        order = [*scores][shift:] + [*scores][:shift]
        row = {task: [make_record("bag", task, main=scores[task])] for task in order}
        means.add(by_seed(row)[None])
        assert by_seed(row, {*scores}) == {None: float(np.mean([100 * scores[task] for task in order]))}
    assert len(means) > 1


@pytest.mark.parametrize(("scores", "sd"), [([1.0, 3.0], 2**0.5), ([5.0], None)])
def test_the_spread_over_seeds_is_that_of_a_sample(scores: list[float], sd: float | None) -> None:
    assert _sd(scores) == pytest.approx(sd)
