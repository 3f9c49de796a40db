#!/bin/sh
# From a fresh clone to a running Hearth, with nothing but Python: see --help.
# Everything it makes is in .tools, .venv and .cache of the checkout, and what the tests keep from one
# checkout to the next is in ~/.cache/hearth-tests; it links ~/.local/bin/hearth to .venv/bin/hearth.
# Removing these undoes it.
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
./bootstrap.sh -i INVENTORY [OPTION…]  bring the machines of an inventory to a running cluster;
                                       options are those of ansible-playbook, such as --check --diff
./bootstrap.sh -i INVENTORY PLAYBOOK [OPTION…]
                                       run another playbook on them, such as heal_cluster.yaml
./bootstrap.sh --run-local -i INVENTORY [OPTION…]
                                       the same, with the agent as a plain program instead of a container
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
    fail "The command failed with the output above: correct the cause, then run this again."
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
    from_debian "$@" || fail "Hearth needs Debian's $*, which only root can install: run \`apt-get install $*\` as root, then this again."
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

# has_environment KIND: that of the tests holds all, that of the cluster all that running needs.
has_environment() {
    has_stamp "$venv" "dev $(digest dev)" || {
        [ "$1" != dev ] && has_stamp "$venv" "cluster $(digest cluster)"
    } || { [ "$1" = local ] && has_stamp "$venv" "local $(digest local)"; }
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
        fail "The folder $root is not writable: change its owner, or clone Hearth into your own folder."
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
            cluster*) make_environment "$([ "$1" = dev ] && echo dev || echo cluster)" ;;
            *) make_environment "$1" ;;
        esac
    ) 9>"$root/.tools/lock"
}

# in_lab: the inventory is that of the lab, and we are outside of its network.
in_lab() { [ "$(basename "$inventory")" = lab.yaml ] && [ -z "${HEARTH_LAB_KEY:-}" ]; }

# find_binary NAME: where the controller has that program; nothing where it has none.
find_binary() {
    "$venv/bin/python" -c 'import sys; from hearth.cluster.binaries import find; print(find(sys.argv[1]) or "")' "$1"
}

# enter_lab ARGUMENT…: what needs a network is fetched first; then this script goes on inside.
enter_lab() {
    quietly "Putting together what the hosts get" "$venv/bin/python" -m hearth.release archives --arch "$(uname -m)"
    cd "$root"
    quietly "Fetching the models" "$venv/bin/ansible-playbook" -i "$inventory" fetch.yaml
    HEARTH_NOMAD_BINARY=${HEARTH_NOMAD_BINARY:-$(find_binary nomad)}
    HEARTH_CONSUL_BINARY=${HEARTH_CONSUL_BINARY:-$(find_binary consul)}
    if [ -z "$HEARTH_NOMAD_BINARY" ] || [ -z "$HEARTH_CONSUL_BINARY" ]; then
        fail "The lab cannot download Nomad and Consul: put both on PATH, or set HEARTH_NOMAD_BINARY and HEARTH_CONSUL_BINARY."
    fi
    export HEARTH_NOMAD_BINARY HEARTH_CONSUL_BINARY
    exec "$venv/bin/python" -m hearth lab exec --name "${HEARTH_LAB_NAME:-lab}" -- "$root/bootstrap.sh" "$@"
}

# ask WHAT: reads one line from the terminal without showing it, into answer.
ask() {
    if ! [ -t 0 ]; then
        fail "There is no terminal to ask for the $1: write it to a file that only you can read, and set HEARTH_VAULT_PASSWORD_FILE to its path."
    fi
    printf '%s: ' "$1" >&2
    # Whoever gives up with Ctrl-C must see again what is typed.
    trap 'stty echo; exit 130' INT TERM
    stty -echo
    read -r answer || answer=
    stty echo
    trap 'exit 130' INT TERM
    printf '\n' >&2
}

