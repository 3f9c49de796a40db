#!/bin/sh
# From a fresh clone to a running Hearth, with nothing but Python: see --help.
# Everything it makes lies in .tools, .venv and .cache of the checkout; removing them undoes it.
set -eu

root=$(dirname "$(readlink -f "$0")")
tools=$root/.tools/uv
venv=$root/.venv
log=$root/.tools/bootstrap.log
oldest='3, 11'

help() {
    cat <<'EOF'
./bootstrap.sh --run-local [OPTION…]   install what is missing and start Hearth on this machine;
                                       options are those of `hearth up`, such as --port-base 9000
./bootstrap.sh --test [ARGUMENT…]      install what the tests need and run them;
                                       arguments are those of pytest
./bootstrap.sh --help                  show this
EOF
}

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

# quietly WHAT COMMAND…: one line on what is done; if it fails, one sentence on what to do.
quietly() {
    say "$1 …"
    shift
    if "$@" >"$log" 2>&1; then
        return
    fi
    if grep -qi 'no space left' "$log"; then
        fail "The disk of $root is full: free 1 GB, then run this again."
    fi
    if grep -qiE 'resol(ve|ution)|not known|unreachable|refused|timed out|dns error|error sending request|failed to establish' "$log"; then
        fail "No package registry can be reached: check the network (and HTTPS_PROXY, if you need a proxy), then run this again."
    fi
    cat "$log" >&2
    fail "That failed, as told above: mend it, then run this again."
}

# from_debian PACKAGE…: root installs them; anybody else is told what root has to do.
from_debian() {
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        return 1
    fi
    # shellcheck disable=SC2016  # "$@" is for the inner shell
    quietly "Installing $* from Debian" sh -c '
        export DEBIAN_FRONTEND=noninteractive
        apt-get update && apt-get install -y --no-install-recommends "$@"' sh "$@"
}

need_from_debian() {
    from_debian "$@" || fail "Hearth needs what only root can install, Debian's $*: run \`apt-get install $*\` as root, then this again."
}

# find_python: sets python to an interpreter that is new enough, which may have to be installed.
find_python() {
    seen=
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if python=$("$name" -c "import sys; print(sys.executable if sys.version_info >= ($oldest) else '')" 2>/dev/null); then
            if [ -n "$python" ]; then
                return
            fi
            seen=$("$name" -c 'import platform; print(platform.python_version())')
        fi
    done
    if [ -n "$seen" ]; then
        fail "Hearth needs Python 3.11 or newer and this machine has $seen: install a newer one, then run this again."
    fi
    need_from_debian python3 python3-venv libgomp1
    python=$(command -v python3) || fail "Hearth needs Python 3.11 or newer: install it, then run this again."
}

# can_make_environments: Debian keeps what venv needs in a package of its own.
can_make_environments() { "$python" -c 'import venv; from ensurepip import bootstrap' 2>/dev/null; }

# can_compute: the embedded engine computes with GNU's OpenMP, which a minimal system lacks.
can_compute() { "$python" -c 'import ctypes; ctypes.CDLL("libgomp.so.1")' 2>/dev/null; }

need_packages() {
    set --
    if ! can_make_environments; then
        set -- "$(venv_package)"
    fi
    if ! can_compute; then
        set -- "$@" libgomp1
    fi
    if [ $# -gt 0 ]; then
        need_from_debian "$@"
        if ! can_make_environments || ! can_compute; then
            fail "$python still lacks its modules venv and ensurepip, or libgomp.so.1: install them, then run this again."
        fi
    fi
}

# venv_package: of the system's own Python, or of another version beside it.
venv_package() {
    case $python in
        */python3 | "$(readlink -f /usr/bin/python3)") echo python3-venv ;;
        *) echo "$(basename "$python")-venv" ;;
    esac
}

# digest NAME: changes when that lock, the project's description or the place of the checkout does.
digest() {
    { cat "$root/requirements/$1.lock" "$root/pyproject.toml"; printf '%s' "$root"; } | sha256sum | cut -d ' ' -f 1
}

# has_stamp FOLDER STAMP: the folder was completed for exactly that, and its interpreter runs.
has_stamp() {
    [ "$(cat "$1/complete" 2>/dev/null)" = "$2" ] && "$1/bin/python" -c '' 2>/dev/null
}

# has_environment KIND: the tests' environment holds all that running needs.
has_environment() {
    has_stamp "$venv" "dev $(digest dev)" || { [ "$1" = local ] && has_stamp "$venv" "local $(digest local)"; }
}

# pip_setting NAME: what the user has set up for pip, on one line; nothing where it is not set.
pip_setting() {
    "$tools/bin/python" -m pip config list 2>/dev/null |
        sed -n "s/^[^=]*\.$1='\(.*\)'\$/\1/p" | head -n 1 | sed 's/\\n/ /g; s/^ *//'
}

