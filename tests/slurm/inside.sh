#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# inside.sh DIR VERB...: what tests/cluster runs inside the namespaces of the cluster with state in
# DIR. Not for people; tests/cluster is.
#
#   control            process 1 of the cluster: bridge, daemons, nodes; never returns
#   node NAME          process of a node, in its fresh namespaces: becomes slurmd
#   boot NAME          start a node
#   kill NAME          end a node as a power failure does
#   shape NAME         make the node's link what DIR/shape/NAME says: "RATE DELAY", or no file
#   enter NAME COMMAND...   run a command in the node's namespaces
#
# The namespaces: all of the cluster shares one set (network with the bridge br0, mounts, process
# ids, IPC, host name ctl), and each node has a network, mounts, IPC and a host name of its own on
# top. /run is private to the cluster, so that daemons find each other where they always do, and
# holds the node-local folder /run/scratch; what must outlive the cluster (logs, files of nodes)
# lies in DIR.
set -u
dir=$1 verb=$2
shift 2
self=$0
PATH=$PATH:/usr/sbin:/sbin
export PATH
export SLURM_CONF="$dir/etc/slurm.conf"
# The settings of `start`.
nodes='' accounting='' lifetime='' preload='' wire=''
# shellcheck disable=SC1091 # written by start
. "$dir/settings"

net=10.77.0

fail() {
    echo "cluster: $*" >&2
    exit 1
}

# await SECONDS COMMAND...: until the command succeeds; what it prints is of no interest.
await() {
    tries=$(($1 * 20))
    shift
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.05
    done
}

# daemon NAME COMMAND...: in the background, in a session of its own, with nothing open but its log.
daemon() {
    daemon_name=$1
    shift
    setsid "$@" </dev/null >>"$dir/log/$daemon_name.out" 2>&1 &
}

# For an ordinary user the daemons of Slurm are told that they gave up their groups.
slurm_daemon() {
    if [ -n "$preload" ]; then
        exec env LD_PRELOAD="$preload" "$@"
    else
        exec "$@"
    fi
}

# private FILE PLACE: FILE stands for the host's PLACE, if there is one.
private() { [ ! -e "$2" ] || mount --bind "$1" "$2"; }

other_network() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }

boot() {
    name=$1
    number=${name#n}
    daemon "$name" unshare --net --uts --mount --ipc sh "$self" "$dir" node "$name"
    pid=$!
    await 20 other_network $pid || fail "$name got no namespaces of its own"
    readlink /proc/$pid/ns/net >"/run/slurm/$name.net"
    echo $pid >"/run/slurm/$name.pid"
    ip link add "b$number" type veth peer name eth0 netns $pid
    ip link set "b$number" master br0 up
    [ ! -e "$dir/shape/$name" ] || {
        await 20 link_is_up "$name"
        shape "$name"
    }
}

link_is_up() { enter "$1" ip -o link show eth0 up | grep -q eth0; }

# What becomes slurmd; its scratch folder and shared memory are its own.
node() {
    name=$1
    hostname "$name"
    mount -t tmpfs tmpfs /dev/shm
    mount --bind "$dir/local/$name" /run/scratch
    ip link set lo up
    await 20 ip link show eth0 || fail "$name got no link"
    ip addr add "$net.$((10 + ${name#n}))/24" dev eth0
    ip link set eth0 up
    slurm_daemon slurmd -D -N "$name"
}

# enter NODE COMMAND...; as this very process where $how is exec.
how=
enter() {
    enter_pid=$(cat "/run/slurm/$1.pid" 2>/dev/null)
    [ -n "$enter_pid" ] || fail "node $1 is off; \`node-boot $1\` starts it"
    shift
    $how nsenter -t "$enter_pid" -n -u -m -i -r --wdns="$PWD" -- "$@"
}

# The processes of a node, those of jobs too: whoever is in its network.
processes() {
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/ns/net" 2>/dev/null)" != "$1" ] || echo "${process#/proc/}"
    done
}

none_left() {
    left=$(processes "$1")
    # shellcheck disable=SC2086 # a list
    [ -z "$left" ] || { kill -KILL $left 2>/dev/null; false; }
}

# The link goes first: nobody may hear from the node that its connections are closed.
kill_node() {
    name=$1
    network=$(cat "/run/slurm/$name.net" 2>/dev/null) || fail "node $name is off already"
    remove_wire "$name"
    ip link del "b${name#n}"
    await 20 none_left "$network" || fail "processes of node $name do not end"
    rm -f "/run/slurm/$name.net" "/run/slurm/$name.pid"
}

ended() { [ ! -d "/proc/$1" ]; }

remove_wire() {
    number=${1#n}
    [ -e "/run/slurm/$1.wire" ] || return 0
    wire_pid=$(cat "/run/slurm/$1.wire")
    kill "$wire_pid" 2>/dev/null
    await 5 ended "$wire_pid"
    rm "/run/slurm/$1.wire"
    ip link del "w$number"
    ip link set "b$number" arp on master br0
}

# The wire takes the place of the bridge's port; a pair of interfaces leads from its other end to
# the bridge.  Neither of its ends may answer for the control node, whose kernel they belong to: arp
# off.
insert_wire() {
    number=${1#n}
    ip link set "b$number" nomaster
    ip link set "b$number" arp off
    ip link add "w$number" type veth peer name "x$number"
    ip link set "w$number" arp off up
    ip link set "x$number" master br0 up
    : >"$dir/log/$1.wire.out"
    daemon "$1.wire" "$wire" "b$number" "w$number" "$2" ${3:+"$3"}
    echo $! >"/run/slurm/$1.wire"
    await 20 grep -q ready "$dir/log/$1.wire.out" ||
        fail "no delay for $1: $(tail -n 1 "$dir/log/$1.wire.out")"
}

# bucket_of RATE: what may pass at once after a pause, 2 ms of the rate, and what may wait, 100 ms
# of it; but room for some packets, and for what TCP has under way before it knows how slow a link
# is.
bucket_of() {
    case $1 in
    *gbit) bits=${1%gbit}000000000 ;;
    *mbit) bits=${1%mbit}000000 ;;
    *kbit) bits=${1%kbit}000 ;;
    *) bits=${1%bit} ;;
    esac
    case $bits in
    *[!0-9]*) echo "burst 128kb latency 100ms" ;; # in another unit, or a fraction
    *)
        burst=$((bits / 4000)) waits=$((bits / 80))
        echo "burst $((burst > 16384 ? burst : 16384))b limit $((waits > 262144 ? waits : 262144))b"
        ;;
    esac
}

