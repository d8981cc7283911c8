"""Messages whose advice another test follows, or that no test can follow."""

# Rows of (message, test). "module function" identifies a message; a function
# with two messages has two rows. The test is FILE::NAME below tests/, or the
# reason why none is needed.
ROWS = (
  (
    "cli.score main",
    "inference/sentence_scorer_test.py::test_the_command_scores_pairs",
  ),
  (
    "inference.sentence_scorer __init__",
    "inference/sentence_scorer_test.py::"
    "test_models_without_masked_words_are_refused",
  ),
  (
    "cli.run_squad _check_has_adapter",
    "cli/run_squad_test.py::test_an_adapter_that_would_not_answer_is_refused",
  ),
  (
    "distribution translate_worker_loss",
    "training/multi_worker_test.py::"
    "test_a_signal_to_one_worker_ends_both_and_both_resume",
  ),
  (
    "hub.cache resolve_model",
    "hub/cache_test.py::"
    "test_the_error_for_a_name_that_is_not_here_names_the_command",
  ),
  (
    "hub.download _check_files",
    "hub/download_test.py::"
    "test_a_damaged_or_incomplete_zip_is_refused_and_removed",
  ),
  (
    "hub.download _check_files",
    "hub/download_test.py::"
    "test_a_checkpoint_with_a_wrong_hash_is_refused_and_removed",
  ),
  (
    "hub.download _compare_with_first_download",
    "hub/download_test.py::"
    "test_a_file_that_differs_from_the_first_download_is_reported",
  ),
  (
    "hub.download _download_from_hugging_face",
    "hub/cache_test.py::"
    "test_a_model_of_hugging_face_is_downloaded_without_its_other_files",
  ),
  (
    "hub.download _download_from_hugging_face",
    "hub/cache_test.py::"
    "test_a_model_of_hugging_face_is_downloaded_without_its_other_files",
  ),
  (
    "hub.download _explain_full_disk",
    "hub/download_test.py::"
    "test_a_full_disk_names_the_cache_and_leaves_no_model",
  ),
  (
    "hub.transfer _continue",
    "hub/download_test.py::"
    "test_a_missing_file_names_the_address_and_the_status",
  ),
  (
    "hub.transfer fetch",
    "hub/download_test.py::test_a_later_call_continues",
  ),
  (
    "hub.transfer fetch",
    "hub/download_test.py::test_data_with_a_wrong_hash_are_refused_and_removed",
  ),
  (
    "kernels.backend check_installed",
    "keras_backends_test.py::test_a_command_names_the_backend_before_its_files",
  ),
  (
    "kernels.backend check_installed",
    "keras_backends_test.py::test_a_command_names_the_backend_before_its_files",
  ),
  (
    "kernels.backend check_tensorflow",
    "keras_backends_test.py::test_the_check_for_tensorflow_names_the_variable",
  ),
  (
    "layers.mixed_precision check_devices",
    "layers/mixed_precision_test.py::test_a_device_accepts_the_types_that_it_supports",
  ),
  (
    "layers.mixed_precision check_devices",
    "layers/mixed_precision_test.py::test_a_tpu_has_no_float16",
  ),
  (
    "export.runtimes.conversion _check",
    "export/runtimes_test.py::test_a_result_within_the_tolerance_is_written",
  ),
  (
    "model_folder.opening _conversion",
    "advice/command_advice_test.py::test_the_advised_conversion_command_works",
  ),
  (
    "export.runtimes.litert write",
    "needs a SavedModel of an older version",
  ),
  (
    "cli.command _memory_advice",
    "cli/command_test.py::test_out_of_memory_names_the_flags_that_lower_it",
  ),
  ("tasks.step_errors explained", "needs a GPU"),
  ("cli.devices _strategy", "needs a TPU"),
  (
    "pipeline.initial_model _check_output_dir",
    "pipeline/initial_model_test.py::"
    "test_the_folder_of_the_model_stays_as_it_is",
  ),
  (
    "pipeline.stages _check_machine",
    "pipeline/initial_model_test.py::test_several_machines_are_refused",
  ),
  (
    "pipeline.stages _check_inputs",
    "pipeline/stages_test.py::"
    "test_a_pipe_is_refused_because_the_plan_would_consume_it",
  ),
  ("distribution _tpu_strategy", "needs a TPU"),
  (
    "files.encodings check",
    "files/byte_order_mark_test.py::"
    "test_utf_16_is_refused_with_a_command_that_converts_it",
  ),
  (
    "files.encodings check",
    "files/byte_order_mark_test.py::"
    "test_utf_16_is_refused_with_a_command_that_converts_it",
  ),
  (
    "server.application _run",
    "server/supervision_test.py::"
    "test_the_end_of_batching_ends_the_process_even_if_a_thread_has_stalled",
  ),
  (
    "server.batching _check_open",
    "server/server_test.py::test_a_full_queue_rejects_requests",
  ),
  (
    "server.batching _check_open",
    "server/batching_test.py::"
    "test_requests_that_would_wait_too_long_are_refused",
  ),
  (
    "server.guard _error_response",
    "server/supervision_test.py::test_a_fault_fails_only_its_own_request",
  ),
  (
    "tasks.squad.examples _check_is_v2",
    "tasks/squad/examples_windows_test.py::"
    "test_v2_training_needs_is_impossible_and_trains_null_answers",
  ),
  (
    "tasks.start_model _check_labels",
    "tasks/start_model_test.py::test_a_head_with_other_labels_is_refused",
  ),
  (
    "formats.hugging_face conversion_advice",
    "needs transformers 4 and PyTorch",
  ),
  ("tasks.classification.task describe_cut", "describes long texts"),
  ("tasks.ner.task describe_cut", "describes long sentences"),
  ("files.beam_pipeline run", "the log is that of a remote runner"),
  ("files.worker_pool _worker_error", "the system ran out of memory"),
  ("training.estimator _weights_step", "a mistake in the code of a caller"),
  ("training.step _check_gradients", "a mistake in the code of a model"),
)
