"""Out of memory: the advice."""

import re

import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.checkpoint import checkpoints
from bert_tf.cli import command
from bert_tf.files import errors
from bert_tf.model import heads
from bert_tf.tasks import fine_tuning
from bert_tf.training import estimator, step
from tests.support import command_flags, own_classification

base = own_classification.base
OOM = (
  "Graph execution error:\n\nDetected at node a defined at:\n  File b\n\n"
  "OOM when allocating tensor with shape[8,16]\n\t [[{{node a}}]]\nHint: c"
)


def exhausted(message=OOM):
  return tf.errors.ResourceExhaustedError(None, None, message)


def fail_with(monkeypatch, target, name, error):
  def fail(*unused):
    raise error

  monkeypatch.setattr(target, name, fail)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
  """The checkpoint of a classifier of two labels, which is not trained."""
  path = str(tmp_path_factory.mktemp("start") / "model.ckpt")
  config = modeling.BertConfig.from_dict(own_classification.CONFIG)
  weights = heads.ClassifierModel(config, 2).weights
  checkpoints.write(path, {v.path: v.numpy() for v in weights})
  return path


@pytest.mark.parametrize(
  ("setting", "target", "name", "error"),
  [
    ("train_batch_size=8", step.TrainingStep, "run", exhausted()),
    ("eval_batch_size=4", estimator.Estimator, "evaluate", exhausted()),
    ("predict_batch_size=2", estimator.Estimator, "predict", None),
  ],
)
def test_the_error_names_the_batch_and_its_length(
  base, start, tmp_path, monkeypatch, setting, target, name, error
):
  fail_with(monkeypatch, target, name, error or MemoryError())
  config = own_classification.make(
    base,
    tmp_path,
    {"init_checkpoint": start},
    do_train=setting.startswith("train"),
    do_eval=setting.startswith("eval"),
    do_predict=setting.startswith("predict"),
    eval_batch_size=4,
    predict_batch_size=2,
  )
  with pytest.raises(errors.OutOfMemoryError) as caught:
    fine_tuning.run(config)
  message = str(caught.value)
  assert f"`{setting}`" in message and "16 word pieces" in message
  assert "a lower `max_seq_length`" in message
  assert ("OOM when" in message) == (error is not None)
  assert "\n" not in message
  named = set(re.findall(r"`(\w+)", message))
  assert named <= command_flags.defined("classifier").keys()
  advice = {"gradient_accumulation_steps", "recompute"}
  assert (advice <= named) == setting.startswith("train")


def test_a_full_disk_is_not_a_lack_of_memory(
  base, tmp_path, monkeypatch, capsys
):
  message = "/a/data; No space left on device"
  fail_with(monkeypatch, step.TrainingStep, "run", exhausted(message))
  config = own_classification.make(base, tmp_path, do_train=True)
  with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
    fine_tuning.run(config)
  command.report(caught.value)
  line = capsys.readouterr().err
  assert message in line and "memory" not in line
