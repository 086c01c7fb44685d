"""Run a model over a table with Spark: ``spark-submit score.py model.onnx samples.parquet out``.

The samples have an ``id`` and a column for each input of the model. A fourth argument names
another column in the place of ``id``.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from rewriter.apply.arrow import ArrowMapper


def score(samples: DataFrame, model: str, id_column: str = "id") -> DataFrame:
    """Return the id, the outputs and the error of each sample.

    Args:
        samples: A column for each input, named as it is.
        model: A path that all machines can read.
        id_column: The column that names a sample.
    """
    if id_column not in samples.columns:
        raise SystemExit(f"the samples have no column {id_column!r}; name another")
    mapper = ArrowMapper(model, keep=[id_column], signed=True)
    results = from_arrow_schema(mapper.schema)
    return samples.mapInArrow(mapper, StructType([samples.schema[id_column], *results.fields]))


if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    model, samples, results, *named = sys.argv[1:]
    score(spark.read.parquet(samples), model, *named).write.parquet(results)
