"""The package without the calls that Windows or macOS lack.

The tests run on Linux. They remove functions, signals and modules, and leave
sys.platform as it is, since other packages choose their files by it.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from tests.support import tiny_models

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Other packages choose their files when they are imported: those of Linux. So
# all modules are imported twice, the second time without the calls.
PROGRAM = """
import importlib, multiprocessing.resource_tracker, os, pkgutil, select, signal
import sys


def import_all_modules():
  import bert_tf

  for module in pkgutil.walk_packages(bert_tf.__path__, "bert_tf."):
    if not module.name.endswith("__main__"):
      importlib.import_module(module.name)


def hide_calls_of_linux():
  multiprocessing.resource_tracker._HAVE_SIGMASK = False  # As on Windows.
  for name in "fcntl grp pwd resource termios".split():
    sys.modules[name] = None
  for module, names in (
    (signal, "SIGALRM SIGCHLD SIGHUP SIGPIPE SIGQUIT SIGUSR1 SIGUSR2 "
     "pthread_kill pthread_sigmask setitimer sigwait"),
    (select, "epoll poll"),
    (os, "O_DIRECTORY O_NOFOLLOW fork getloadavg geteuid getpgid getuid killpg "
     "mkfifo nice posix_fadvise pread pwrite sched_getaffinity setsid "
     "sysconf uname"),
  ):
    for name in names.split():
      delattr(module, name)


if __name__ == "__main__":
  import_all_modules()
  for name in [name for name in sys.modules if name.startswith("bert_tf")]:
    del sys.modules[name]
  hide_calls_of_linux()
  import_all_modules()
  from bert_tf.cli import main
  from bert_tf.files import lock

  with lock.hold("run"):
    print(os.listdir("run"))
  print(os.listdir("run"), flush=True)
  main.run()
"""


def test_modules_locks_and_commands_work_without_the_calls_of_linux(tmp_path):
  (tmp_path / "program.py").write_text(PROGRAM)
  text = "\n\n".join(["the of and a in to is was.\nfor on as by with."] * 8)
  (tmp_path / "text.txt").write_text(text)
  shutil.copy(tiny_models.TINY / "vocab.txt", tmp_path)
  result = subprocess.run(
    [
      *(sys.executable, "program.py", "create-pretraining-data"),
      *("--input_file=text.txt", "--vocab_file=vocab.txt"),
      *("--output_file=a.tf_record", "--num_shards=2", "--num_workers=2"),
      *("--max_seq_length=16", "--max_predictions_per_seq=2"),
    ],
    cwd=tmp_path,
    env={**os.environ, "PYTHONPATH": str(ROOT)},
    capture_output=True,
    text=True,
  )
  assert result.returncode == 0, result.stderr
  assert result.stdout.splitlines()[:2] == 2 * ["['.run.lock']"]
  assert len(list(tmp_path.glob("a.tf_record*"))) == 2
