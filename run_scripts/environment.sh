# Sourced by the other scripts: sets up a Python with bert_tf installed.
# Uses a Python that has it, the active virtual environment, or .venv in the
# checkout, which it creates.

# Else Python would compile TensorFlow again whenever it starts.
unset PYTHONDONTWRITEBYTECODE

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

find_python() {
  local candidate
  for candidate in python3 python3.12 python3.11 python3.13 python3.10; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "bert_tf needs Python 3.10 to 3.13; install one of them." >&2
  return 1
}

# install EXTRA [MODULE]: sets $python. Installs the checkout with that extra,
# unless it is installed or a MODULE is given and a Python on PATH has it.
install() {
  local venv=${VIRTUAL_ENV:-$root/.venv} stamp
  for python in ${2:+python python3}; do
    # Outside of the checkout, where any Python could import bert_tf.
    if (cd / && "$python" 2>/dev/null -c "
from importlib.util import find_spec
assert find_spec('$2') and find_spec('tensorflow')"); then
      echo "Using $2 of $(type -P "$python")."
      return
    fi
  done
  if [[ ! -x $venv/bin/python ]]; then
    "$(find_python)" -m venv "$venv" || {
      echo "On Debian and Ubuntu: apt-get install python3-venv" >&2
      return 1
    }
  fi
  python=$venv/bin/python
  # Marks a finished installation of these dependencies, extra and checkout.
  stamp=$venv/.bert_tf-$1-$( (cat "$root/pyproject.toml"; echo "$root") | cksum | cut -d' ' -f1)
  if [[ ! -e $stamp ]]; then
    echo "Installing bert_tf[$1] into $venv: 2.6 GB on a disk, and some minutes ..."
    # What is never imported need not be compiled, which takes half a minute.
    "$python" -m pip install --quiet --disable-pip-version-check \
      --no-compile -e "$root[$1]"
    touch "$stamp"
  fi
}
