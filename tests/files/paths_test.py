import pytest

from bert_tf.files import paths


@pytest.mark.parametrize(
  "function", [paths.exists, paths.is_file, paths.matches]
)
def test_a_remote_path_that_cannot_be_asked_for_is_an_os_error(function):
  with pytest.raises(OSError, match="nosuch://bucket/a"):
    function("nosuch://bucket/a")
