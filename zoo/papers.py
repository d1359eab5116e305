"""The papers behind the methods, and the handbook's page of each method."""

from __future__ import annotations

import re
from dataclasses import dataclass

from zoo.recipe import RecipeSpec

_ACL = "https://aclanthology.org"
_ARXIV = "https://arxiv.org/abs"


@dataclass(frozen=True)
class Paper:
    """A paper as it is cited; `venue` is "" for a preprint."""

    title: str
    authors: str
    venue: str
    year: int
    url: str

    def cited(self) -> str:
        """Return authors, title, venue and year on one line."""
        return f"{self.authors}. {self.title}. {f'{self.venue} ' if self.venue else ''}{self.year}."


# The keys are the names that recipes use.
PAPERS: dict[str, Paper] = {
    "SimCSE": Paper(
        "SimCSE: Simple Contrastive Learning of Sentence Embeddings",
        "Tianyu Gao, Xingcheng Yao and Danqi Chen",
        "EMNLP",
        2021,
        f"{_ACL}/2021.emnlp-main.552/",
    ),
    "PromptBERT": Paper(
        "PromptBERT: Improving BERT Sentence Embeddings with Prompts",
        "Ting Jiang, Jian Jiao, Shaohan Huang, Zihan Zhang, Deqing Wang, Fuzhen Zhuang, Furu Wei, Haizhen Huang, Denvy"
        " Deng and Qi Zhang",
        "EMNLP",
        2022,
        f"{_ACL}/2022.emnlp-main.603/",
    ),
    "PT-BERT": Paper(
        "A Sentence is Worth 128 Pseudo Tokens: A Semantic-Aware Contrastive Learning Framework for Sentence"
        " Embeddings",
        "Haochen Tan, Wei Shao, Han Wu, Ke Yang and Linqi Song",
        "Findings of ACL",
        2022,
        f"{_ACL}/2022.findings-acl.22/",
    ),
    "BURT": Paper(
        "BURT: BERT-inspired Universal Representation from Twin Structure",
        "Yian Li and Hai Zhao",
        "",
        2020,
        f"{_ARXIV}/2004.13947",
    ),
    "SBERT": Paper(
        "Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks",
        "Nils Reimers and Iryna Gurevych",
        "EMNLP-IJCNLP",
        2019,
        f"{_ACL}/D19-1410/",
    ),
    "BERT-flow": Paper(
        "On the Sentence Embeddings from Pre-trained Language Models",
        "Bohan Li, Hao Zhou, Junxian He, Mingxuan Wang, Yiming Yang and Lei Li",
        "EMNLP",
        2020,
        f"{_ACL}/2020.emnlp-main.733/",
    ),
    "BERT-whitening": Paper(
        "Whitening Sentence Representations for Better Semantics and Faster Retrieval",
        "Jianlin Su, Jiarun Cao, Weijie Liu and Yangyiwen Ou",
        "",
        2021,
        f"{_ARXIV}/2103.15316",
    ),
    "ConSERT": Paper(
        "ConSERT: A Contrastive Framework for Self-Supervised Sentence Representation Transfer",
        "Yuanmeng Yan, Rumei Li, Sirui Wang, Fuzheng Zhang, Wei Wu and Weiran Xu",
        "ACL",
        2021,
        f"{_ACL}/2021.acl-long.393/",
    ),
    "CLEAR": Paper(
        "CLEAR: Contrastive Learning for Sentence Representation",
        "Zhuofeng Wu, Sinong Wang, Jiatao Gu, Madian Khabsa, Fei Sun and Hao Ma",
        "",
        2020,
        f"{_ARXIV}/2012.15466",
    ),
    "ESimCSE": Paper(
        "ESimCSE: Enhanced Sample Building Method for Contrastive Learning of Unsupervised Sentence Embedding",
        "Xing Wu, Chaochen Gao, Liangjun Zang, Jizhong Han, Zhongyuan Wang and Songlin Hu",
        "COLING",
        2022,
        f"{_ARXIV}/2109.04380",
    ),
    "IS-BERT": Paper(
        "An Unsupervised Sentence Embedding Method by Mutual Information Maximization",
        "Yan Zhang, Ruidan He, Zuozhu Liu, Kwan Hui Lim and Lidong Bing",
        "EMNLP",
        2020,
        f"{_ACL}/2020.emnlp-main.124/",
    ),
    "Contrastive Tension": Paper(
        "Semantic Re-tuning with Contrastive Tension",
        "Fredrik Carlsson, Amaru Cuba Gyllensten, Evangelia Gogoulou, Erik Ylipää Hellqvist and Magnus Sahlgren",
        "ICLR",
        2021,
        "https://openreview.net/forum?id=Ov_sMNau-PF",
    ),
    "OptiPrompt": Paper(
        "Factual Probing Is [MASK]: Learning vs. Learning to Recall",
        "Zexuan Zhong, Dan Friedman and Danqi Chen",
        "NAACL",
        2021,
        f"{_ACL}/2021.naacl-main.398/",
    ),
    "InferSent": Paper(
        "Supervised Learning of Universal Sentence Representations from Natural Language Inference Data",
        "Alexis Conneau, Douwe Kiela, Holger Schwenk, Loïc Barrault and Antoine Bordes",
        "EMNLP",
        2017,
        f"{_ACL}/D17-1070/",
    ),
    "SIF": Paper(
        "A Simple but Tough-to-Beat Baseline for Sentence Embeddings",
        "Sanjeev Arora, Yingyu Liang and Tengyu Ma",
        "ICLR",
        2017,
        "https://openreview.net/forum?id=SyK00v5xx",
    ),
    "uSIF": Paper(
        "Unsupervised Random Walk Sentence Embeddings: A Strong but Simple Baseline",
        "Kawin Ethayarajh",
        "RepL4NLP",
        2018,
        f"{_ACL}/W18-3012/",
    ),
    "GloVe": Paper(
        "GloVe: Global Vectors for Word Representation",
        "Jeffrey Pennington, Richard Socher and Christopher D. Manning",
        "EMNLP",
        2014,
        f"{_ACL}/D14-1162/",
    ),
    "word2vec": Paper(
        "Efficient Estimation of Word Representations in Vector Space",
        "Tomas Mikolov, Kai Chen, Greg Corrado and Jeffrey Dean",
        "",
        2013,
        f"{_ARXIV}/1301.3781",
    ),
    "fastText": Paper(
        "Enriching Word Vectors with Subword Information",
        "Piotr Bojanowski, Edouard Grave, Armand Joulin and Tomas Mikolov",
        "TACL",
        2017,
        f"{_ACL}/Q17-1010/",
    ),
    "Skip-Thought Vectors": Paper(
        "Skip-Thought Vectors",
        "Ryan Kiros, Yukun Zhu, Ruslan Salakhutdinov, Richard S. Zemel, Antonio Torralba, Raquel Urtasun and Sanja"
        " Fidler",
        "NeurIPS",
        2015,
        f"{_ARXIV}/1506.06726",
    ),
    "GenSen": Paper(
        "Learning General Purpose Distributed Sentence Representations via Large Scale Multi-task Learning",
        "Sandeep Subramanian, Adam Trischler, Yoshua Bengio and Christopher J. Pal",
        "ICLR",
        2018,
        f"{_ARXIV}/1804.00079",
    ),
    "Universal Sentence Encoder": Paper(
        "Universal Sentence Encoder",
        "Daniel Cer, Yinfei Yang, Sheng-yi Kong, Nan Hua, Nicole Limtiaco, Rhomni St. John, Noah Constant, Mario"
        " Guajardo-Cespedes, Steve Yuan, Chris Tar, Yun-Hsuan Sung, Brian Strope and Ray Kurzweil",
        "",
        2018,
        f"{_ARXIV}/1803.11175",
    ),
}

