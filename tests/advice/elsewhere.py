"""Messages whose advice another test follows, or that no test can follow."""

# The key "module function" of a message: a test, as FILE::NAME below tests/, or
# why there is none. A function with two messages has two rows.
ROWS = (
  (
    "cli.run_squad _check_has_adapter",
    "cli/run_squad_test.py::test_an_adapter_that_would_not_answer_is_refused",
  ),
  (
    "distribution translate_worker_loss",
    "training/multi_worker_test.py::"
    "test_what_one_worker_gets_ends_both_and_both_go_on",
  ),
  (
    "keras_backend check_installed",
    "keras_backends_test.py::test_a_command_names_the_backend_before_its_files",
  ),
  (
    "keras_backend check_installed",
    "keras_backends_test.py::test_a_command_names_the_backend_before_its_files",
  ),
  (
    "keras_backend check_tensorflow",
    "keras_backends_test.py::test_what_needs_tensorflow_says_so",
  ),
  (
    "layers.mixed_precision check_devices",
    "layers/mixed_precision_test.py::test_a_device_takes_what_it_can_multiply",
  ),
  (
    "layers.mixed_precision check_devices",
    "layers/mixed_precision_test.py::test_a_tpu_has_no_float16",
  ),
  (
    "export.runtimes.conversion _check",
    "export/runtimes_test.py::test_what_is_close_enough_is_written",
  ),
  (
    "model_folder _convert",
    "advice/command_advice_test.py::test_the_command_that_converts_is_right",
  ),
  (
    "export.runtimes.litert write",
    "needs a SavedModel of an older version",
  ),
  ("cli.benchmark main", "moves to the laboratory"),
  ("cli.compare_curve main", "moves to the laboratory"),
  ("cli.devices _strategy", "needs a TPU"),
  ("distribution _tpu_strategy", "needs a TPU"),
  ("data.beam_pipeline run", "the log is that of a remote runner"),
  ("data.worker_pool _died", "the system ran out of memory"),
  ("data.wikipedia_dump _faulty", "the file is to be fetched again"),
  ("training.estimator _weights_step", "a mistake in the code of a caller"),
)
