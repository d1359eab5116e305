"""Runs a released training code for ten steps from the weights and on the batches of `tools.fidelity.start`.

`python tools/fidelity/release.py STARTS CHECKOUTS DUMPS [NAME...]` reads STARTS/NAME.safetensors and the checkout of
the release below CHECKOUTS, at the commit named here, and writes DUMPS/NAME.safetensors with the release's losses and
the gradients of its first step. It runs in an environment of that time: transformers 4.30.2, for whose AdamW and models
these codes are written. No line of the releases is copied: their files are imported.
"""

# ruff: noqa: B905, RUF012, SIM118
from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers

# Siblings: this file runs as a script.
from decoders_trained import AnglELLaMA, PromptEOL
from others import ISBERT, Crops
from safetensors import safe_open
from safetensors.torch import save_file
from step import STEPS, Release, module, spared
from transformers import BertForMaskedLM


class SimCSE(Release):
    repository, commit = "princeton-nlp/SimCSE", "49fa580a853752ede55b8c76d9debf748e214d3f"
    file = "simcse/models.py"


class Momentum(Release):
    """Both branches; the second follows the first after each step, as the release's trainer has it."""

    repository, commit = "Namco0816/PT-BERT", "dba403c01aa2acdf8659b7a7167d41471aacb656"
    file, cls = "ptbert/models.py", "BertForPolyMoCo"
    arguments = {"poly_m": 128, "queue_size": 4, "return_poly": False, "mo_beta": 0.885, "cl_type": "bert_poly"}
    pairs = {
        "bert": "momentum_encoder",
        "mlp": "momentum_mlp",
        "polyEmbedding": "momentumPolyEmbedding",
        "polyAttn": "momentumPolyAttn",
    }
    places = {
        "bert.": "query_branch.model.",
        "mlp.": "query_branch.mlp.",
        "polyEmbedding.": "query_branch.pseudo_tokens.",
        "polyAttn.": "query_branch.attention.",
        "momentum_encoder.": "key_branch.model.",
        "momentum_mlp.": "key_branch.mlp.",
        "momentumPolyEmbedding.": "key_branch.pseudo_tokens.",
        "momentumPolyAttn.": "key_branch.attention.",
    }

    def after_step(self):
        with torch.no_grad():
            for query, key in self.pairs.items():
                weights = zip(getattr(self.model, query).parameters(), getattr(self.model, key).parameters())
                for theirs, follower in weights:
                    follower.data = follower.data * 0.885 + (1 - 0.885) * theirs.data


class PromptBERT(Release):
    mask_id = 103
    repository, commit = "kongds/Prompt-BERT", "690ba6ef3a1d954c24d9a992ff8e339816866a05"
    file = "prompt_bert/models.py"
    arguments = {
        "mask_embedding_sentence": True,
        "mask_embedding_sentence_org_mlp": False,
        "mask_embedding_sentence_num_masks": 1,
        "mask_embedding_sentence_delta": True,
        "mask_embedding_sentence_delta_freeze": False,
        "mask_embedding_sentence_autoprompt": False,
        "mask_embedding_sentence_delta_no_position": False,
        "mask_embedding_sentence_different_template": "another",
        "mask_embedding_sentence_negative_template": "",
        "mask_embedding_sentence_different_negative_template": "",
        "mask_embedding_sentence_autoprompt_continue_training_as_positive": False,
        "dot_sim": False,
        "norm_instead_temp": False,
        "only_embedding_training": False,
    }

    def prepare(self):
        self.model.mask_token_id, self.model.pad_token_id = self.mask_id, self.model.config.pad_token_id
        for i, prompt in enumerate(self.facts["prompts"]):
            number = str(i + 1) if i else ""
            setattr(self.model, f"bs{number}", prompt["head"][1:])
            setattr(self.model, f"es{number}", prompt["tail"][:-1])
            setattr(self.model, f"mask_embedding_template{number}", prompt["alone"])


class SupervisedPromptBERT(PromptBERT):
    arguments = {
        **PromptBERT.arguments,
        "mask_embedding_sentence_org_mlp": True,
        "mask_embedding_sentence_different_template": "",
    }


class PromptRoBERTa(PromptBERT):
    kind, cls, mask_id = "roberta", "RobertaForCL", 4
    places = {"roberta.": "pooler.model.", "mlp.": "pooler.mlp."}


class SupervisedPromptRoBERTa(PromptRoBERTa):
    arguments = {**PromptBERT.arguments, "mask_embedding_sentence_different_template": ""}


