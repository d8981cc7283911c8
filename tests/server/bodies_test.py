"""Any JSON body is answered, or refused with an error in the promised form."""

import json

import hypothesis
import pytest
from hypothesis import strategies as st

import bert_tf
from tests.support import fake_model, serving_client, tiny_models

PATHS = {
  "/v1/models/model:predict": ("instances", "inputs", "signature_name"),
  "/v1/models/choices:predict": ("instances", "inputs"),
  "/v1/models/model:classify": ("examples", "context", "signature_name"),
  "/v1/models/model:regress": ("examples", "context"),
  "/v1/models/model:attention": ("text", "text_b", "layer", "head"),
  "/v1/embeddings": ("input", "model", "encoding_format", "dimensions"),
}

words = st.sampled_from(("a", "the of", "", "YQ==", "\ud800")) | st.text()
numbers = st.integers(-2, 1 << 65)
ids = st.lists(numbers | st.integers(0, 9), max_size=3)
scalars = st.none() | st.booleans() | numbers | st.floats() | words
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3))
texts = words | st.fixed_dictionaries({"b64": words})
values = {
  **dict.fromkeys(("text", "text_b", "context"), texts),
  **dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ids),
  "choices": st.lists(texts, max_size=3),
}
rows = st.dictionaries(st.sampled_from([*values]), texts | ids | anything)
rows |= st.fixed_dictionaries({}, optional=values)
values |= {
  **dict.fromkeys(("instances", "examples"), st.lists(rows | texts)),
  "inputs": st.lists(texts) | st.dictionaries(words, st.lists(texts)),
  "input": words | st.lists(words),
  "model": st.sampled_from(("vectors", "model", "x")),
  "signature_name": st.sampled_from(("text", "ids", "serving_default", "x")),
  "encoding_format": st.sampled_from(("float", "base64", "x")),
  **dict.fromkeys(("layer", "head", "dimensions"), st.integers(-1, 3)),
}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
  folder = tiny_models.write_classifier(tmp_path_factory.mktemp("run"))
  choices = fake_model.Constant({"choice": 0}, "context", "choices")
  models = {
    "model": bert_tf.Predictor(str(folder)),
    "choices": fake_model.FakeModel(text=choices),
    "vectors": fake_model.VectorModel(),
  }
  with serving_client.running(models, max_wait_ms=0) as server:
    client = serving_client.Client(server.url)
    yield client
    client.close()


@pytest.mark.parametrize("path", PATHS)
@hypothesis.settings(max_examples=60)
@hypothesis.given(data=st.data())
def test_any_json_is_answered_or_refused(path, client, data):
  fields = {name: values[name] for name in PATHS[path]}
  optional = {name: value | anything for name, value in fields.items()}
  bodies = st.fixed_dictionaries({}, optional=optional)
  body = json.dumps(data.draw(bodies | anything)).encode()
  status, answer = client.ask(path, body)
  assert status in (200, 400, 404, 413)
  if status != 200:
    error = answer["error"]
    is_openais = path == "/v1/embeddings"
    assert isinstance(error["message"] if is_openais else error, str)