# for_uv VARIABLE SETTING [SED]: a mirror that is set up for pip is meant for uv, too.
for_uv() {
    value=$(pip_setting "$2" | sed "${3:-}")
    if [ -n "$value" ]; then
        eval "export $1=\${$1:-\$value}"
    fi
}

use_settings_of_pip() {
    for file in "${UV_CONFIG_FILE:-}" "${XDG_CONFIG_HOME:-${HOME:-}/.config}/uv/uv.toml" /etc/uv/uv.toml; do
        if [ -f "$file" ]; then
            return
        fi
    done
    if [ -z "${UV_INDEX_URL:-}" ]; then
        for_uv UV_DEFAULT_INDEX index-url
    fi
    for_uv UV_INDEX extra-index-url
    for_uv UV_FIND_LINKS find-links 's/  */,/g'
    for_uv UV_NO_INDEX no-index
    for_uv UV_INSECURE_HOST trusted-host
    for_uv SSL_CERT_FILE cert
    # Every file is pinned by its sha256, so it does not matter which index has it.
    export UV_INDEX_STRATEGY="${UV_INDEX_STRATEGY:-unsafe-best-match}"
}

# use_caches: those of the user, or our own where the home cannot be written.
use_caches() {
    caches=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
    if [ -z "$caches" ] || ! mkdir -p "$caches/uv" "$caches/pip" 2>/dev/null || ! [ -w "$caches/uv" ]; then
        export UV_CACHE_DIR="${UV_CACHE_DIR:-$root/.cache/uv}" PIP_CACHE_DIR="${PIP_CACHE_DIR:-$root/.cache/pip}"
    fi
}

make_tools() {
    stamp=$(digest tools)
    if has_stamp "$tools" "$stamp"; then
        return
    fi
    rm -rf "$tools"
    quietly "Making the project's own tools in .tools" "$python" -m venv "$tools"
    quietly "Installing uv" "$tools/bin/python" -m pip install \
        --disable-pip-version-check --no-input --retries 2 --require-hashes -r requirements/tools.lock
    printf '%s\n' "$stamp" >"$tools/complete"
}

# make_environment KIND: the locked packages, and this checkout as an editable install.
make_environment() {
    stamp=$(cat "$venv/complete" 2>/dev/null || true)
    rm -f "$venv/complete"
    # What a start that was killed has left may be half of a package; the cache makes it anew.
    if [ -z "$stamp" ] || ! "$venv/bin/python" -c '' 2>/dev/null; then
        rm -rf "$venv"
        quietly "Making the environment in .venv" "$tools/bin/uv" venv --python "$("$tools/bin/python" -c 'import sys; print(sys._base_executable)')" "$venv"
    fi
    quietly "Installing the locked packages (a few minutes the first time)" \
        "$tools/bin/uv" pip sync --python "$venv" --require-hashes "requirements/$1.lock"
    wheel=$root/.tools/wheel
    rm -rf "$wheel"
    quietly "Installing Hearth from this checkout" "$tools/bin/python" -c \
        'import os, sys; from hatchling.build import build_editable; os.makedirs(sys.argv[1]); build_editable(sys.argv[1])' "$wheel"
    quietly "Finishing" "$tools/bin/uv" pip install --python "$venv" --no-deps --no-index "$wheel"/*.whl
    printf '%s\n' "$1 $(digest "$1")" >"$venv/complete"
}

# prepare KIND: .venv holds that environment afterwards; a second time this takes no time.
prepare() {
    if has_environment "$1"; then
        return
    fi
    if ! mkdir -p "$root/.tools" 2>/dev/null || ! [ -w "$root/.tools" ]; then
        fail "You may not write into $root: make it yours, or clone Hearth into a folder of your own."
    fi
    (
        umask 022
        unset PYTHONPATH PYTHONHOME
        export UV_PYTHON_DOWNLOADS=never
        cd "$root"
        if command -v flock >/dev/null && ! flock -n 9; then
            say "Waiting for another bootstrap.sh …"
            flock 9
        fi
        if has_environment "$1"; then
            exit
        fi
        find_python
        need_packages
        use_caches
        make_tools
        use_settings_of_pip
        case $(cat "$venv/complete" 2>/dev/null) in
            dev*) make_environment dev ;;
            *) make_environment "$1" ;;
        esac
    ) 9>"$root/.tools/lock"
}

need_browser() {
    if ! command -v chromium >/dev/null && ! from_debian chromium fonts-liberation; then
        say "The tests of the web page need Debian's package chromium, which only root can install: run \`apt-get install chromium\` as root."
    fi
}

case ${1:-} in
    --run-local)
        shift
        prepare local
        use_caches
        exec "$venv/bin/hearth" up "$@"
        ;;
    --test)
        shift
        prepare dev
        need_browser
        use_caches
        cd "$root"
        exec "$venv/bin/python" -m pytest "$@"
        ;;
    -h | --help)
        help
        ;;
    *)
        help >&2
        exit 2
        ;;
esac