# The lines of `wire` for one node, of those "NUMBER BITS MICROSECONDS NUMBER..." that are for all.
links_of() {
    awk -v number="$1" -v net="$net" '$1 == number {
        line = $2 " " $3
        for (i = 4; i <= NF; i++)
            line = line " " net "." (10 + $i)
        print line
    }' "$dir/links"
}

# Both directions of the link get the rate, what leaves the node the delay, or the links to other
# nodes.
shape() {
    name=$1
    number=${name#n}
    rate='' delay=''
    # shellcheck disable=SC2034 # the rest of the line
    [ ! -e "$dir/shape/$name" ] || read -r rate delay rest <"$dir/shape/$name"
    [ -e "/run/slurm/$name.pid" ] || return 0 # at its next boot
    remove_wire "$name"
    tc qdisc del dev "b$number" root 2>/dev/null
    enter "$name" tc qdisc del dev eth0 root 2>/dev/null
    case $rate in
    '' | 0) ;;
    *)
        bucket="root tbf rate $rate $(bucket_of "$rate")"
        # shellcheck disable=SC2086 # words
        { tc qdisc add dev "b$number" $bucket && enter "$name" tc qdisc add dev eth0 $bucket; } ||
            fail "no rate of $rate for $name"
        ;;
    esac
    case $delay in
    '' | 0) ;;
    links)
        links_of "$number" >"/run/slurm/$name.links"
        insert_wire "$name" 0 "/run/slurm/$name.links"
        ;;
    *) insert_wire "$name" "$delay" ;;
    esac
}

# A database that only this cluster can reach, and slurmdbd, which must stand before slurmctld asks
# it.
accounts() {
    mkdir -p /run/mysqld "$dir/db"
    {
        mariadb-install-db --no-defaults --user=root --datadir="$dir/db" \
            --auth-root-authentication-method=normal --skip-test-db &&
            daemon mariadbd mariadbd --no-defaults --user=root --datadir="$dir/db" \
                --socket=/run/mysqld/mysqld.sock --pid-file=/run/mysqld/pid --skip-networking \
                --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0
    } >>"$dir/log/mariadb.out" 2>&1 || fail "no database: see $dir/log/mariadb.out"
    await 30 [ -S /run/mysqld/mysqld.sock ] || fail "the database does not start: $dir/log/mariadbd.out"
    (slurm_daemon setsid slurmdbd -D </dev/null >>"$dir/log/slurmdbd.out" 2>&1) &
    await 30 sacctmgr -n show cluster || fail "slurmdbd does not answer: see $dir/log/slurmdbd.log"
    sacctmgr -i add cluster virtual >>"$dir/log/sacctmgr.out" 2>&1 ||
        fail "no accounts: see $dir/log/sacctmgr.out"
}

# The cluster ends when its time is over, or when somebody has removed its folder and so lost hold
# of it.
watch() {
    seconds=0
    while [ -e "$dir/settings" ] && { [ "$lifetime" -eq 0 ] || [ $seconds -lt "$lifetime" ]; }; do
        sleep 2
        seconds=$((seconds + 2))
    done
    kill -TERM 1
}

control() {
    trap 'exit 0' TERM
    hostname ctl
    private "$dir/etc/hosts" /etc/hosts
    private "$dir/etc/openmpi-mca-params.conf" /etc/openmpi/openmpi-mca-params.conf
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir -p /run/munge /run/slurm /run/scratch /run/lock
    chmod 755 /run/munge
    ip link set lo up
    ip link add br0 type bridge
    ip addr add "$net.1/24" dev br0
    ip link set br0 up
    daemon munged munged --foreground --force --key-file="$dir/munge/key" \
        --log-file="$dir/log/munged.log" --pid-file=/run/munge/pid --seed-file="$dir/munge/seed"
    await 20 [ -S /run/munge/munge.socket.2 ] || fail "munged does not start: see $dir/log/munged.log"
    [ "$accounting" != yes ] || accounts
    (slurm_daemon setsid slurmctld -D </dev/null >>"$dir/log/slurmctld.out" 2>&1) &
    number=0
    while [ $number -lt "$nodes" ]; do
        number=$((number + 1))
        boot "n$number"
    done
    watch &
    # Process 1 has to wait for all that lost their parents.
    while :; do
        wait
        sleep 1
    done
}

case $verb in
control) control ;;
node) node "$1" ;;
boot) [ ! -e "/run/slurm/$1.pid" ] || fail "node $1 is on already"; boot "$1" ;;
kill) kill_node "$1" ;;
shape) shape "$1" ;;
enter)
    how='exec'
    enter "$@"
    ;;
esac
