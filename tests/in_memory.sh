# Runs a command with its temporary files in memory where 4 GB of it are free, and removes them when the command has ended.
# The quick tests wait for a disk for much of their time, and only a loss of power would tell the two apart.
memory=${MEMORY:-/dev/shm}
free=$(df -Pk "$memory" 2>/dev/null | awk 'NR == 2 { print $4 }')
[ "${free:-0}" -ge 4000000 ] || exec "$@"
TMPDIR=$(mktemp -d "$memory/tests-XXXXXX") || exit
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap : INT           # the command ends first
chmod 711 "$TMPDIR"  # PostgreSQL runs as another user and has its data below
"$@"