# choose_vault_password: sets ANSIBLE_VAULT_PASSWORD_FILE; what is typed lies in memory only.
choose_vault_password() {
    if [ -n "${HEARTH_VAULT_PASSWORD_FILE:-}" ]; then
        ANSIBLE_VAULT_PASSWORD_FILE=$(readlink -f "$HEARTH_VAULT_PASSWORD_FILE")
        export ANSIBLE_VAULT_PASSWORD_FILE HEARTH_VAULT_PASSWORD_FILE="$ANSIBLE_VAULT_PASSWORD_FILE"
    elif [ -n "${HEARTH_LAB_KEY:-}" ]; then
        # The secrets of a lab end with it.
        export ANSIBLE_VAULT_PASSWORD_FILE="$(dirname "$HEARTH_LAB_KEY")/vault-password"
        if ! [ -s "$ANSIBLE_VAULT_PASSWORD_FILE" ]; then
            (umask 077 && head -c 24 /dev/urandom | base64 >"$ANSIBLE_VAULT_PASSWORD_FILE")
        fi
    elif [ -z "${ANSIBLE_VAULT_PASSWORD_FILE:-}" ]; then
        ask "Password of the cluster's secrets (choose one the first time)"
        typed=$(umask 077 && mktemp -p /dev/shm hearth.XXXXXX)
        trap 'rm -f "$typed"' EXIT
        trap 'exit 130' INT TERM
        printf '%s\n' "$answer" >"$typed"
        export ANSIBLE_VAULT_PASSWORD_FILE="$typed"
    fi
}

# needs_become_password: somebody who is not root logs in to a machine, and no variable has it.
needs_become_password() {
    for option in "$@"; do
        case $option in
            -K | --ask-become-pass | --become-password-file* | --become-pass-file* | --syntax-check | --list-*) return 1 ;;
        esac
    done
    "$venv/bin/ansible-inventory" -i "$inventory" --playbook-dir "$root" --list 2>/dev/null | "$venv/bin/python" -c '
import getpass, json, sys
machines = json.load(sys.stdin)["_meta"]["hostvars"].values()
me = getpass.getuser()
def asks(machine):
    local = machine.get("ansible_connection") == "local"
    user = me if local else machine.get("ansible_user", me)
    return user != "root" and "ansible_become_password" not in machine
sys.exit(not any(asks(machine) for machine in machines))'
}

# bring_up INVENTORY [PLAYBOOK] OPTION…: a playbook, with what it needs to ask asked once.
bring_up() {
    if [ $# -eq 0 ] || ! [ -e "$1" ]; then
        fail "There is no inventory ${1:-}: \`cp inventory/example.yaml inventory/home.yaml\`, write your machines into it, then run \`./bootstrap.sh -i inventory/home.yaml\`."
    fi
    inventory=$(readlink -f "$1")
    shift
    playbook=playbook.yaml
    case ${1:-} in
        *.yaml)
            playbook=$1
            shift
            ;;
    esac
    prepare cluster
    use_caches
    link_hearth
    if in_lab; then
        enter_lab -i "$inventory" "$playbook" "$@"
    fi
    choose_vault_password
    if needs_become_password "$@"; then
        set -- --ask-become-pass "$@"
    fi
    cd "$root"
    "$venv/bin/ansible-playbook" -i "$inventory" "$playbook" "$@"
    if [ "$playbook" = playbook.yaml ] && ! looks_only "$@"; then
        "$venv/bin/hearth" status -i "$inventory"
        show_next_steps
    fi
}

# show_next_steps: after the first run, what a person types next; the key is never printed unasked.
show_next_steps() {
    cat <<EOF

Next steps
  Show the key, which signs in to the web page and the API:
    $hearth status -i $inventory --key
  Let your browser trust the cluster: import ${inventory%/*}/*.ca.pem (docs/howto/use-a-cluster.md)
  Check everything with real requests:
    ./bootstrap.sh -i $inventory e2e-tests.yaml
  Keep a copy of ${inventory%/*}/*.vault.yaml and of its password: nothing can replace them.
EOF
}

# link_hearth: makes `hearth` a command of the user's shell; sets hearth to what is typed.
link_hearth() {
    hearth=$venv/bin/hearth
    link=${HOME:-/nonexistent}/.local/bin/hearth
    if [ "$(readlink -f "$(command -v hearth 2>/dev/null || true)")" = "$(readlink -f "$hearth")" ]; then
        hearth=hearth
        return
    fi
    case $(readlink "$link" 2>/dev/null || true) in
        "$hearth") ;;
        # A link of another checkout is replaced. Anything else with that name is not ours.
        */.venv/bin/hearth | "")
            if { [ -e "$link" ] && ! [ -L "$link" ]; } || ! mkdir -p "${link%/*}" 2>/dev/null || ! ln -sfn "$hearth" "$link" 2>/dev/null; then
                return
            fi
            say "Linked $link to this checkout, so that you can use the command hearth."
            case :$PATH: in
                *:"${link%/*}":*) ;;
                *) say "This shell does not search that folder yet: log in again, or run export PATH=\"${link%/*}:\$PATH\"" ;;
            esac
            ;;
        *) return ;;
    esac
    case :$PATH: in
        *:"${link%/*}":*) hearth=hearth ;;
    esac
}

