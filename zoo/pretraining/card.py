"""The model card and the training curve of a pretrained model, from its measured facts."""

from __future__ import annotations

from typing import Any

_POINTS = 12  # of the held-out curve in the card


def model_card(name: str, facts: dict[str, Any]) -> str:
    """Return the model card: data, training, held-out scores, ancestry, and the command that makes it again."""
    recipe, model, ancestry = facts["recipe"], facts["model"], facts["ancestry"]
    embedding = "" if model["embedding"] == model["width"] else f", token vectors {model['embedding']} wide"
    stages = "".join(f", rows of {length} from step {step:,} on" for step, length in recipe["row_stages"])
    went_on = "" if recipe["begin_from"] is None else f"; went on from {recipe['begin_from']}"
    causal = model["architecture"] == "gpt2"
    task, accuracy = ("the next token", "next-token") if causal else (f"masking {_masking(recipe)}", "masked-token")
    start = f"tokens {recipe['table'] or recipe['tokens']}, positions {recipe['positions']}"
    start += f", output bias {recipe['output_bias']}, residual outputs times {recipe['residual_scale']:g}"
    return f"""# {name}

A {"causal" if causal else "masked"} language model pretrained by `zoo-bench pretrain`.

| | |
|---|---|
| model | {model["architecture"].upper()}, {model["layers"]} layers, {model["width"]} wide, {model["heads"]} heads, \
{model["inner"]} inner{embedding}, vocabulary {model["vocabulary"]:,}, \
{model["parameters"] / 1e6:.1f} million weights, {"tied" if recipe["tie_embeddings"] else "untied"} output embeddings |
| ancestry | {_ancestry(ancestry)} |
| text | {", ".join(facts["texts"])}: {facts["sentences"]:,} sentences, {facts["stream_tokens"]:,} tokens; \
{facts["excluded_sentences"]:,} sentences left out because a benchmark tests them |
| training | {facts["steps"]:,} steps of {recipe["batch_rows"]} rows x {recipe["row_length"]} tokens{stages} \
({facts["tokens_seen"] / 1e6:.1f} million), {_optimiser(recipe)}, {task}, dropout \
{recipe["dropout"]:g}, seed {recipe["seed"]}; {facts["seconds"]:.0f} s on {facts["device"]} in {facts["precision"]} |
| rate | {recipe["warmup_steps"]:,} warm-up steps, {_fall(recipe)} |
| resumed | {_resumed(facts)} |
| start | {start if recipe["begin_from"] is None else "the ancestor's weights"}{went_on} |
| loss | {_loss(recipe)} |
| held out | {accuracy} accuracy {100 * facts["held_out_accuracy"]:.2f} %, pseudo-perplexity \
{facts["held_out_pseudo_perplexity"]:.1f} ({facts["held_out_masked_tokens"]:,} tokens) |
{_stages(facts["stages"])}{_again(facts)}{_points(facts["held_out_curve"])}"""


def _ancestry(ancestry: dict[str, list[str]]) -> str:
    if ancestry["labelled"]:
        return (
            f"labelled ancestry: {', '.join(ancestry['labelled'])} was trained on labelled sentence pairs, and part of"
            " what this model scores may be left of that"
        )
    if ancestry["ancestors"]:
        return f"from {', '.join(ancestry['ancestors'])}, which state no labelled training"
    return "none: from text alone"


def _optimiser(recipe: dict[str, Any]) -> str:
    adamw = f"AdamW {recipe['learning_rate']:g} (0.9, {recipe['beta2']:g}), weight decay {recipe['weight_decay']:g}"
    if recipe["optimizer"] == "adamw":
        return adamw
    return f"Muon {recipe['learning_rate']:g} (momentum {recipe['momentum']:g}) for the hidden matrices, {adamw}"


def _masking(recipe: dict[str, Any]) -> str:
    last, steps = recipe["last_mask_rate"], recipe["mask_steps"]
    return f"{100 * recipe['mask_rate']:.0f} %" + ("" if last is None else f" to {100 * last:.0f} % at step {steps:,}")