class OptiPrompt(SupervisedPromptBERT):
    arguments = {
        **SupervisedPromptBERT.arguments,
        "mask_embedding_sentence_delta": False,
        "mask_embedding_sentence_autoprompt": True,
    }

    places = {**Release.places, "p_mbv": "pooler.template.vectors"}

    def prepare(self):
        super().prepare()
        template = self.model.mask_embedding_template
        at = template.index(103)
        self.model.dict_mbv = template[1:at] + template[at + 1 : -1]
        self.model.fl_mbv = [i <= 3 for i, _ in enumerate(self.model.dict_mbv)]
        words = self.model.bert.embeddings.word_embeddings.weight
        self.model.p_mbv = torch.nn.Parameter(words[self.model.dict_mbv].clone())
        # The script trains the vectors and the head alone.
        for name, weight in self.model.named_parameters():
            weight.requires_grad = name.startswith(("p_mbv", "mlp"))


class ESimCSE(Release):
    repository, commit = "caskcsg/sentemb", "5eeec55103c1da738761bf8c6a9c085c6ad1c9a1"
    file = "ESimCSE/esimcse/models.py"
    arguments = {"momentum": 0.995, "neg_size": 10}
    places = {"bert.": "query_branch.model.", "mlp.": "query_branch.mlp.", "momentum_model.": "key_branch.model."}
    past = None

    def inputs(self, batch):
        ids, mask, view_ids, view_mask = batch
        longest = max(ids.shape[1], view_ids.shape[1])
        ids, mask, view_ids, view_mask = (F.pad(part, (0, longest - part.shape[1])) for part in batch)
        both, seen = torch.stack([ids, view_ids], 1), torch.stack([mask, view_mask], 1)
        return {"input_ids": both, "attention_mask": seen, "token_type_ids": torch.zeros_like(both), "momentum": 0.995}

    def fill(self):
        super().fill()
        # Our key branch starts after its first update, which the release makes in its first forward pass: undo it.
        with torch.no_grad():
            queries = dict(self.model.bert.named_parameters())
            for name, weight in self.model.momentum_model.named_parameters():
                if name in queries:
                    weight.copy_((weight - 0.005 * queries[name]) / 0.995)

    def loss(self, batch):
        """`compute_loss` of the release's trainer: the queue grows after the pass that it is used in."""
        loss = self.model(**self.inputs(batch), pre_z1=self.past, disable_dropout=False).loss
        with torch.no_grad():
            self.model.eval()
            keys = self.model(**self.inputs(batch), disable_dropout=True)
            self.model.train()
        self.past = keys.clone() if self.past is None else torch.cat((self.past, keys.clone()), 0)[-10:]
        return loss


class DiffCSE(Release):
    repository, commit = "voidism/DiffCSE", "f724b2cc921efdfb4e4bd85cd7ca13a8f0d1f0cf"
    file = "diffcse/models.py"
    arguments = {"batchnorm": True, "before_mlp": False, "lambda_weight": 1.0}
    places = {
        "bert.": "pooler.model.",
        "mlp.net.": "pooler.mlp.",
        "discriminator.": "discriminator.",
        "electra_head.": "head.",
        "generator.bert.": "generator.model.",
        "generator.cls.predictions.": "generator.head.",
    }

    def build(self, config, settings):
        # The release edits the library: its own modeling_bert.py takes the vector in the place of [CLS].
        generator = BertForMaskedLM(config)
        library = transformers.models.bert.modeling_bert
        transformers.file_utils.add_code_sample_docstrings = lambda *_, **__: lambda function: function
        module(self.checkout / "modeling_bert.py", library.__name__)
        released = module(self.checkout / self.file)
        sys.modules[library.__name__] = library
        loader = types.SimpleNamespace(from_pretrained=lambda _: generator)
        released.transformers = types.SimpleNamespace(AutoModelForMaskedLM=loader)
        settings.generator_name = "ours"
        model = getattr(released, self.cls)(config, model_args=settings)
        # As train.py sets it.
        model.electra_head = torch.nn.Linear(config.hidden_size, 2)
        return model

    def inputs(self, batch):
        given = super().inputs(batch)
        ids = given["input_ids"]
        # Every third token is masked, which the release and ours else draw.
        places = (torch.arange(ids.shape[-1]) % 3 == 1) & (ids != 102) & (ids != 0)
        given["mlm_input_ids"] = torch.where(places, torch.full_like(ids, 103), ids)
        given["mlm_labels"] = ids
        return given