# looks_only OPTION…: the run changed nothing, or not all of it, so there may be no cluster to show.
looks_only() {
    for option in "$@"; do
        case $option in
            -C | --check | --syntax-check | --list-* | -t | --tags* | -l | --limit* | --skip-tags*) return 0 ;;
        esac
    done
    return 1
}

# for_tests WHAT PACKAGE…: the tests of that are left out where nobody may install the packages.
for_tests() {
    what=$1
    shift
    from_debian "$@" && return
    say "The tests of $what need Debian's $*, which only root can install: run \`apt-get install $*\` as root."
    return 1
}

need_browser() {
    command -v chromium >/dev/null && command -v chromium-headless-shell >/dev/null && return
    for_tests "the web page" chromium chromium-headless-shell fonts-liberation || true
}

need_sandbox() {
    command -v bwrap >/dev/null || for_tests "the sandbox" bubblewrap || true
}

# need_ctags: finds definitions in files of other languages than Python.
need_ctags() {
    command -v ctags-universal >/dev/null || for_tests "definitions in source files" universal-ctags || true
}

# need_node: the official client of that language is one of those that the gateway is tested with.
need_node() {
    command -v npm >/dev/null || for_tests "the client for Node" nodejs npm || true
}

# need_docker: the tests start an engine of their own; where systemd runs it would start one for all.
need_docker() {
    command -v dockerd >/dev/null && return
    if for_tests containers docker.io && [ -d /run/systemd/system ]; then
        systemctl disable --now --quiet docker.service docker.socket containerd || true
    fi
}

# need_hosts: what boots the hosts of the lab; where systemd runs it would start the proxy for all.
need_hosts() {
    missing=$("$venv/bin/python" -c 'from hearth.lab.programs import missing_packages; print(*missing_packages())')
    # shellcheck disable=SC2086  # several packages
    if [ -n "$missing" ] && for_tests hosts $missing && [ -d /run/systemd/system ] && [ "$missing" != "${missing#*apt-cacher-ng}" ]; then
        systemctl disable --now apt-cacher-ng
    fi
}

# need_emulator: the engines are tried on processors that this machine does not have.
need_emulator() {
    command -v qemu-x86_64-static >/dev/null || for_tests "other processors" qemu-user-static || true
}

need_prometheus() {
    command -v prometheus >/dev/null && command -v prometheus-node-exporter >/dev/null && return
    if for_tests "the dashboards" prometheus prometheus-node-exporter && [ -d /run/systemd/system ]; then
        # Debian starts what it installs; the tests start their own.
        systemctl disable --now --quiet prometheus prometheus-node-exporter || true
    fi
}

need_mosquitto() {
    command -v mosquitto_pub >/dev/null && [ -x /usr/sbin/mosquitto ] && return
    if for_tests "the MQTT broker" mosquitto mosquitto-clients && [ -d /run/systemd/system ]; then
        systemctl disable --now --quiet mosquitto || true
    fi
}

# need_clients: the programs that the gateway is tested with, each in an environment of its own.
need_clients() (
    cd "$root"
    if ! "$venv/bin/python" -m tests.clients.environments --there; then
        use_settings_of_pip
        quietly "Installing the clients that the gateway is tested with" "$venv/bin/python" -m tests.clients.environments
    fi
)

case ${1:-} in
    -i)
        shift
        bring_up "$@"
        ;;
    --run-local)
        shift
        if [ "${1:-}" = -i ]; then
            shift
            bring_up "$@" -e pipecatapp_driver=raw_exec
            exit
        fi
        prepare local
        use_caches
        link_hearth
        exec "$venv/bin/hearth" up "$@"
        ;;
    --test)
        shift
        prepare dev
        need_browser
        need_sandbox
        need_ctags
        need_node
        need_docker
        need_hosts
        need_prometheus
        need_mosquitto
        need_emulator
        use_caches
        need_clients
        # Without bytecode each of the thousand programs that tests start compiles all that it loads.
        unset PYTHONDONTWRITEBYTECODE
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
