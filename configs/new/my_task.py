"""A task of your own: it runs as it is; put your pairs into the file my_task/pairs.tsv beside this one."""

from pathlib import Path

from benchmark.data.catalog import Dataset
from benchmark.data.readers.pairs import read_pairs
from benchmark.data.sources import DataSource, Located
from benchmark.tasks import register_task
from benchmark.tasks.base import PairsData, Task
from zoo.files import sha256_file

PAIRS = Path(__file__).with_name("my_task") / "pairs.tsv"  # score, sentence1, sentence2; csv, jsonl and parquet too


@register_task("my-task")
class MyTask(Task):
    """Pairs of sentences with a score from 0, unrelated, to 5, the same meaning.

    Examples:
        >>> data = MyTask().load(DataSource())
        >>> data.rows == len(data.texts()) / 2
        True
    """

    title = "My task"  # its line in `zoo-bench tasks`; the column has the registered name
    dataset = "my-task"  # the name of the data in records
    licence, citation = "yours", ""  # of the data; `zoo-bench tasks my-task --show` prints them
    version = 1  # raise it when the same vectors would get another score

    def load(self, data: DataSource, limit: int | None = None) -> PairsData:
        """Return the pairs, or the first `limit` of them; the score is Spearman's correlation of cosine and score.

        `data` finds the data sets of the papers and is not needed here. The sha256 of the file goes into each record:
        changed pairs are measured again.
        """
        entry = Dataset(self.dataset, self.title, self.licence, citation=self.citation)
        located = Located(entry, self.form, "folder", {PAIRS.name: PAIRS}, sha256_file(PAIRS))
        return PairsData(located, {"test": read_pairs(PAIRS)}, limit=limit)