class InfoCSE(DiffCSE):
    """Its own masked language model is frozen; the words of every third place are to be found."""

    repository, commit, file = ESimCSE.repository, ESimCSE.commit, "InfoCSE/infocse/models_cls_mlm.py"
    arguments = {"batchnorm": True, "skip_from": 1, "n_head_layers": 2, "mlm_weight": 0.5, "mlm_eval": True}
    places = {
        "bert.": "pooler.model.",
        "mlp.net.": "pooler.mlp.",
        "mlm.bert.": "lower.",
        "c_head.": "upper.layer.",
        "lm_head.": "mlm.head.",
    }
    unused = (*Release.unused, "mlm.cls.")

    def build(self, config, settings):
        settings.do_mlm = True
        return Release.build(self, config, settings)

    def inputs(self, batch):
        given = super().inputs(batch)
        ids = given["mlm_labels"]
        given["mlm_labels"] = torch.where(given["mlm_input_ids"] == ids, torch.full_like(ids, -100), ids)
        return given


class MixCSE(Release):
    repository, commit = "BDBC-KG-NLP/MixCSE_AAAI2022", "884145e24a5258c044fedb658df9999f012df875"
    file = "mixcse/models_mix.py"
    arguments = {"lambdas": 0.2}


class CoTBERT(PromptBERT):
    repository, commit = "ZBWpro/CoT-BERT", "3aa7bb44e3836c67a35a16ca8feee4bf29d8a900"
    file = "models.py"
    arguments = {
        **PromptBERT.arguments,
        "mask_embedding_sentence_negative_template": "a third",
    }

    def prepare(self):
        super().prepare()
        self.model.mask_num, self.model.total_length = 2, 80


class PromCSE(Release):
    repository, commit = "YJiangcm/PromCSE", "4b319380fa13d018811dd0631bcbeee838c3218e"
    file = "promcse/models.py"
    arguments = {"pre_seq_len": 16, "prefix_projection": False, "do_eh_loss": False}
    places = {**Release.places, "prefix_encoder.": "pooler.prefix."}


class GCSE(Release):
    """Positives and negatives are of token type 0, as ours; the frozen encoder is the release's SimCSE."""

    repository, commit = "aleversn/GCSE", "99e2e1878cb2cf58df3e26ec577df20473cc3de7"
    places = {"model.": "pooler.model.", "mlp.": "pooler.mlp."}

    def build(self, config, settings):
        with tempfile.TemporaryDirectory() as folder:
            transformers.BertModel(config).save_pretrained(folder, safe_serialization=False)
            frozen = module(self.checkout / "main/models/simcse.py", "released_simcse").SimCSE(folder, "cls")
            model = module(self.checkout / "main/models/gcse.py").GCSE(folder, "cls")
        weights = {name: f"frozen.{self.ours(name)}" for name in frozen.state_dict()}
        frozen.load_state_dict({n: self.start[o] for n, o in weights.items() if o in self.start}, strict=False)
        self.frozen = frozen.eval()
        return model

    def loss(self, batch):
        given = self.inputs(batch)
        with torch.no_grad():
            cosines = self.frozen(**given).logits
        return self.model(**given, base_cos_sim=cosines).loss


class RankCSE(Release):
    repository, commit = "perceptiveshawty/RankCSE", "17c5226be5962803f893b80f63e409eea20f27a3"
    file = "rankcse/models.py"
    arguments = {"beta_": 1.0, "gamma_": 1.0, "tau2": 0.05, "distillation_loss": "listmle"}

    def loss(self, batch):
        """The trainer's weighted mean of both teachers' similarities; a batch of ours has their vectors."""
        ids, mask, *taught = batch
        first, second = (F.cosine_similarity(z.unsqueeze(1), z.unsqueeze(0), dim=-1) / 0.05 for z in taught)
        similarities = 0.33 * first + (1.0 - 0.33) * second
        return self.model(**self.inputs((ids, mask)), teacher_top1_sim_pred=similarities).loss


class ListNet(RankCSE):
    arguments = {**RankCSE.arguments, "distillation_loss": "listnet"}


