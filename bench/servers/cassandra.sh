# A node of Cassandra in this folder, from the jars of @jars@. Commits are in its log before it
# answers; the log is synced every ten seconds, which is Cassandra's default.
set -eu
mkdir -p conf
cp logback.xml conf
cat cassandra.yaml - > conf/cassandra.yaml <<YAML
commitlog_sync: periodic
commitlog_sync_period: 10s
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1:@storage@"
listen_address: 127.0.0.1
storage_port: @storage@
ssl_storage_port: @tls-storage@
rpc_address: 127.0.0.1
native_transport_port: @port@
authenticator: AllowAllAuthenticator
memtable_heap_space: 128MiB
memtable_offheap_space: 128MiB
YAML
# The tests' options, with the optimising compiler, as in production.
exec java $(grep -v TieredStopAtLevel jvm.options) -Dcassandra.config="file://$PWD/conf/cassandra.yaml" \
    -Dcassandra.storagedir="$PWD" -cp "conf:@jars@/*" org.apache.cassandra.service.CassandraDaemon
