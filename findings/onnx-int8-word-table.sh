#!/usr/bin/env bash
# Belief: dynamic quantisation touches products of matrices; the table of word embeddings stays float32.
# What happens: the Gather of the table is quantised too, to 8 bits with one scale for all words, so that one word
# with large values takes the digits of all others. Leaving Gather out of op_types_to_quantize keeps them.
# Versions: onnx 1.23.2, onnxruntime 1.32.0.
# Output: table is UINT8 with a scale of shape []; a word's row off by 0.008, with one large row in the table 0.733, without Gather 0.000
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check onnx==1.23.2 onnxruntime==1.32.0
cd "$dir"
"$dir/venv/bin/python" - <<'PY'
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import quantize_dynamic

rng = np.random.default_rng(0)
plain = rng.normal(size=(50, 32)).astype(np.float32)
spiked = plain.copy()
spiked[7] *= 100


def row_off(table, **options):
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])]
    outputs = [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["n", 32])]
    node = helper.make_node("Gather", ["table", "ids"], ["rows"], axis=0)
    graph = helper.make_graph([node], "g", inputs, outputs, [numpy_helper.from_array(table, "table")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "float.onnx")
    quantize_dynamic("float.onnx", "int8.onnx", **options)
    row = ort.InferenceSession("int8.onnx").run(None, {"ids": np.array([3])})[0][0]
    kept = {part.name: part for part in onnx.load("int8.onnx").graph.initializer}
    return float(np.linalg.norm(row - table[3]) / np.linalg.norm(table[3])), kept


without, kept = row_off(plain)
beside, _ = row_off(spiked)
spared, _ = row_off(spiked, op_types_to_quantize=["MatMul"])
kind = TensorProto.DataType.Name(kept["table_quantized"].data_type)
shape = list(kept["table_scale"].dims)
print(f"table is {kind} with a scale of shape {shape}; a word's row off by {without:.3f}, with one large row in the table", end=" ")
print(f"{beside:.3f}, without Gather {spared:.3f}")
assert kind in ("UINT8", "INT8") and shape == [] and beside > 10 * without and spared == 0
PY
