"""Advice about settings that contradict one another or a file."""

import dataclasses
import json

from bert_tf import settings
from bert_tf.corpora import sentences, text_config
from bert_tf.data import config as data_config
from bert_tf.data import length_schedule, masking
from bert_tf.inference import config as inference_config
from bert_tf.model_folder import letter_case
from bert_tf.pipeline import config as pipeline_config
from bert_tf.tasks import sweeps
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.classification import glue
from bert_tf.tasks.squad import config as squad_config
from bert_tf.training import config as training_config
from tests.advice.following import Case, Warned
from tests.support import tiny_models

train = training_config.TrainConfig
extraction = inference_config.ExtractionConfig
CONFIG = tiny_models.CONFIG


@dataclasses.dataclass(frozen=True)
class Saved:
  """A config with a setting that a run saves."""

  length: int | None = settings.setting(None, "A length.", fallback=128)


def data(**values):
  return data_config.PretrainingDataConfig(vocab_file="vocab.txt", **values)


def pipeline(output_dir="out", **values):
  return pipeline_config.PipelineConfig(
    text="text.txt",
    output_dir=output_dir,
    reading=text_config.TextConfig(),
    **values,
  )


def vocabulary(world, accents):
  tokens = ["[PAD]", "[UNK]", "the", "caf\xe9" if accents else "cafe"]
  return world.write("vocab.txt", "\n".join(tokens))


def case(world, accents=True, **requested):
  letter_case.resolve(
    letter_case.Case(**requested),
    letter_case.Case(),
    "run.json",
    vocabulary(world, accents),
  )


