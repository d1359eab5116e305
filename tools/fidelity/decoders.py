"""Vectors of ten sentences by the released codes of Token Prepending, MetaEOL and GenEOL, on a small decoder.

`python decoders.py CHECKOUTS DUMP` runs them, with transformers 4.46.3, from CHECKOUTS/NAME and writes DUMP.
`write_llama` writes the decoder, by a formula and not at random, for them and for a test of ours.
This file imports nothing of zoo-bench.
"""

import contextlib
import itertools
import json
import math
import runpy
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from unittest import mock

import torch

TEXTS = [
    "the cat sees a dog",
    "is the river near the old tree ?",
    'a "bird" near the house',
    "the stone again .",
    "the dog sees the cat again",
    "a tree",
    "'a house'",
    "the old cat sees a bird near the river",
    "cloud",
    "the tree sees a stone near the old house again .",
]
REWRITES = {text: [" ".join(text.split()[::step]) for step in (2, 3, -1, -2)] for text in TEXTS}
RELEASES = {
    "token_prepending": "cc41b58696d6dceed9a92a840231728ad1d5b58b",
    "MetaEOL": "c62096d671e778c733de75a7fbf15f6fa297f57f",
    "GenEOL": "9d8e7068210f22fb7dcb5594d2797ed8ec4f1f14",
}


def write_llama(folder):
    """Write a LLaMA of four layers, 32 wide, with 32,000 tokens, as Token Prepending's code needs for its <PST>."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = sorted({word.strip("\"'") for text in TEXTS for word in text.split()} | set('. ? : " \' :"'.split()))
    words += "This this sentence means in one word With mind essence task For opinion fact".split()
    names = ["<unk>", "<s>", "</s>", *dict.fromkeys(w for w in words if w)]
    names += [f"<{i}>" for i in range(32000 - len(names))]
    tokenizer = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    signs = pre_tokenizers.Split(':"', "isolated"), pre_tokenizers.WhitespaceSplit()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*signs, pre_tokenizers.BertPreTokenizer()])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    named = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    read = {"model_input_names": ["input_ids", "attention_mask"]}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named, **read).save_pretrained(folder)
    shape = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 48}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=32000, max_position_embeddings=512, **shape))
    with torch.no_grad():
        for number, (name, tensor) in enumerate(sorted(model.named_parameters())):
            places = torch.arange(tensor.numel(), dtype=torch.float64).reshape(tensor.shape)
            wave = torch.sin(places * (0.37 + 0.11 * number) + number).to(tensor.dtype)
            tensor.copy_(1 + 0.1 * wave if "norm" in name else (1.0 if "embed" in name else 0.3) * wave)
    model.save_pretrained(folder)
    return folder


class Finished(Exception):
    """The vectors of a released script, which would go on to its tasks."""


class Engine:
    """SentEval's engine, of which only the function that encodes a batch is of interest."""

    def __init__(self, params, batcher, prepare):
        self.batcher = batcher

    def eval(self, task):
        raise Finished(torch.cat([self.batcher(None, [text.split()]) for text in TEXTS]))


def script(checkout, name, *arguments):
    """Run a released evaluation up to its first task; return the vectors of the texts."""
    tools = {"senteval": types.SimpleNamespace(engine=types.SimpleNamespace(SE=Engine))}
    stubs = {n: mock.MagicMock() for n in ("prettytable", "colorama", "tqdm", "scipy", "scipy.stats")}
    import transformers

    load = transformers.PreTrainedModel.from_pretrained.__func__

    def plain(cls, *places, device_map=None, trust_remote_code=None, **more):
        return load(cls, *places, **more)

    # It draws <PST>'s vector as ours does.
    def drawn(*shape, **where):
        return draw(*shape, generator=torch.Generator().manual_seed(0))

    draw = torch.randn
    with contextlib.ExitStack() as stack:
        for patch in (
            mock.patch.dict(sys.modules, {**tools, **stubs}),
            mock.patch.object(transformers.PreTrainedModel, "from_pretrained", classmethod(plain)),
            mock.patch.object(sys, "argv", [name, *arguments]),
            mock.patch.object(sys, "path", [str(checkout), *sys.path]),
            mock.patch.object(torch, "randn", drawn),
        ):
            stack.enter_context(patch)
        auto = transformers.AutoModelForCausalLM
        stack.enter_context(mock.patch.object(auto, "from_pretrained", transformers.LlamaForCausalLM.from_pretrained))
        try:
            runpy.run_path(str(checkout / name), run_name="__main__")
        except Finished as finished:
            return finished.args[0]
    raise SystemExit(f"{checkout / name} evaluated nothing.")