def _stages(stages: list[dict[str, Any]]) -> str:
    """Return a line for each training that the weights went through, if there were several."""
    if len(stages) < 2:
        return ""
    return "".join(
        f"| stage {number} | {stage['tokens_seen'] / 1e6:.1f} million tokens, masking {_masking(stage)}, held-out"
        f" accuracy {100 * stage['held_out_accuracy']:.2f} %,"
        f" pseudo-perplexity {stage['held_out_pseudo_perplexity']:.1f} |\n"
        for number, stage in enumerate(stages, 1)
    )


def _fall(recipe: dict[str, Any]) -> str:
    if recipe["decay_steps"] is None:
        return "then falling to 0 at the last step"
    if recipe["decay_steps"] == 0:
        return "then constant: this training is not finished"
    return f"then constant, falling to 0 over the last {recipe['decay_steps']:,} steps"


def _resumed(facts: dict[str, Any]) -> str:
    if not facts["resumed"]:
        return "never"
    steps = ", ".join(f"{step:,}" for step in facts["resumed_at"][:20])
    more = " ..." if facts["resumed"] > 20 else ""
    return f"{facts['resumed']} times, at steps {steps}{more}"


def _loss(recipe: dict[str, Any]) -> str:
    taught = f"; soft targets of {recipe['teacher']}, weight {recipe['teacher_weight']:g}" if recipe["teacher"] else ""
    if recipe["vocabulary_loss"] == "full":
        return f"cross-entropy over the whole vocabulary{taught}"
    return (
        f"cross-entropy over the {recipe['frequent_tokens']:,} most frequent tokens and"
        f" {recipe['drawn_tokens']:,} drawn others at each step"
    )


def _again(facts: dict[str, Any]) -> str:
    return "" if facts["command"] is None else f"\nMade again by\n\n    {facts['command']}\n"


def _points(curve: list[dict[str, Any]]) -> str:
    if not curve:
        return ""
    step = -(-len(curve) // _POINTS)
    some = curve[::-1][::step][::-1]
    rows = "".join(
        f"| {point['tokens'] / 1e6:,.1f} | {point['step']:,} | {100 * point['held_out_accuracy']:.2f} |"
        f" {point['held_out_pseudo_perplexity']:.1f} |\n"
        for point in some
    )
    head = "\n| million tokens | step | held-out accuracy, % | pseudo-perplexity |\n|---:|---:|---:|---:|\n"
    return f"{head}{rows}\n![curve](training-curve.svg)\n"


def curve_svg(log: list[dict[str, Any]], tokens_per_step: float, width: int = 640, height: int = 320) -> str:
    """Return the training loss and the held-out accuracy against millions of tokens as a small SVG picture."""
    losses = [(entry["step"] * tokens_per_step, entry["loss"]) for entry in log if "loss" in entry]
    scores = [(entry["tokens"], 100 * entry["held_out_accuracy"]) for entry in log if "held_out_accuracy" in entry]
    if len(losses) < 2:
        return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"/>\n'
    first, last = losses[0][0], max(losses[-1][0], scores[-1][0] if scores else 0)
    style = 'font-family="sans-serif" font-size="12"'
    parts = []
    for name, points, colour, edge, anchor in (
        ("training loss", losses, "#3366aa", 5, "start"),
        ("held-out accuracy, %", scores, "#aa5522", width - 5, "end"),
    ):
        if not points:
            continue
        low, high = min(y for _, y in points), max(y for _, y in points)
        line = " ".join(
            f"{50 + (width - 110) * (x - first) / max(last - first, 1e-9):.1f},"
            f"{30 + (height - 70) * (high - y) / max(high - low, 1e-9):.1f}"
            for x, y in points
        )
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
            f'<text x="{edge}" y="15" text-anchor="{anchor}" fill="{colour}" {style}>{name}</text>'
            f'<text x="{edge}" y="35" text-anchor="{anchor}" fill="{colour}" {style}>{high:.2f}</text>'
            f'<text x="{edge}" y="{height - 40}" text-anchor="{anchor}" fill="{colour}" {style}>{low:.2f}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">{"".join(parts)}'
        f'<text x="50" y="{height - 15}" {style}>{first / 1e6:.2f}</text>'
        f'<text x="{width - 60}" y="{height - 15}" text-anchor="end" {style}>{last / 1e6:.2f} million tokens</text>'
        "</svg>\n"
    )
