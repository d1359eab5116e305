"""The model card of a pretrained model, from its measured facts."""

from __future__ import annotations

from typing import Any


def model_card(name: str, facts: dict[str, Any]) -> str:
    """Return the model card: data, training, held-out scores, ancestry, and the command that makes it again."""
    recipe, model, labelled = facts["recipe"], facts["model"], facts["ancestry"]["labelled"]
    causal = model["architecture"] == "gpt2"
    ancestry = "from " + ", ".join(facts["ancestry"]["ancestors"]) if facts["ancestry"]["ancestors"] else "none"
    if labelled:
        ancestry = (
            f"labelled ancestry: {', '.join(labelled)} was trained on labelled sentence pairs, and part of what this"
            " model scores may be left of that"
        )
    start = f"tokens {recipe['tokens']}, positions {recipe['positions']}, output bias {recipe['output_bias']}"
    fall = f"the last {recipe['decay_steps']:,} steps" if recipe["decay_steps"] else "all steps after them"
    curve = "".join(
        f"| {point['step']:,} | {100 * point['held_out_accuracy']:.2f} | {point['held_out_pseudo_perplexity']:.1f} |\n"
        for point in facts["held_out_curve"]
    )
    return f"""# {name}

A {"causal" if causal else "masked"} language model pretrained by `zoo-bench pretrain` (zoo-bench {facts["version"]}, \
code {(facts.get("code") or facts.get("commit") or "unknown")[:12]}) with `transformers.Trainer`.

| | |
|---|---|
| model | {model["architecture"].upper()}, {model["layers"]} layers, {model["width"]} wide, {model["heads"]} heads, \
vocabulary {model["vocabulary"]:,}, {model["parameters"] / 1e6:.1f} million weights, \
{"tied" if model["tied"] else "untied"} output embeddings |
| ancestry | {ancestry} |
| text | {", ".join(facts["texts"])}: {facts["rows"]:,} rows of {recipe["row_length"]} tokens; \
{facts["excluded_sentences"]:,} tested sentences left out |
| training | {facts["steps"]:,} steps of {recipe["batch_rows"]} rows \
({facts["tokens_seen"] / 1e6:.1f} million tokens), \
AdamW {recipe["learning_rate"]:g} (0.9, {recipe["beta2"]:g}), weight decay {recipe["weight_decay"]:g}, \
{recipe["warmup_steps"]:,} warm-up steps, then a fall to 0 over {fall}, \
{"the next token" if causal else f"masking {100 * recipe['mask_rate']:.0f} %"}, dropout {recipe["dropout"]:g}, \
seed {recipe["seed"]}; on {facts["device"]} in {facts["precision"]} |
| start | {start if recipe["begin_from"] is None else f"the weights of {recipe['begin_from']}"} |
| resumed | {"never" if facts["resumed_at"] is None else f"last at step {facts['resumed_at']:,}"} |
| held out | token accuracy {100 * facts["held_out_accuracy"]:.2f} %, pseudo-perplexity \
{facts["held_out_pseudo_perplexity"]:.1f} ({facts["held_out_tokens"]:,} tokens) |

Made again by

    {facts["command"]}

| step | held-out accuracy, % | pseudo-perplexity |
|---:|---:|---:|
{curve}"""