CASES = (
  Case(
    "settings check",
    ("pooling", "cls"),
    lambda w: extraction(init_checkpoint="x", pooling="sum"),
    lambda w: extraction(init_checkpoint="x", pooling="cls"),
  ),
  Case(
    "settings resolve",
    ("length", "64", "run.json", "128"),
    lambda w: settings.resolve(Saved(length=64), {"length": 128}, "run.json"),
    lambda w: settings.resolve(Saved(), {"length": 128}, "run.json"),
  ),
  Case(
    "data.config __post_init__",
    ("max_predictions_per_seq", "20", "16"),
    lambda w: data(max_seq_length=16),
    lambda w: data(
      max_seq_length=16,
      masking_config=masking.MaskingConfig(
        max_predictions_per_seq=round(0.15 * 16)
      ),
    ),
  ),
  Case(
    "training.config __post_init__",
    ("lora_adapter", "init_checkpoint"),
    lambda w: train(output_dir="o", lora_adapter="a"),
    lambda w: train(output_dir="o", lora_adapter="a", init_checkpoint="c"),
  ),
  Case(
    "training.config __post_init__",
    ("lora_alpha", "8", "lora_rank"),
    lambda w: train(output_dir="o", lora_alpha=8, lora_rank=0),
    lambda w: (
      train(output_dir="o", lora_alpha=8, lora_rank=2),
      train(output_dir="o"),
    ),
  ),
  Case(
    "training.config __post_init__",
    ("early_stopping_patience", "3", "eval_every_steps"),
    lambda w: train(output_dir="o", early_stopping_patience=3),
    lambda w: train(
      output_dir="o", early_stopping_patience=3, eval_every_steps=10
    ),
  ),
  Case(
    "training.config check_best_metric",
    ("best_metric", "loss", "eval_every_steps"),
    lambda w: train(output_dir="o", best_metric="loss").check_best_metric(),
    lambda w: (
      train(
        output_dir="o", best_metric="loss", eval_every_steps=1
      ).check_best_metric(),
      train(output_dir="o").check_best_metric(),
    ),
  ),
  Case(
    "inference.config __post_init__",
    ("layers", "-1"),
    lambda w: extraction(init_checkpoint="x", layers=()),
    lambda w: extraction(init_checkpoint="x", layers=(-1,)),
  ),
  Case(
    "inference.config __post_init__",
    ("attention_probs", "pooling", "mean"),
    lambda w: extraction(
      init_checkpoint="x", attention_probs=True, pooling="mean"
    ),
    lambda w: (
      extraction(init_checkpoint="x", attention_probs=True),
      extraction(init_checkpoint="x", pooling="mean"),
    ),
  ),
  Case(
    "pipeline.config __post_init__",
    ("vocab_size", "500", "released"),
    lambda w: pipeline(train_hours=1, model="released", vocab_size=500),
    lambda w: pipeline(train_hours=1, model="released"),
  ),
  Case(
    "pipeline.config __post_init__",
    ("output_dir", "a,b"),
    lambda w: pipeline(train_hours=1, output_dir="a,b"),
    lambda w: pipeline(train_hours=1, output_dir="a"),
  ),
  Case(
    "pipeline.config __post_init__",
    ("train_hours",),
    lambda w: pipeline(),
    lambda w: pipeline(train_hours=1),
  ),
  Case(
    "tasks.squad.config __post_init__",
    ("max_seq_length", "60", "max_query_length", "64"),
    lambda w: squad_config.WindowConfig(
      max_seq_length=60, max_query_length=64, doc_stride=8
    ),
    lambda w: (
      squad_config.WindowConfig(
        max_seq_length=80, max_query_length=64, doc_stride=8
      ),
      squad_config.WindowConfig(
        max_seq_length=60, max_query_length=40, doc_stride=8
      ),
    ),
  ),
  Case(
    "tasks.classification.config __post_init__",
    ("task_name", "processor"),
    lambda w: classifier(),
    lambda w: (classifier(task_name="MRPC"), classifier(processor="a:B")),
  ),
  Case(
    "tasks.classification.glue get_task",
    ("MRPD", "mrpc"),
    lambda w: glue.get_task("MRPD"),
    lambda w: glue.get_task("mrpc"),
  ),
  Case(
    "tasks.sweeps parse_grid",
    ("rate", "learning_rate=5e-5"),
    lambda w: sweeps.parse_grid("rate=1e-5"),
    lambda w: sweeps.parse_grid("learning_rate=1e-5"),
  ),
  Case(
    "tasks.sweeps parse_grid",
    ("learning_rate", "1e-5 2e-5"),
    lambda w: sweeps.parse_grid("learning_rate=1e-5 2e-5"),
    lambda w: sweeps.parse_grid("learning_rate=1e-5,2e-5"),
  ),
  Case(
    "data.length_schedule parse",
    ("512", "num_train_steps"),
    lambda w: length_schedule.parse("128:0.99,512:0.01", 10),
    lambda w: (
      length_schedule.parse("128:0.9,512:0.1", 10),
      length_schedule.parse("128:0.99,512:0.01", 100),
    ),
  ),
  Case(
    "corpora.sentences check_language",
    ("language=deutsch", "de"),
    lambda w: sentences.check_language("deutsch"),
    lambda w: [sentences.check_language(c) for c in ("de", "zh", "ar", "en")],
  ),
  Case(
    "model_folder.letter_case resolve",
    ("do_lower_case=True", "vocab.txt"),
    lambda w: letter_case.resolve(
      letter_case.Case(True),
      letter_case.Case(),
      "run.json",
      w.write("vocab.txt", "[PAD]\n[UNK]\nThe\nCafe\n"),
    ),
    lambda w: letter_case.resolve(
      letter_case.Case(), letter_case.Case(), "run.json", w.path("vocab.txt")
    ),
  ),
  Warned(
    "model_folder.letter_case _guess_from_file",
    ("vocab.txt", "strip_accents=False", "do_lower_case=False"),
    case,
    lambda w: (case(w, strip_accents=False), case(w, do_lower_case=False)),
  ),
  Case(
    "model_folder.letter_case _resolve_accents",
    ("strip_accents=True", "run.json"),
    lambda w: letter_case.resolve(
      letter_case.Case(strip_accents=True),
      letter_case.Case(strip_accents=False),
      "run.json",
      None,
    ),
    lambda w: letter_case.resolve(
      letter_case.Case(),
      letter_case.Case(strip_accents=False),
      "run.json",
      None,
    ),
  ),
  Case(
    "model_config check_lengths",
    ("max_seq_length", "129", "128", "config.json"),
    lambda w: CONFIG.check_lengths(129, "config.json"),
    lambda w: CONFIG.check_lengths(128, "config.json"),
  ),
  Case(
    "model_config check_sizes",
    ("hidden_size", "15", "bilstm"),
    lambda w: dataclasses.replace(
      CONFIG, hidden_size=15, num_attention_heads=3, bilstm=True
    ).check_sizes(),
    lambda w: dataclasses.replace(
      CONFIG, hidden_size=15, num_attention_heads=3
    ).check_sizes(),
  ),
  Case(
    "layers.activations get_activation",
    ("gelu_fast", "gelu_erf"),
    lambda w: dataclasses.replace(CONFIG, hidden_act="gelu_fast").check_sizes(),
    lambda w: [
      dataclasses.replace(CONFIG, hidden_act=name).check_sizes()
      for name in ("gelu", "gelu_erf", "relu", "tanh", "linear")
    ],
  ),
)


def classifier(**values):
  return classification_config.ClassificationConfig(
    data_dir="d",
    bert_config_file=json.dumps({}),
    vocab_file="v",
    train=train(output_dir="o"),
    **values,
  )