def geneol(checkout, model_folder):
    """Run GenEOL's own encode on rewrites that are known, in float32 on the CPU; return the vectors of the texts."""
    from transformers import AutoTokenizer, BatchEncoding, LlamaForCausalLM

    names = "peft accelerate accelerate.utils openai json_repair sklearn sklearn.cluster sklearn.metrics".split()
    names += "sklearn.metrics.pairwise scipy scipy.spatial tqdm geneol.openai_keys".split()
    stubs = {name: mock.MagicMock() for name in names}
    stubs["accelerate.utils"].gather_object = list
    stubs["tqdm"].tqdm = lambda rows, **_: rows
    accelerator = types.SimpleNamespace(process_index=0, wait_for_everyone=lambda: None)
    accelerator.split_between_processes = contextlib.nullcontext
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(sys.modules, stubs):
        sys.path.insert(0, str(checkout))
        from geneol.geneol import GenEOL

        args = types.SimpleNamespace(
            pooling_method="mean", task="toy", output_folder=f"{folder}/out", seed=42, batch_size=2, method="s5",
            num_gens=1, compositional=False, gen_only=False, tsep=False, max_length=1024, penultimate_layer=-1,
            normalized=False, gen_model_name_or_path="", model_name_or_path="",
        )  # fmt: skip
        place = Path(folder) / "transformations"
        place.mkdir()
        every = list(itertools.chain.from_iterable([text, *REWRITES[text]] for text in TEXTS))
        (place / "toy_sentences1_0.json").write_text(json.dumps(every), encoding="utf-8")
        Path(args.output_folder).mkdir()
        encoder = GenEOL(accelerator, args)
        encoder.llm.switchon_gen_model = encoder.llm.switchon_emb_model = lambda: None
        encoder.llm.model, encoder.llm.embedding_attr = LlamaForCausalLM.from_pretrained(model_folder).eval(), "model"
        encoder.llm.tokenizer = AutoTokenizer.from_pretrained(model_folder, padding_side="right", pad_token="</s>")
        with mock.patch.object(BatchEncoding, "to", lambda self, _: self):
            return torch.from_numpy(encoder.encode(TEXTS, args=args)).float()


def main(checkouts, dump):
    """Run the releases and write their vectors."""
    import transformers
    from safetensors.torch import save_file

    assert transformers.__version__ == "4.46.3", "the library of the releases"
    places = {name: Path(checkouts).resolve() / name for name in RELEASES}
    for name, commit in RELEASES.items():
        head = subprocess.run(["git", "-C", places[name], "rev-parse", "HEAD"], capture_output=True, text=True)
        if head.stdout.strip() != commit:
            raise SystemExit(f"{places[name]}: check out {commit} of github.com, {name}.")
    with tempfile.TemporaryDirectory() as folder:
        model = write_llama(Path(folder) / "llama")
        given = ["--model_name_or_path", str(model), "--task_set", "sts"]
        tp = [*given, "--use_which_plan", "tp", "--tp_starting_index", "1", "--tp_exiting_index", "3"]
        prepending, metaeol = places["token_prepending"], places["MetaEOL"]
        vectors = {
            "token-prepending": script(prepending, "evaluate.py", *tp, "--output_layer", "-2"),
            "token-prepending-last": script(prepending, "evaluate.py", *tp, "--output_layer", "-1"),
            "token-prepending-cot": script(prepending, "evaluate.py", *tp, "--prompt_method", "cot"),
            "token-prepending-metaeol": script(prepending, "evaluate.py", *tp, "--prompt_method", "metaeol"),
            "metaeol": script(metaeol, "evaluation.py", *given, "--prompt_method", "metaeol"),
            "prompteol": script(metaeol, "evaluation.py", *given),
            "geneol": geneol(places["GenEOL"], model),
        }
    for name, rows in vectors.items():
        assert rows.shape == (10, 32) and math.isfinite(float(rows.sum())), name
        print(name, rows.shape, float(rows.std()))
    facts = {"releases": json.dumps(RELEASES), "library": "transformers 4.46.3"}
    save_file({name: rows.detach().contiguous() for name, rows in vectors.items()}, dump, facts)


if __name__ == "__main__":
    main(*sys.argv[1:])
