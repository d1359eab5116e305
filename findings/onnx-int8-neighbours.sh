#!/usr/bin/env bash
# Belief: a model that onnxruntime's quantize_dynamic made int8 maps each row of a batch by itself, as float32 does.
# What happens: activations get one scale for the batch, so a row's result depends on the rows beside it.
# A row with one large value costs its neighbour most of its digits.
# Versions: onnx 1.23.2, onnxruntime 1.32.0.
# Output: alone off by 0.008, beside a large row off by 1.000; float32 in both batches the same: True
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
weight = numpy_helper.from_array(rng.normal(size=(32, 16)).astype(np.float32), "weight")
inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 32])]
outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 16])]
graph = helper.make_graph([helper.make_node("MatMul", ["x", "weight"], ["y"])], "g", inputs, outputs, [weight])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "float.onnx")
quantize_dynamic("float.onnx", "int8.onnx")
exact, int8 = (ort.InferenceSession(name) for name in ("float.onnx", "int8.onnx"))
row = rng.normal(size=(1, 32)).astype(np.float32)
large = 300 * rng.normal(size=(1, 32)).astype(np.float32)
pair = np.concatenate([row, large])


def off(got, wanted):
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


wanted = exact.run(None, {"x": row})[0][0]
alone = off(int8.run(None, {"x": row})[0][0], wanted)
beside = off(int8.run(None, {"x": pair})[0][0], wanted)
same = bool(np.allclose(exact.run(None, {"x": pair})[0][0], wanted, rtol=1e-4, atol=1e-4))
print(f"alone off by {alone:.3f}, beside a large row off by {beside:.3f}; float32 in both batches the same: {same}")
assert same and alone < 0.05 and beside > 0.3
PY