# The paper of a method, cited first: its recipes may name no paper, or only one that reports the method again.
_OF_METHOD = {"sbert": "SBERT", "ct": "Contrastive Tension", "whitening": "BERT-whitening", "flow": "BERT-flow"}

HANDBOOK: dict[str, tuple[str, ...]] = {
    "burt": ("burt",),
    "controls": ("random", "bag-of-words"),
    "ct": ("ct",),
    "finished": ("pretrained", "vectors"),
    "flow": ("flow",),
    "infersent": ("infersent", "infersent-words"),
    "isbert": ("isbert",),
    "moco": ("moco",),
    "optiprompt": ("optiprompt",),
    "pooling": ("cls", "avg", "max"),
    "prompt": ("prompt",),
    "promptbert": ("promptbert",),
    "ptbert": ("ptbert",),
    "sbert": ("sbert",),
    "simcse": ("simcse",),
    "static": ("static",),
    "static-contrastive": ("static-contrastive", "model2vec"),
    "two-views": ("twoviews", "consert-joint", "consert-continued"),
    "whitening": ("whitening",),
    "word-vectors": ("wordvectors", "sif", "sif-tokens"),
}
"""Page in the handbook's folder `methods`: the registered methods that it describes."""

_NAMES = re.compile(r"(?<![\w-])(" + "|".join(map(re.escape, sorted(PAPERS, key=len, reverse=True))) + r")(?![\w-])")


def papers_of(spec: RecipeSpec) -> list[str]:
    """Return the keys in PAPERS of a recipe's papers: first its method's, if listed, then those that it names."""
    named = _NAMES.findall(spec.paper)
    return list(dict.fromkeys([*([_OF_METHOD[spec.method]] if spec.method in _OF_METHOD else []), *named]))


def handbook_page(method: str) -> str | None:
    """Return the name of a method's page in the handbook; None for a method of a plugin."""
    return next((page for page, methods in HANDBOOK.items() if method in methods), None)