class ConSERT(Release):
    """unsup-consert-base, with its copies of transformers 3 and sentence-transformers; what it shuffles is reversed."""

    repository, commit = "yym6472/ConSERT", "03c9e8ffc5ed28f3efe61f1b32523ac6fe07de86"
    places = {"model.0.auto_model.": "pooler.model."}
    unused = ("position_ids", "pooler.dense", "classifier.")
    warmup = 2

    def build(self, config, settings):
        random.shuffle = list.reverse
        parts = "sentence_transformers"
        self.stub(f"{parts}.SentenceTransformer", SentenceTransformer=None)
        losses, models = self.part(f"{parts}.losses.AdvCLSoftmaxLoss"), self.part(f"{parts}.models.Transformer")
        self.library = self.part("transformers.optimization")
        states = models.Transformer.__new__(models.Transformer)
        torch.nn.Module.__init__(states)
        config = self.part("transformers.configuration_bert").BertConfig(**self.facts["config"])
        states.auto_model = self.part("transformers.modeling_bert").BertModel(config)
        encoder = torch.nn.Sequential(states, self.part(f"{parts}.models.Pooling").Pooling(config.hidden_size))
        encoder.num_steps_total, encoder.global_step = STEPS, 0
        encoder.tensorboard_writer = types.SimpleNamespace(add_scalar=lambda *_, **__: None)
        return losses.AdvCLSoftmaxLoss(
            encoder,
            config.hidden_size,
            3,
            use_contrastive_loss=True,
            contrastive_loss_only=True,
            no_pair=True,
            contrastive_loss_rate=0.15,
            temperature=0.1,
            data_augmentation_strategy_final_1="feature_cutoff",
            data_augmentation_strategy_final_2="shuffle",
            cutoff_rate_final_1=0.2,
        )

    def loss(self, batch):
        return self.model([{"input_ids": batch[0], "attention_mask": batch[1]}], None)

    def optimizer(self):
        """`fit`'s: no decay of biases and LayerNorm, no bias correction."""
        return spared(self.model, self.library.AdamW, eps=1e-6, correct_bias=False)


RELEASES = {
    "consert-repo": ConSERT,
    "simcse": SimCSE,
    "simcse-sup": type("SupervisedSimCSE", (SimCSE,), {}),
    "ptbert-repo": Momentum,
    "promptbert-repo": PromptBERT,
    "promptbert-sup-repo": SupervisedPromptBERT,
    "promptbert-roberta-repo": PromptRoBERTa,
    "promptbert-sup-roberta-repo": SupervisedPromptRoBERTa,
    "optiprompt-repo": OptiPrompt,
    "isbert-repo": ISBERT,
    "sentence-crops-repo": Crops,
    "esimcse-repo": ESimCSE,
    "diffcse-repo": DiffCSE,
    "infocse": InfoCSE,
    "mixcse-repo": MixCSE,
    "cot-bert-repo": CoTBERT,
    "promcse": PromCSE,
    "gcse": GCSE,
    "rankcse-repo": RankCSE,
    "rankcse-listnet-repo": ListNet,
    "prompteol-sup-repo": PromptEOL,
    "angle-llama": AnglELLaMA,
}


def main(starts, checkouts, dumps, *names):
    """Run the named releases, or all, and write what they did."""
    assert transformers.__version__ == "4.30.2", "the library of the releases"
    torch.manual_seed(0)
    for name in names or RELEASES:
        release = RELEASES[name]
        checkout = Path(checkouts) / release.repository.split("/")[1]
        head = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        if head.stdout.strip() != release.commit:
            raise SystemExit(f"{checkout}: check out {release.commit} of github.com/{release.repository}.")
        with safe_open(Path(starts) / f"{name}.safetensors", framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}
            facts = {key: json.loads(value) for key, value in file.metadata().items()}
        start = {key[len("start.") :]: value for key, value in tensors.items() if key.startswith("start.")}
        batches = []
        for i in range(STEPS):
            count = sum(key.startswith(f"batch.{i}.") for key in tensors)
            batches.append(tuple(tensors[f"batch.{i}.{j}"] for j in range(count)))
        losses, gradients = release(checkout, start, facts).run(batches)
        off = max(abs(a - b) for a, b in zip(losses, facts["ours"]))
        print(f"{name}: losses differ by {off:.1e}; {len(gradients)} gradients")
        source = f"{release.repository}@{release.commit}"
        facts |= {"losses": losses, "release": source, "library": "transformers 4.30.2"}
        tensors |= {f"gradient.{key}": value for key, value in gradients.items()}
        metadata = {key: json.dumps(value) for key, value in facts.items()}
        save_file(tensors, Path(dumps) / f"{name}.safetensors", metadata)


if __name__ == "__main__":
    main(*sys.argv[1:])
