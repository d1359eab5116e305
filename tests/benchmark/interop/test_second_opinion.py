"""Others' results: every form gives the same table, order and names decide nothing, what is doubtful is said."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import benchmark
from benchmark.interop.published_scores import read_published
from benchmark.interop.second_opinion import (
    SecondOpinion,
    compare_models,
    largest_t,
    ranks,
    sample_tasks,
    second_opinion,
)
from benchmark.stats.mcb import differences
from zoo.errors import MissingError, UsageError


def published(models: int = 5, tasks: int = 9, seed: int = 0, lead: float = 0.0) -> pandas.DataFrame:
    """Return scores in 0..1 of models (rows) on tasks; the first leads by `lead`."""
    generator = np.random.default_rng(seed)
    scores = generator.uniform(0.3, 0.6, tasks) + generator.normal(0, 0.02, (models, tasks))
    scores[0] += lead
    names = [f"org/m{i}" for i in range(models)]
    return pandas.DataFrame(scores, index=names, columns=[f"task{i}" for i in range(tasks)])


def long_of(frame: pandas.DataFrame) -> pandas.DataFrame:
    return frame.rename_axis("model").reset_index().melt("model", var_name="task", value_name="score").dropna()


def write_mteb(folder: Path, frame: pandas.DataFrame, revision: str = "r1") -> Path:
    for model, row in frame.iterrows():
        place = folder / str(model).replace("/", "__") / revision
        place.mkdir(parents=True, exist_ok=True)
        (place / "model_meta.json").write_text("{}")
        for task, score in row.dropna().items():
            result = {"task_name": task, "scores": {"test": [{"hf_subset": "default", "main_score": score}]}}
            (place / f"{task}.json").write_text(json.dumps(result))
    return folder


def write_lines(path: Path, frame: pandas.DataFrame, newer: bool) -> Path:
    lines: list[dict[str, Any]] = []
    for each in long_of(frame).itertuples():
        about = {"dataset": each.task, "task": ""}
        scores = {"test_mcc": 100 * each.score, "test_mcc_se": 1.0, "test_f1": 3.0}
        results = [{"evaluation_name": name, "score_details": {"score": value}} for name, value in scores.items()]
        new = {"model_info": {"name": each.model}, "eval_library": {"additional_details": about}}
        old = {**about, "model": each.model, "results": {"total": scores, "raw": []}}
        lines.append(new | {"evaluation_results": results} if newer else old)
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def same(a: SecondOpinion, b: SecondOpinion) -> None:
    pandas.testing.assert_frame_equal(a.to_frame(), b.to_frame(), check_names=False, rtol=1e-12)


@settings(max_examples=8, deadline=None)
@given(st.integers(2, 6), st.integers(3, 12), st.integers(0, 99))
def test_every_form_gives_the_same_table(
    tmp_path_factory: pytest.TempPathFactory, models: int, tasks: int, seed: int
) -> None:
    frame, place = published(models, tasks, seed), tmp_path_factory.mktemp("forms")
    wide = second_opinion(frame)
    named = frame.rename_axis("Model").reset_index()
    named.to_csv(place / "wide.csv", index=False)
    long_of(frame).to_parquet(place / "long.parquet")
    generator = np.random.default_rng(seed)
    shuffled = named.iloc[generator.permutation(models), [0, *(1 + generator.permutation(tasks))]]
    forms: list[Any] = [place / "wide.csv", place / "long.parquet", shuffled, frame.T.rename_axis("task_name")]
    forms += [write_mteb(place / "results", frame), frame * 100]
    forms += [write_lines(place / f"{newer}.jsonl", frame, newer) for newer in (False, True)]
    for form in forms:
        same(wide, second_opinion(form))
    # Other names of the tasks are other columns of the same scores.
    same(wide, second_opinion(frame.set_axis([f"x{i}" for i in range(tasks)][::-1], axis=1)))
    assert wide.frame["mean"].to_dict() == pytest.approx((100 * frame.mean(axis=1)).to_dict())


def test_a_clear_lead_is_seen_and_none_is_invented() -> None:
    opinion = second_opinion(published(lead=0.2))
    clear, (_, models, *_) = opinion.frame, opinion.cells()
    assert [model.endswith(" *") for model in models[1:]] == clear.tied.tolist() and models[1] == "org/m0 *"
    assert clear.index[0] == "org/m0" and clear.tied.tolist() == [True] + 4 * [False]
    assert (clear["first"].iloc[0], clear["last"].iloc[0]) == (1, 1)
    apart = [opinion.compare(a, b).p < 0.05 for a, b in itertools.pairwise(clear.index)]
    assert f"Of 4 neighbours {4 - sum(apart)} are not separated" in opinion.notes[3] and 0 < sum(apart) < 2
    same_scores = second_opinion(pandas.concat([published(1), published(1).set_axis(["twin"])])).frame
    assert same_scores.tied.all() and same_scores["rank_of"].tolist() == [1, 1]
    assert set(same_scores["first"]) == {1} and set(same_scores["last"]) == {2}


def test_tasks_of_a_type_are_drawn_together() -> None:
    # Copies of a task add nothing: the interval is that of the tasks without their copies.
    frame = published(4, 6)
    copies = pandas.concat([frame, frame.add_suffix("-again"), frame.add_suffix("-third")], axis=1)
    long = long_of(copies)
    grouped = second_opinion(long.assign(type=long["task"].str.partition("-")[0]))
    alone, apart = second_opinion(frame), second_opinion(long)
    width = {"grouped": grouped, "alone": alone, "apart": apart}
    spread = {name: (of.frame.high - of.frame.low).mean() for name, of in width.items()}
    assert spread["grouped"] == pytest.approx(spread["alone"], rel=0.1)
    assert spread["apart"] < 0.7 * spread["alone"]
    # A source that differs from model to model is no group of tasks.
    sources = second_opinion(long.assign(source=long["model"]))
    same(sources, apart)
    assert any("a task has several" in note for note in sources.notes)
    assert "drawn together" in grouped.notes[0] and "Unit: 18 tasks" in grouped.notes[0]


def test_missing_tasks_revisions_and_scales_are_each_a_sentence(tmp_path: Path) -> None:
    frame = published()
    frame.loc["org/m3", "task2"] = np.nan
    opinion = second_opinion(write_mteb(tmp_path / "a", frame))
    assert "org/m3" not in opinion.frame.index and "org/m3 (task2)" in opinion.notes[-1]
    write_mteb(tmp_path / "b", published())
    both = second_opinion(write_mteb(tmp_path / "b", published(seed=1).iloc[:1], "r2"))
    assert {"org/m0@r1", "org/m0@r2"} < set(both.frame.index)
    assert "Each revision is a row, of models with several: org/m0 (r1, r2)." in both.notes
    points = published().assign(task4=lambda it: 100 * it.task4)
    same(second_opinion(points), second_opinion(published()))
    assert any("Taken as 0..100 among tasks in 0..1: task4." in note for note in second_opinion(points).notes)


def test_nothing_is_read_in_two_ways(tmp_path: Path) -> None:
    mixed = published()
    mixed.loc["org/m1", "task1"] *= 100
    mixed.loc["org/m2", "task1"] *= 120
    mixed.loc["org/m4", "task1"] *= 50
    with pytest.raises(UsageError, match=r"task1 mixes 0\.\.1 with 0\.\.100"):
        second_opinion(mixed)
    with pytest.raises(UsageError, match="several scores on task0"):
        second_opinion(pandas.concat([long_of(published()), long_of(published(seed=3))]))
    with pytest.raises(UsageError, match="no score within"):
        second_opinion(published().assign(latency=[900, 3, 4, 5, 6]))
    scattered = published(2, 6)
    scattered.iloc[0, 0] = scattered.iloc[1, 5] = np.nan
    with pytest.raises(MissingError, match="a mean over other tasks is never made") as raised:
        second_opinion(scattered)
    # The remedy in the error works.
    assert len(second_opinion(scattered, tasks=str(raised.value).split("'")[1].split(",")).frame) == 2
    for empty in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(MissingError):
            read_published(empty)


def test_columns_that_are_no_tasks_are_named() -> None:
    frame = published()
    more = frame.assign(
        **{"Rank (Borda)": range(5), "Mean (Task)": 50.0, "Licence": "mit", "Open": 3 * [True] + [False] * 2}
    )
    opinion = second_opinion(more)
    same(opinion, second_opinion(frame))
    assert any(
        all(name in note for name in ("Rank (Borda)", "Mean (Task)", "Licence", "Open")) for note in opinion.notes
    )


def test_the_task_that_decides_is_named() -> None:
    scores = pandas.DataFrame([np.linspace(51, 53, 8), np.full(8, 50.0)], ["a", "b"], [f"t{i}" for i in range(8)])
    assert compare_models(scores, 8 * [""]).deciding == []
    scores.loc["b", "t0"] = 58.6
    result = compare_models(scores, 8 * [""])
    assert result.deciding == ["t0"] and next(iter(result.tasks)) == "t0"
    assert result.difference == pytest.approx((scores.loc["a"] - scores.loc["b"]).mean())
    assert result.tasks == pytest.approx((scores.loc["a"] - scores.loc["b"]).to_dict())


def test_by_command(tmp_path: Path, cli: Any) -> None:
    path = tmp_path / "scores.csv"
    published(lead=0.2).rename_axis("model").to_csv(path)
    run = cli("others", str(path), "--out", str(tmp_path / "out"))
    assert run.code == 0 and run.out.startswith("Others' results, not ours. Unit: 9 tasks")
    files = {p.suffix: p.read_text(encoding="utf-8") for p in (tmp_path / "out").iterdir()}
    assert sorted(files) == [".csv", ".html", ".json", ".md", ".tex"]
    assert files[".tex"].count(r" \\") == 6 and r"\caption{Others" in files[".tex"]
    # The first of five leads: its bar is the first fifth.
    assert files[".html"].count('class="ranks"') == 5 and "margin-left:0.00%;width:20.00%" in files[".html"]
    shown = json.loads(cli("others", str(path), "--json", "--tasks", "task1,task2,task5").out)
    assert shown["of_others"] and shown["rows"][0]["model"] == "org/m0"
    compared = json.loads(cli("others", str(path), "org/m0", "org/m1", "--json").out)
    assert compared["p"] < 0.05 and compared["low"] > 0
    refused = cli("others", str(path), "org/m0")
    assert refused.code == 2 and "none or two, A and B" in refused.err
    alone = json.loads(cli("others", str(path), "--json", "--ungrouped").out)
    assert alone["rows"] == benchmark.second_opinion(path, grouped=False).as_dict()["rows"]
    for words in (("leaderboard", str(path)), ("compare", "org/m0", "org/m1", "--results", str(path))):
        refused = cli(*words)
        assert refused.code and f"`zoo-bench others {path}`" in refused.err
    assert benchmark.second_opinion(path).frame.tied.sum() == 1


@pytest.mark.parametrize("decimal", [".", ","])
def test_a_table_with_semicolons(tmp_path: Path, decimal: str) -> None:
    frame = published().rename_axis("model")
    frame.to_csv(tmp_path / "scores.csv", sep=";", decimal=decimal)
    same(second_opinion(tmp_path / "scores.csv"), second_opinion(frame))


@pytest.mark.slow
def test_a_benchmark_of_mteb_decides_tasks_subsets_and_types(tmp_path: Path) -> None:
    """Also of files from before mteb 1.11, which mteb converts; a mean over other subsets is never made."""
    mteb = pytest.importorskip("mteb", reason="pip install 'zoo-bench[mteb]'")
    tasks = mteb.get_benchmark("MTEB(eng, v2)").tasks
    frame = published(4, len(tasks)).set_axis([task.metadata.name for task in tasks], axis=1)
    folder = write_mteb(tmp_path / "results", frame.assign(Other=0.5))
    for path in folder.rglob("*.json"):
        task = next((each for each in tasks if each.metadata.name == path.stem), None)
        if task is not None:
            (subset,) = task.hf_subsets
            (entry,) = json.loads(path.read_text())["scores"]["test"]
            entries = [{**entry, "hf_subset": subset}, {"hf_subset": "of another language", "main_score": 0.0}]
            path.write_text(json.dumps({"task_name": path.stem, "scores": {"test": entries}}))
    scores = dict.fromkeys(("ndcg_at_10", "main_score"), float(frame.loc["org/m1", "ArguAna"]))
    old = {"mteb_dataset_name": "ArguAna", "mteb_version": "1.2.0", "dataset_revision": "x"}
    (folder / "org__m1" / "r1" / "ArguAna.json").write_text(
        json.dumps({**old, "test": {**scores, "evaluation_time": 1.0}})
    )
    sts = folder / "org__m2" / "r1" / "STS17.json"
    sts.write_text(sts.read_text().replace("en-en", "ar-ar"))
    opinion = second_opinion(folder, tasks="MTEB(eng, v2)")
    wanted = frame.drop("org/m2").mean(axis=1) * 100
    assert opinion.frame["mean"].to_dict() == pytest.approx(wanted.to_dict())
    assert "org/m2 (STS17)" in opinion.notes[-1] and {*opinion.groups} == {task.metadata.type for task in tasks}
    with pytest.raises(UsageError, match=r"no benchmark 'MTEB\(eng, v3\)'"):
        second_opinion(folder, tasks="MTEB(eng, v3)")


@pytest.mark.parametrize("spread", [0.0, 0.01])
def test_repeats_within_a_task_are_stated_and_contained(tmp_path: Path, spread: float) -> None:
    frame = published(4, 6)
    steps, repeated = spread * np.array([-1.0, 0.0, 1.0]), {"task0", "task3"}
    folder, lines = write_mteb(tmp_path / "results", frame), write_lines(tmp_path / "a.jsonl", frame, newer=False)
    for path in folder.glob("*/*/task*.json"):
        result = json.loads(path.read_text())
        (entry,) = result["scores"]["test"]
        if path.stem in repeated:
            entry["scores_per_experiment"] = [{"f1": 0.1, "accuracy": entry["main_score"] + step} for step in steps]
        path.write_text(json.dumps(result))
    entries = [json.loads(line) for line in lines.read_text().splitlines()]
    for entry in entries:
        if entry["dataset"] in repeated:
            score = entry["results"]["total"]["test_mcc"] / 100
            entry["results"]["raw"] = [{"test_f1": 0.1, "test_mcc": score + step} for step in steps]
    lines.write_text("\n".join(map(json.dumps, entries)))
    without = second_opinion(frame)
    assert "nothing is known within a task" in without.notes[0]
    for source in (folder, lines):
        opinion, within = second_opinion(source), read_published(source).within
        same(opinion, without)
        assert {*within.columns[within.notna().all()]} == repeated
        # Three repeats one step apart: the variance is the squared step, that of their mean a third of it.
        assert within["task0"].to_numpy() == pytest.approx((100 * spread) ** 2 / 3)
        assert "known from repeats on 2 of 6 tasks" in opinion.notes[0]
        # Of the mean of six tasks two have this variance, in both models of a difference.
        between = sample_tasks(100 * frame.to_numpy(), 6 * [""])[0].between[np.triu_indices(4, 1)]
        share = np.median(2 * 2 * (100 * spread) ** 2 / 3 / 6**2 / between)
        assert f"at most {100 * min(share, 1):.1f}% of the variance" in opinion.notes[0]


def test_the_spread_over_tasks_contains_the_noise_within_them() -> None:
    generator, scores = np.random.default_rng(0), []
    estimated = []
    for _ in range(200):
        values = generator.normal(0, 1, (2, 12)) + generator.normal(0, 2, (2, 12))
        estimated.append(sample_tasks(values, [""] * 12)[0].between[0, 1])
        scores.append(values[0].mean() - values[1].mean())
    assert np.mean(estimated) == pytest.approx(2 * (1 + 4) / 12, rel=0.1)
    assert np.var(scores) == pytest.approx(2 * (1 + 4) / 12, rel=0.25)


def test_seeds_that_tasks_share_widen_the_interval(tmp_path: Path) -> None:
    frame, shifts = published(4, 6), np.array([-0.02, 0.0, 0.02])
    seeds = pandas.concat([long_of(frame + shift).assign(seed=seed) for seed, shift in enumerate(shifts)])
    seeds = seeds[(seeds["model"] != "org/m3") | (seeds["seed"] == 1)]
    seeds.to_csv(tmp_path / "long.csv", index=False)
    wide = seeds.pivot(index=["model", "seed"], columns="task", values="score").reset_index()
    without, with_seeds = second_opinion(frame), second_opinion(tmp_path / "long.csv")
    same(with_seeds, second_opinion(wide))
    assert with_seeds.frame["mean"].to_dict() == pytest.approx(without.frame["mean"].to_dict())
    assert "for other seeds of 3 of 4 models" in with_seeds.notes[0]
    before, after = without.compare("org/m0", "org/m1"), with_seeds.compare("org/m0", "org/m1")
    # Seeds two points apart: a variance of 4, of a mean over three 4 / 3, of a difference twice that.
    of_tasks = sample_tasks(100 * frame.loc[["org/m0", "org/m1"]].to_numpy(), [""] * 6)[0].between[0, 1]
    compared = sample_tasks(
        100 * frame.to_numpy()[:2],
        [""] * 6,
        {place: 100 * (frame.to_numpy()[[place]] + shifts[:, None]) for place in (0, 1)},
    )[0]
    assert differences(compared).error[0, 1] ** 2 == pytest.approx(of_tasks + 8 / 3)
    assert after.high - after.low > before.high - before.low
    assert (with_seeds.frame["last"] >= without.frame["last"][with_seeds.frame.index]).all()
    # A model's own interval has them too: of tasks that differ little, the seeds are most of it.
    flat = frame - frame.mean() + 0.45
    seeds = pandas.concat([long_of(flat + shift).assign(seed=seed) for seed, shift in enumerate(shifts)])
    widths = [second_opinion(source).frame.eval("high - low") for source in (flat, seeds)]
    assert (widths[1] > np.hypot(widths[0], 2 * 2.571 * np.sqrt(4 / 3))).all()
    # A single seed, and seeds that all agree, leave the table as it is.
    pandas.testing.assert_frame_equal(second_opinion(long_of(frame).assign(seed=7)).frame, without.frame)
    same(second_opinion(pandas.concat([long_of(frame).assign(seed=seed) for seed in range(3)])), without)


def test_ranks_counted_from_below_are_those_from_above() -> None:
    for seed in range(5):
        values = np.random.default_rng(seed).normal(size=(8, 12)) + np.linspace(0, 2, 8)[:, None]
        of, units = sample_tasks(values, [""] * 12)
        below = replace(of, value=-of.value)
        first, last, _ = ranks(of, units, differences(of))
        from_below, from_above, _ = ranks(below, -units, differences(below))
        assert (9 - first).tolist() == from_above.tolist() and (9 - last).tolist() == from_below.tolist()


@pytest.mark.parametrize("models", [3, 7, 20])
def test_the_largest_t_of_blocks_is_that_of_all_pairs(models: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two equal models, and with and without a variance over seeds."""
    monkeypatch.setattr("benchmark.interop.second_opinion._BLOCK", 3)
    generator = np.random.default_rng(models)
    mean, noise = generator.normal(size=models), generator.normal(size=(models, 5))
    mean[1], noise[1] = mean[0], noise[0]
    for variance in (np.zeros(models), generator.chisquare(2, size=models)):
        distance = ((noise[:, None] - noise) ** 2).sum(axis=-1) + variance[:, None] + variance
        lead = mean[:, None] - mean
        t = np.divide(lead, np.sqrt(distance), out=np.zeros_like(lead), where=distance > 0)
        over, under = largest_t(mean, noise, variance)
        np.testing.assert_allclose(over, t.max(axis=1), atol=1e-9)
        np.testing.assert_allclose(under, t.max(axis=0), atol=1e-9)
