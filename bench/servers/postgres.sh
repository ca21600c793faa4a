# A PostgreSQL with the database `shop` in this folder. As another user, since it does not run as root.
set -eu
as=""
[ "$(id -u)" != 0 ] || as="setpriv --reuid postgres --regid postgres --clear-groups"
bin=/usr/lib/postgresql/15/bin
chmod 755 .
# After a kill the data are there.
if mkdir data 2>/dev/null; then
    [ -z "$as" ] || chown postgres data
    $as $bin/initdb -D data --auth=trust --username=app --encoding=UTF8 --locale=C --no-sync
    echo "CREATE DATABASE shop" | $as $bin/postgres --single -F -D data template1
fi
exec $as $bin/postgres -D data -h 127.0.0.1 -p @port@ -k "" -c wal_level=logical -c fsync=off -c shared_buffers=128MB
