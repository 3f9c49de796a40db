#!/bin/sh
# Run one host: mount its disk in a separate mount namespace, so that no mount outlives the host,
# then start systemd-nspawn, which exits with 133 when the guest requests a reboot.
# keeper.sh FOLDER LOWER NAMESPACE MACHINE HOSTNAME [CGROUP_PROCS…]
set -eu
folder=$1 lower=$2 namespace=$3 machine=$4 name=$5
shift 5
for group in "$@"; do
    echo $$ >"$group"
done
mount -t overlay -o "lowerdir=$lower,upperdir=$folder/upper,workdir=$folder/work,volatile" \
    hearth-lab "$folder/root"
# systemd-nspawn locks the disk under this name and cannot release the lock when it is killed.
stat --format='inode-%d:%i' "$folder/root" >"$folder/lock"
# A host may write only its own part of /proc/sys: the network.
export SYSTEMD_NSPAWN_API_VFS_WRITABLE=network
while :; do
    code=0
    systemd-nspawn --quiet --boot --register=no --keep-unit \
        --directory="$folder/root" --machine="$machine" --hostname="$name" \
        --network-namespace-path="/run/netns/$namespace" \
        --bind="$folder/docker:/var/lib/docker" \
        --capability=all --drop-capability=CAP_SYS_TIME,CAP_SYS_MODULE,CAP_SYS_RAWIO \
        --system-call-filter='add_key keyctl bpf' \
        --resolv-conf=off --timezone=off --link-journal=no || code=$?
    [ "$code" -eq 133 ] || exit "$code"
done
